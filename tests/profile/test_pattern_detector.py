"""Access patterns are recognised, and a document that describes no detector is refused."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.errors import BadInput
from forebay.model.observation import Observation
from forebay.model.situation import PATTERNS
from forebay.profile.pattern_detector import (
    classify,
    detect_pattern,
    features,
    likelihoods,
    parse_detector,
    shipped_detector,
    yeo_johnson,
)

SIZE = 256 << 10


def seen(files: int, spread: float, size: int = SIZE) -> Observation:
    return Observation(
        seconds=1.0, files=files, reads=900, smallest=size, mean=float(size), largest=size, spread=spread, distance=7.0
    )


@pytest.mark.parametrize("by", ["network", "tree"])
def test_plain_cases_are_recognised(by: Any) -> None:
    rows = features([seen(64, 0.0), seen(1, 0.33), seen(1, 0.01)])
    assert [PATTERNS[at] for at in classify(rows, shipped_detector(), by)] == list(PATTERNS)


def test_a_period_in_which_nothing_happened_shows_no_pattern() -> None:
    assert detect_pattern(Observation(seconds=1.0)) is None
    assert detect_pattern(seen(64, 0.0)) == "file-per-process"


def test_the_shipped_detector_says_how_it_was_made_and_how_good_it_is() -> None:
    document = shipped_detector().document
    assert document["recipe"]["held-out sizes"]["processes"]
    for by in ("network", "tree"):
        for judged in document["results"][by].values():
            confusion = np.array(judged["confusion"])
            assert judged["accuracy"] == pytest.approx(np.trace(confusion) / confusion.sum())
        assert document["results"][by]["held out"]["accuracy"] > 0.95
    best = max(("network", "tree"), key=lambda by: document["results"][by]["held out"]["accuracy"])
    assert shipped_detector().default == best


def test_no_held_out_size_was_trained_on() -> None:
    recipe = shipped_detector().document["recipe"]
    for key, sizes in recipe["training sizes"].items():
        assert not set(sizes) & set(recipe["held-out sizes"][key])


ROWS = st.lists(
    st.tuples(st.integers(1, 5000), *[st.floats(1, 1e9)] * 3, st.floats(0, 1)), min_size=1, max_size=20
).map(lambda rows: np.array(rows, dtype=float))


@given(ROWS)
@pytest.mark.parametrize("by", ["network", "tree"])
def test_likelihoods_are_shares_and_one_row_says_nothing_of_another(by: Any, rows: Any) -> None:
    found = likelihoods(rows, shipped_detector(), by)
    assert found.shape == (len(rows), 3) and (found >= 0).all() and found.sum(axis=1) == pytest.approx(1.0)
    alone = np.concatenate([likelihoods(row[None], shipped_detector(), by) for row in rows])
    assert found == pytest.approx(alone, rel=1e-9, abs=1e-12)


@given(ROWS)
def test_the_tree_is_walked_as_by_hand(rows: Any) -> None:
    told = shipped_detector().document["tree"]
    for row, found in zip(rows, likelihoods(rows, shipped_detector(), "tree"), strict=True):
        node = 0
        while told["left"][node] >= 0:
            low = float(np.float32(row[told["feature"][node]])) <= told["threshold"][node]
            node = told["left" if low else "right"][node]
        assert found.tolist() == told["shares"][node]


@given(st.floats(0, 1e9), st.floats(-3, 3))
def test_bending_keeps_the_order_and_zero(value: float, power: float) -> None:
    bent = yeo_johnson(np.array([[0.0], [value], [value + 1 + value / 2]]), np.array([power]))[:, 0]
    assert bent[0] == 0 and bent[1] >= 0 and bent[2] >= bent[1] * (1 - 1e-12)


def change(path: str, value: Any) -> Callable[[Any], Any]:
    def changed(document: Any) -> Any:
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        place = document
        for key in way:
            place = place[key]
        place[last] = value
        return document

    return changed


NONSENSE: dict[str, Callable[[Any], Any]] = {
    "w.json: must be a JSON object": lambda _: 3,
    "w.json: version: must be 1": change("version", 2),
    "w.json: classes: must be ": change("classes", ["a"]),
    "w.json: features: must be ": change("features", []),
    "w.json: default: must be 'network' or 'tree'": change("default", "forest"),
    "w.json: network: must be a JSON object": change("network", None),
    "w.json: network.powers: has impossible values": change("network.powers", [1.0]),
    "w.json: network.powers: must be a list of numbers": change("network.powers", ["a"] * 5),
    "w.json: network.scale: has impossible values": change("network.scale.0", 0.0),
    "w.json: network.centre: has impossible values": change("network.centre.0", float("nan")),
    "w.json: network.hidden: has impossible values": change("network.hidden", [[1.0]]),
    "w.json: network.output_bias: ": change("network.output_bias", "x"),
    "w.json: tree: left and right must be later nodes": change("tree.left.0", 0),
    "w.json: tree.right: has impossible values": change("tree.right", [1]),
    "w.json: tree.feature: has impossible values": change("tree.feature.0", 9),
    "w.json: tree.shares: has impossible values": change("tree.shares.0", [-1.0, 1.0, 1.0]),
    "w.json: tree.shares: must be a list of numbers": change("tree.shares.0", [1.0]),
}


@pytest.mark.parametrize("complaint", NONSENSE)
def test_what_is_no_detector_is_refused(complaint: str) -> None:
    document = NONSENSE[complaint](deepcopy(shipped_detector().document))
    with pytest.raises(BadInput) as raised:
        parse_detector(document, "w.json")
    assert str(raised.value).startswith(complaint) and "\n" not in str(raised.value)


def test_a_document_comes_back_from_a_file() -> None:
    again = parse_detector(json.loads(json.dumps(shipped_detector().document)), "w.json")
    rows = features([seen(3, 0.0), seen(1, 0.2)])
    assert np.array_equal(likelihoods(rows, again), likelihoods(rows, shipped_detector()))
