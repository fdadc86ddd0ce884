"""Trains the pattern detector. Only this module needs scikit-learn."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from forebay.model.arrays import Floats, Ints
from forebay.model.errors import BadInput, UserError
from forebay.model.observation import Observation
from forebay.model.situation import PATTERNS
from forebay.profile.pattern_detector import FEATURES, VERSION, Classifier, Detector, classify, features, parse_detector

Labelled = Sequence[tuple[Observation, str]]
Document = dict[str, Any]
"""The input of `parse_detector`, with the recipe and the results of the training."""
TEST_SHARE = 0.3
# Bez et al. 2019, section 5.1: batches of 32 and a rate of 0.001; Adam stands for RMSProp, which scikit-learn lacks.
_NEURONS, _BATCH, _RATE = 5, 32, 0.001
_DEPTH = 5
_STARTS = 3  # a small network may start badly: the one with the smallest training loss is kept


def train(
    data: Labelled, held_out: Labelled, *, recipe: Mapping[str, object], seed: int = 0, epochs: int = 50
) -> Document:
    """Train a detector on `data`, of which 30 % are reserved for testing; returns its document.

    `held_out` has periods with other files, requests and processes than `data`. The classifier that does better on it
    becomes the default. Confusion matrices have a row for each detected and a column for each true class.
    """
    rows, classes = _rows(data, "data")
    unseen, unseen_classes = _rows(held_out, "held_out")
    learn, test = _split(classes, seed)
    document: Document = {
        "version": VERSION,
        "classes": list(PATTERNS),
        "features": list(FEATURES),
        "default": "network",
        "recipe": {**recipe, "seed": seed, "epochs": epochs, "network": "5-5-3", "tree": f"depth {_DEPTH}"},
        "network": network_numbers(*fit_network(rows[learn], classes[learn], seed, epochs)),
        "tree": tree_numbers(fit_tree(rows[learn], classes[learn], seed)),
    }
    sets = {"training": (rows[learn], classes[learn]), "testing": (rows[test], classes[test])}
    return _evaluate(document, {**sets, "held out": (unseen, unseen_classes)})


def fit_network(rows: Floats, classes: Ints, seed: int, epochs: int) -> tuple[Any, Any]:
    _require_sklearn()
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import PowerTransformer

    transform = PowerTransformer(method="yeo-johnson", standardize=True).fit(rows)
    best: Any = None
    for start in range(_STARTS):
        network = MLPClassifier(
            hidden_layer_sizes=(_NEURONS,),
            batch_size=min(_BATCH, len(rows)),
            learning_rate_init=_RATE,
            max_iter=epochs,
            random_state=seed + start,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it suggests more epochs
            network.fit(transform.transform(rows), classes)
        best = network if best is None or network.loss_ < best.loss_ else best
    return transform, best


def fit_tree(rows: Floats, classes: Ints, seed: int) -> Any:
    _require_sklearn()
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=_DEPTH, random_state=seed).fit(rows, classes)


def network_numbers(transform: Any, network: Any) -> Document:
    """The numbers of transform and network, to use them without scikit-learn."""
    (hidden, output), (hidden_bias, output_bias) = network.coefs_, network.intercepts_
    arrays = {
        "powers": transform.lambdas_,
        "centre": transform._scaler.mean_,
        "scale": transform._scaler.scale_,
        "hidden": hidden,
        "hidden_bias": hidden_bias,
        "output": output,
        "output_bias": output_bias,
    }
    return {key: np.asarray(value).tolist() for key, value in arrays.items()}


def tree_numbers(classifier: Any) -> Document:
    """The numbers of the tree, to use it without scikit-learn."""
    tree = classifier.tree_
    arrays = {
        "feature": tree.feature,
        "threshold": tree.threshold,
        "left": tree.children_left,
        "right": tree.children_right,
        "shares": tree.value[:, 0, :],
    }
    return {key: value.tolist() for key, value in arrays.items()}


def _evaluate(document: Document, sets: Mapping[str, tuple[Floats, Ints]]) -> Document:
    """Add results to the document, and make the better classifier the default; of equals, the paper's."""
    trained = parse_detector(document, "training")
    kinds: tuple[Classifier, ...] = ("network", "tree")
    results = {by: {name: _result(trained, by, *rows) for name, rows in sets.items()} for by in kinds}
    held_out = {by: results[by]["held out"]["accuracy"] for by in results}
    default = "tree" if held_out["tree"] > held_out["network"] else "network"
    return {**document, "default": default, "results": results}


def _result(trained: Detector, by: Classifier, rows: Floats, classes: Ints) -> Document:
    detected = classify(rows, trained, by)
    confusion = np.zeros((len(PATTERNS), len(PATTERNS)), dtype=np.int64)
    np.add.at(confusion, (detected, classes), 1)
    return {"accuracy": float((detected == classes).mean()), "confusion": confusion.tolist()}


def _rows(data: Labelled, name: str) -> tuple[Floats, Ints]:
    """Features and the indices of classes; each class must occur."""
    data = [(period, label) for period, label in data if period.requests]
    for label in sorted({label for _, label in data} - set(PATTERNS)):
        raise BadInput(name, f"unknown access pattern {label!r}; use one of: {', '.join(PATTERNS)}")
    for label in PATTERNS:
        if sum(label == other for _, other in data) < 2:
            raise BadInput(name, f"needs at least two periods with requests of pattern {label}")
    return features(period for period, _ in data), np.array([PATTERNS.index(label) for _, label in data])


def _split(classes: Ints, seed: int) -> tuple[Ints, Ints]:
    """Split indices into training and testing: 30 % of each class are for testing, and both have at least one."""
    rng = np.random.default_rng(seed)
    places = [rng.permutation(np.flatnonzero(classes == number)) for number in range(len(PATTERNS))]
    cuts = [min(max(round(TEST_SHARE * of_class.size), 1), of_class.size - 1) for of_class in places]
    learn = np.concatenate([of_class[cut:] for of_class, cut in zip(places, cuts, strict=True)])
    test = np.concatenate([of_class[:cut] for of_class, cut in zip(places, cuts, strict=True)])
    return rng.permutation(learn), rng.permutation(test)


def _require_sklearn(find: Callable[[str], object] = find_spec) -> None:
    if find("sklearn") is None:
        raise UserError("training needs scikit-learn: pip install 'forebay[train]'")
