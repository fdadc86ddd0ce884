"""Training what recognises access patterns: the one place that needs scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from forebay.model.errors import BadInput, UserError
from forebay.model.observation import Observation
from forebay.model.situation import PATTERNS
from forebay.profile.pattern_detector import FEATURES, VERSION, Detector, classify, features, parse_detector

Labelled = Sequence[tuple[Observation, str]]
TEST_SHARE = 0.3
# Bez et al. 2019, section 5.1: batches of 32 and a rate of 0.001; Adam stands for RMSProp, which scikit-learn lacks.
_NEURONS, _BATCH, _RATE = 5, 32, 0.001
_DEPTH = 5
_STARTS = 3  # networks so small can start badly: the best of some, by what they learn from


def train(data: Labelled, held_out: Labelled, *, recipe: Mapping[str, object], seed: int = 0, epochs: int = 50) -> Any:
    """The document of a detector for `data`, of which 30 % are kept back for testing.

    `held_out` has periods of files, requests and processes such as are not in `data`: the classifier that does
    better on it becomes the default. Confusion matrices have a row for each detected and a column for each true class.
    """
    rows, classes = _rows(data, "data")
    unseen, unseen_classes = _rows(held_out, "held_out")
    learn, test = _split(classes, seed)
    document: dict[str, Any] = {
        "version": VERSION,
        "classes": list(PATTERNS),
        "features": list(FEATURES),
        "default": "network",
        "recipe": {**recipe, "seed": seed, "epochs": epochs, "network": "5-5-3", "tree": f"depth {_DEPTH}"},
        "network": network_numbers(*fit_network(rows[learn], classes[learn], seed, epochs)),
        "tree": tree_numbers(fit_tree(rows[learn], classes[learn], seed)),
    }
    sets = {"training": (rows[learn], classes[learn]), "testing": (rows[test], classes[test])}
    return _judged(document, {**sets, "held out": (unseen, unseen_classes)})


def fit_network(rows: Any, classes: Any, seed: int, epochs: int) -> tuple[Any, Any]:
    """scikit-learn's transformation and network."""
    _needs_sklearn()
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import PowerTransformer

    transform = PowerTransformer(method="yeo-johnson", standardize=True).fit(rows)
    best: Any = None
    for start in range(_STARTS):
        made = MLPClassifier(
            hidden_layer_sizes=(_NEURONS,),
            batch_size=min(_BATCH, len(rows)),
            learning_rate_init=_RATE,
            max_iter=epochs,
            random_state=seed + start,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it could train for longer
            made.fit(transform.transform(rows), classes)
        best = made if best is None or made.loss_ < best.loss_ else best
    return transform, best


def fit_tree(rows: Any, classes: Any, seed: int) -> Any:
    """scikit-learn's tree."""
    _needs_sklearn()
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=_DEPTH, random_state=seed).fit(rows, classes)


def network_numbers(transform: Any, network: Any) -> dict[str, Any]:
    """All that it takes to use them without scikit-learn."""
    (hidden, output), (hidden_bias, output_bias) = network.coefs_, network.intercepts_
    found = {
        "powers": transform.lambdas_,
        "centre": transform._scaler.mean_,
        "scale": transform._scaler.scale_,
        "hidden": hidden,
        "hidden_bias": hidden_bias,
        "output": output,
        "output_bias": output_bias,
    }
    return {key: np.asarray(value).tolist() for key, value in found.items()}


def tree_numbers(made: Any) -> dict[str, Any]:
    """All that it takes to use it without scikit-learn."""
    tree = made.tree_
    found = {
        "feature": tree.feature,
        "threshold": tree.threshold,
        "left": tree.children_left,
        "right": tree.children_right,
        "shares": tree.value[:, 0, :],
    }
    return {key: value.tolist() for key, value in found.items()}


def _judged(document: dict[str, Any], sets: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """With results, and with the better of both as the default; of equals, the paper's."""
    made = parse_detector(document, "training")
    results = {by: {name: _result(made, by, *rows) for name, rows in sets.items()} for by in ("network", "tree")}
    held_out = {by: results[by]["held out"]["accuracy"] for by in results}
    default = "tree" if held_out["tree"] > held_out["network"] else "network"
    return {**document, "default": default, "results": results}


def _result(made: Detector, by: Any, rows: Any, classes: Any) -> dict[str, Any]:
    found = classify(rows, made, by)
    confusion = np.zeros((len(PATTERNS), len(PATTERNS)), dtype=np.int64)
    np.add.at(confusion, (found, classes), 1)
    return {"accuracy": float((found == classes).mean()), "confusion": confusion.tolist()}


def _rows(data: Labelled, name: str) -> tuple[Any, Any]:
    """Features and numbers of classes; each class must be there."""
    data = [(seen, label) for seen, label in data if seen.requests]
    for label in sorted({label for _, label in data} - set(PATTERNS)):
        raise BadInput(name, f"no access pattern is called {label!r}; there are: {', '.join(PATTERNS)}")
    for label in PATTERNS:
        if sum(label == other for _, other in data) < 2:
            raise BadInput(name, f"needs two periods with requests at least of pattern {label}")
    return features(seen for seen, _ in data), np.array([PATTERNS.index(label) for _, label in data])


def _split(classes: Any, seed: int) -> tuple[Any, Any]:
    """Places to learn from and to test on: of each class, 30 % for testing, and one of each at least for both."""
    rng = np.random.default_rng(seed)
    learn, test = [], []
    for number in range(len(PATTERNS)):
        places = rng.permutation(np.flatnonzero(classes == number))
        kept = min(max(round(TEST_SHARE * places.size), 1), places.size - 1)
        test.append(places[:kept])
        learn.append(places[kept:])
    return rng.permutation(np.concatenate(learn)), rng.permutation(np.concatenate(test))


def _needs_sklearn(found: Callable[[str], object] = find_spec) -> None:
    if found("sklearn") is None:
        raise UserError("training needs scikit-learn: pip install 'forebay[train]'")
