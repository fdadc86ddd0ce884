"""`forebay forward train` as a user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from forebay.model.situation import PATTERNS
from forebay.profile.pattern_detector import parse_detector
from support.command import Forebay


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.chdir(tmp_path)
    return Forebay(capfd, monkeypatch)


def test_weights_are_trained_written_and_told(forebay: Forebay, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    ran = forebay("forward", "train", "--scenarios", 30, "--seed", 3, "--workers", 1)
    assert (ran.code, ran.err) == (0, "")
    document = json.loads((tmp_path / "pattern.json").read_text(encoding="utf-8"))
    made = parse_detector(document, "pattern.json")
    assert document["recipe"]["scenarios"] == 30 and document["recipe"]["seed"] == 3
    assert f"written: pattern.json; default: the {made.default}" in ran.out
    for by, results in document["results"].items():
        assert f"{by}: rows are detected patterns" in ran.out
        for name, own in results.items():
            counts = own["confusion"]
            assert own["accuracy"] == sum(counts[k][k] for k in range(3)) / sum(map(sum, counts))
            assert f"{100 * own['accuracy']:.2f} %" in ran.out and name in ran.out
    assert all(pattern in ran.out for pattern in PATTERNS)
    assert list(tmp_path.iterdir()) == [tmp_path / "pattern.json"]


def test_json_is_one_document_and_the_same_with_any_number_of_workers(forebay: Forebay, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    options = ("forward", "train", "--scenarios", 30, "--json", "--out")
    first = forebay(*options, tmp_path / "a.json", "--workers", 1).json
    assert first["file"] == str(tmp_path / "a.json") and set(first["results"]) == {"network", "tree"}
    assert first["default"] in ("network", "tree") and first["recipe"]["data"].startswith("simulated")
    second = forebay(*options, tmp_path / "b.json", "--workers", 2).json
    assert second | {"file": ""} == first | {"file": ""}
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_scikit_learn_that_is_missing_is_named_before_anything_runs(
    forebay: Forebay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr("forebay.simulate.requests.training_data.document", lambda *_, **__: pytest.fail("ran"))
    ran = forebay("forward", "train")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "forebay: training needs scikit-learn: pip install 'forebay[train]'\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "."), "--out: . is a folder"),
        (("--out", "nowhere/pattern.json"), "--out: the folder nowhere does not exist"),
        (("--scenarios", "3"), "'--scenarios'"),
        (("--seed", "-1"), "'--seed'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(forebay: Forebay, options: tuple[str, ...], message: str) -> None:
    ran = forebay("forward", "train", *options)
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and ran.err.count("\n") == 1
