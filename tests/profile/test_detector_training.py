"""Training gives what can be used without scikit-learn, exactly."""

import json
from typing import Any

import numpy as np
import pytest

from forebay.model.errors import BadInput, UserError
from forebay.model.observation import Observation
from forebay.model.situation import PATTERNS
from forebay.profile import detector_training as training
from forebay.profile.detector_training import fit_network, fit_tree, network_numbers, train, tree_numbers
from forebay.profile.pattern_detector import classify, features, likelihoods, parse_detector
from support.patterns import made_up


def data(count: int = 150, seed: int = 0) -> list[tuple[Observation, str]]:
    return made_up(count, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def document() -> Any:
    return train(data(), data(40, seed=1), recipe={"data": "made up"}, epochs=60)


def test_inference_equals_that_of_scikit_learn(document: Any) -> None:
    examples = data()
    rows, classes = features(seen for seen, _ in examples), np.array([PATTERNS.index(label) for _, label in examples])
    transform, network = fit_network(rows, classes, 0, 30)
    tree = fit_tree(rows, classes, 0)
    ours = parse_detector(
        {**document, "network": network_numbers(transform, network), "tree": tree_numbers(tree)}, "here"
    )
    others = features(seen for seen, _ in data(100, seed=7))
    theirs = transform.transform(others)
    assert np.array_equal(classify(others, ours, "network"), network.predict(theirs))
    assert likelihoods(others, ours, "network") == pytest.approx(network.predict_proba(theirs), rel=1e-12, abs=1e-15)
    assert np.array_equal(likelihoods(others, ours, "tree"), tree.predict_proba(others))
    assert np.array_equal(classify(others, ours, "tree"), tree.predict(others))


def test_values_on_a_threshold_fall_where_scikit_learn_has_them(document: Any) -> None:
    examples = data()
    rows, classes = features(seen for seen, _ in examples), np.array([PATTERNS.index(label) for _, label in examples])
    tree = fit_tree(rows, classes, 0)
    ours = parse_detector({**document, "tree": tree_numbers(tree)}, "here")
    edges = [
        (feature, np.nextafter(np.float64(edge), side))
        for feature, edge in zip(tree.tree_.feature, tree.tree_.threshold, strict=True)
        if feature >= 0
        for side in (-np.inf, np.inf, edge)
    ]
    at_edges = np.repeat(rows[:5], len(edges), axis=0)
    for at, row in enumerate(at_edges):
        feature, value = edges[at % len(edges)]
        row[feature] = value
    assert np.array_equal(likelihoods(at_edges, ours, "tree"), tree.predict_proba(at_edges))


def test_the_document_has_the_recipe_and_what_came_of_it(document: Any) -> None:
    assert document["recipe"]["data"] == "made up" and document["recipe"]["epochs"] == 60
    for by in ("network", "tree"):
        sizes = {name: np.sum(judged["confusion"]) for name, judged in document["results"][by].items()}
        assert sizes == {"training": 315, "testing": 135, "held out": 120}
        assert document["results"][by]["testing"]["accuracy"] > 0.9
    held_out = {by: document["results"][by]["held out"]["accuracy"] for by in ("network", "tree")}
    assert document["default"] == ("tree" if held_out["tree"] > held_out["network"] else "network")
    assert parse_detector(json.loads(json.dumps(document)), "here").default == document["default"]


def test_rows_of_a_confusion_matrix_are_what_was_detected(document: Any) -> None:
    made, examples = parse_detector(document, "here"), data(40, seed=1)
    found = classify(features(seen for seen, _ in examples), made, "tree")
    confusion = document["results"]["tree"]["held out"]["confusion"]
    for detected in range(3):
        for true, name in enumerate(PATTERNS):
            count = sum(f == detected and label == name for f, (_, label) in zip(found, examples, strict=True))
            assert confusion[detected][true] == count


def test_training_twice_gives_the_same(document: Any) -> None:
    assert train(data(), data(40, seed=1), recipe={"data": "made up"}, epochs=60) == document


def test_the_split_keeps_three_tenths_of_each_class_back() -> None:
    classes = np.array([0] * 10 + [1] * 100 + [2] * 3)
    learn, test = training._split(classes, 0)
    assert sorted([*learn, *test]) == list(range(113))
    assert np.bincount(classes[test]).tolist() == [3, 30, 1]


def test_data_that_can_t_be_trained_on_are_refused() -> None:
    with pytest.raises(BadInput, match="data: unknown access pattern 'odd'"):
        train([*data(3), (data(1)[0][0], "odd")], data(3), recipe={})
    with pytest.raises(BadInput, match="held_out: needs at least two periods with requests of pattern file-per"):
        train(data(3), [(Observation(seconds=1.0), "file-per-process")] * 5, recipe={})


def test_without_scikit_learn_one_is_told_what_to_install() -> None:
    with pytest.raises(UserError, match=r"pip install 'forebay\[train\]'"):
        training._require_sklearn(lambda _: None)
