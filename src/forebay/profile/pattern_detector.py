"""Which access pattern a period at an I/O node shows (Bez et al. 2019, section 5).

Two classifiers, trained by `detector_training` and read from one JSON document: a network of five features, five
hidden neurons and three classes, and a decision tree of depth five. Neither needs scikit-learn here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np

from forebay.model.errors import BadInput, why
from forebay.model.observation import Observation
from forebay.model.situation import PATTERNS

FEATURES = ("files", "smallest", "mean", "largest", "spread")
"""Of an `Observation`. The paper has the distance between requests in bytes, from which one learns the files' sizes."""
VERSION = 1
Classifier = Literal["network", "tree"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Yeo-Johnson by feature, centred and scaled; then two layers, of which the first is cut off below 0."""

    powers: Any
    centre: Any
    scale: Any
    hidden: Any
    hidden_bias: Any
    output: Any
    output_bias: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tree:
    """From node 0: to `left` if the feature is at most the threshold, else to `right`; a leaf has -1 for both."""

    feature: Any
    threshold: Any
    left: Any
    right: Any
    shares: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Detector:
    """Both classifiers, the one that is used, and the document that they were read from."""

    network: Network
    tree: Tree
    default: Classifier
    document: Mapping[str, Any]


def detect_pattern(observed: Observation, detector: Detector | None = None) -> str | None:
    """One of PATTERNS; None if nothing was observed.

    >>> detect_pattern(Observation(seconds=1.0))
    """
    if not observed.requests:
        return None
    return PATTERNS[int(classify(features([observed]), detector or shipped_detector())[0])]


def features(periods: Iterable[Observation]) -> Any:
    """One row for each period, with a column for each of FEATURES."""
    rows = [[float(getattr(seen, name)) for name in FEATURES] for seen in periods]
    return np.array(rows, dtype=np.float64).reshape(-1, len(FEATURES))


def classify(rows: Any, detector: Detector, by: Classifier | None = None) -> Any:
    """The number in PATTERNS of the likeliest class for each row of features; of several, the first."""
    return np.argmax(likelihoods(rows, detector, by), axis=1)


def likelihoods(rows: Any, detector: Detector, by: Classifier | None = None) -> Any:
    """Of each class, a column, for each row of features."""
    if (by or detector.default) == "tree":
        return _by_tree(detector.tree, rows)
    return _by_network(detector.network, rows)


def _by_network(network: Network, rows: Any) -> Any:
    given = (yeo_johnson(rows, network.powers) - network.centre) / network.scale
    hidden = np.maximum(given @ network.hidden + network.hidden_bias, 0)
    output = hidden @ network.output + network.output_bias
    output = np.exp(output - output.max(axis=1, keepdims=True))
    return output / output.sum(axis=1, keepdims=True)


def yeo_johnson(rows: Any, powers: Any) -> Any:
    """Each column bent by its power, until its values lie like a bell (Yeo and Johnson 2000); no value is negative.

    >>> yeo_johnson(np.array([[0.0, 3.0]]), np.array([0.0, 0.5])).round(6).tolist()
    [[0.0, 2.0]]
    """
    bent = np.empty_like(rows)
    for column, power in enumerate(powers):
        # Near 0 the formula is a difference of equals: there the logarithm is it.
        log = np.log1p(rows[:, column])
        bent[:, column] = log if abs(power) < np.spacing(1.0) else np.expm1(power * log) / power
    return bent


def _by_tree(tree: Tree, rows: Any) -> Any:
    # Trees were grown on single precision, and a value must fall on the side it fell on then.
    given = rows.astype(np.float32)
    at = np.zeros(len(rows), dtype=np.int64)
    every = np.arange(len(rows))
    while (tree.left[at] >= 0).any():
        inner = tree.left[at] >= 0
        low = given[every, np.maximum(tree.feature[at], 0)] <= tree.threshold[at]
        at = np.where(inner, np.where(low, tree.left[at], tree.right[at]), at)
    return tree.shares[at]


@cache
def shipped_detector() -> Detector:
    """That which comes with Forebay; `document` says how it was trained and how well it does."""
    text = (files("forebay") / "profile" / "weights" / "pattern.json").read_text()
    return parse_detector(json.loads(text), "pattern.json")


def read_detector(path: Path) -> Detector:
    """That of a file that `forebay forward train` wrote."""
    try:
        return parse_detector(json.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    except ValueError as error:
        raise BadInput(str(path), f"is not JSON: {error}") from None


def parse_detector(document: object, where: str) -> Detector:
    """The detector in a document of `detector_training`; errors say `where` it is from."""
    top = _table(document, where)
    for key, value in (("version", VERSION), ("classes", list(PATTERNS)), ("features", list(FEATURES))):
        if top.get(key) != value:
            raise BadInput(f"{where}: {key}", f"must be {value}")
    if top.get("default") not in ("network", "tree"):
        raise BadInput(f"{where}: default", "must be 'network' or 'tree'")
    network = _network(_table(top.get("network"), f"{where}: network"), f"{where}: network")
    tree = _tree(_table(top.get("tree"), f"{where}: tree"), f"{where}: tree")
    return Detector(network=network, tree=tree, default=top["default"], document=top)


def _network(told: Mapping[str, Any], where: str) -> Network:
    inputs, classes = len(FEATURES), len(PATTERNS)
    hidden = _numbers(told, "hidden_bias", where, (-1,))
    neurons = hidden.size
    return Network(
        powers=_numbers(told, "powers", where, (inputs,)),
        centre=_numbers(told, "centre", where, (inputs,)),
        scale=_numbers(told, "scale", where, (inputs,), lambda scale: scale > 0),
        hidden=_numbers(told, "hidden", where, (inputs, neurons)),
        hidden_bias=hidden,
        output=_numbers(told, "output", where, (neurons, classes)),
        output_bias=_numbers(told, "output_bias", where, (classes,)),
    )


def _tree(told: Mapping[str, Any], where: str) -> Tree:
    left = _numbers(told, "left", where, (-1,))
    nodes, own = left.size, np.arange(left.size)
    right = _numbers(told, "right", where, (nodes,))
    # A child comes after its parent, so that every way down ends.
    good = ((left > own) & (right > own) & (left < nodes) & (right < nodes)) | ((left == -1) & (right == -1))
    if not nodes or not good.all():
        raise BadInput(where, "left and right must name later nodes, or be -1 both")
    feature = _numbers(told, "feature", where, (nodes,), lambda f: (f >= 0) & (f < len(FEATURES)) | (left < 0))
    return Tree(
        feature=feature.astype(np.int64),
        threshold=_numbers(told, "threshold", where, (nodes,)),
        left=left.astype(np.int64),
        right=right.astype(np.int64),
        shares=_numbers(told, "shares", where, (nodes, len(PATTERNS)), lambda shares: shares >= 0),
    )


def _numbers(
    told: Mapping[str, Any], key: str, where: str, shape: tuple[int, ...], good: Callable[[Any], Any] = np.isfinite
) -> Any:
    try:
        found = np.array(told.get(key), dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{where}.{key}", "must be a list of numbers") from None
    fits = found.ndim == len(shape) and all(want in (-1, got) for want, got in zip(shape, found.shape, strict=True))
    if not fits or not np.isfinite(found).all() or not np.all(good(found)):
        raise BadInput(f"{where}.{key}", "does not have the numbers that belong there")
    return found


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(where, "must be a JSON object")
    return value
