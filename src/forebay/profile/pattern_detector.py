"""Detects the access pattern of a period at an I/O node (Bez et al. 2019, section 5).

`detector_training` trains two classifiers and writes them into one JSON document: a network of five features, five
hidden neurons and three classes, and a decision tree of depth five. Neither needs scikit-learn here.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forebay.history.regular_files import check_regular
from forebay.model.arrays import Floats
from forebay.model.errors import BadInput, why
from forebay.model.observation import Observation
from forebay.model.situation import PATTERNS

FEATURES = ("files", "smallest", "mean", "largest", "spread")
"""Fields of an `Observation`. The paper has the distance in bytes in place of `spread`; it depends on file sizes."""
VERSION = 1
_NETWORK = {
    **dict.fromkeys(("powers", "centre", "scale"), "features"),
    "hidden_bias": "neurons",
    "hidden": "features neurons",
    "output": "neurons classes",
    "output_bias": "classes",
}
"""The network's arrays with the names of their dimensions: a Yeo-Johnson transform of each feature, centred and scaled;
then two layers, the first with ReLU."""
_TREE = {**dict.fromkeys(("left", "right", "feature", "threshold"), "nodes"), "shares": "nodes classes"}
"""The tree's arrays. From node 0, go `left` if the feature is at most the threshold, else `right`; a leaf has -1."""
Classifier = Literal["network", "tree"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Detector:
    """Both classifiers, the default one, and the document that they come from."""

    network: Mapping[str, Floats]
    tree: Mapping[str, Floats]
    default: Classifier
    document: Mapping[str, Any]


def detect_pattern(observed: Observation, detector: Detector | None = None) -> str | None:
    """The detected pattern, one of PATTERNS; None without requests.

    >>> detect_pattern(Observation(seconds=1.0))
    """
    if not observed.requests:
        return None
    return PATTERNS[int(classify(features([observed]), detector or shipped_detector())[0])]


def features(periods: Iterable[Observation]) -> Floats:
    """One row for each period, with a column for each of FEATURES."""
    rows = [[float(getattr(period, name)) for name in FEATURES] for period in periods]
    return np.array(rows, dtype=np.float64).reshape(-1, len(FEATURES))


def classify(rows: Floats, detector: Detector, by: Classifier | None = None) -> NDArray[np.intp]:
    """The index in PATTERNS of the most likely class for each row of features; of equals, the first."""
    most_likely: NDArray[np.intp] = np.argmax(likelihoods(rows, detector, by), axis=1)
    return most_likely


def likelihoods(rows: Floats, detector: Detector, by: Classifier | None = None) -> Floats:
    """The likelihood of each class (a column) for each row of features."""
    if (by or detector.default) == "tree":
        return _by_tree(detector.tree, rows)
    return _by_network(detector.network, rows)


def _by_network(network: Mapping[str, Floats], rows: Floats) -> Floats:
    normalised = (yeo_johnson(rows, network["powers"]) - network["centre"]) / network["scale"]
    hidden = np.maximum(normalised @ network["hidden"] + network["hidden_bias"], 0)
    output = hidden @ network["output"] + network["output_bias"]
    output = np.exp(output - output.max(axis=1, keepdims=True))
    shares: Floats = output / output.sum(axis=1, keepdims=True)
    return shares


def yeo_johnson(rows: Floats, powers: Floats) -> Floats:
    """Transform each column by its power towards a normal distribution (Yeo and Johnson 2000); values are 0 or more.

    >>> yeo_johnson(np.array([[0.0, 3.0]]), np.array([0.0, 0.5])).round(6).tolist()
    [[0.0, 2.0]]
    """
    transformed = np.empty_like(rows)
    for column, power in enumerate(powers):
        # Near a power of 0 the formula loses all digits; its limit is the logarithm.
        log = np.log1p(rows[:, column])
        transformed[:, column] = log if abs(power) < np.spacing(1.0) else np.expm1(power * log) / power
    return transformed


def _by_tree(tree: Mapping[str, Any], rows: Floats) -> Floats:
    # Training uses single precision, and a value must fall on the same side here.
    features = rows.astype(np.float32)
    at = np.zeros(len(rows), dtype=np.int64)
    numbers = np.arange(len(rows))
    while (inner := tree["left"][at] >= 0).any():
        low = features[numbers, np.maximum(tree["feature"][at], 0)] <= tree["threshold"][at]
        at = np.where(inner, np.where(low, tree["left"][at], tree["right"][at]), at)
    shares: Floats = tree["shares"][at]
    return shares


@cache
def shipped_detector() -> Detector:
    """The detector that comes with Forebay; its `document` says how it was trained and how accurate it is."""
    text = (files("forebay") / "profile" / "weights" / "pattern.json").read_text()
    return parse_detector(json.loads(text), "pattern.json")


def read_detector(path: Path) -> Detector:
    """Read a detector from a file of `forebay forward train`."""
    try:
        check_regular(path, pipes=True)
        return parse_detector(json.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    except ValueError as error:
        raise BadInput(str(path), f"is not JSON: {error}") from None


def parse_detector(document: object, where: str) -> Detector:
    """Check a document of `detector_training`; errors name its origin, `where`."""
    if not isinstance(document, dict):
        raise BadInput(where, "must be a JSON object")
    for key, value in (("version", VERSION), ("classes", list(PATTERNS)), ("features", list(FEATURES))):
        if document.get(key) != value:
            raise BadInput(f"{where}: {key}", f"must be {value}")
    if document.get("default") not in ("network", "tree"):
        raise BadInput(f"{where}: default", "must be 'network' or 'tree'")
    network = _parse_arrays(document.get("network"), f"{where}: network", _NETWORK)
    _require(network["scale"] > 0, f"{where}: network.scale")
    tree = _parse_arrays(document.get("tree"), f"{where}: tree", _TREE)
    left, right, nodes = tree["left"], tree["right"], tree["left"].size
    # A child must come after its parent, so that every path ends.
    later = (np.minimum(left, right) > np.arange(nodes)) & (np.maximum(left, right) < nodes)
    if not nodes or not (later | ((left == -1) & (right == -1))).all():
        raise BadInput(f"{where}: tree", "left and right must be later nodes, or both -1")
    feature = tree["feature"]
    _require((feature >= 0) & (feature < len(FEATURES)) | (left < 0), f"{where}: tree.feature")
    _require(tree["shares"] >= 0, f"{where}: tree.shares")
    whole = {key: tree[key].astype(np.int64) for key in ("feature", "left", "right")}
    return Detector(network=network, tree=tree | whole, default=document["default"], document=document)


def _parse_arrays(table: object, where: str, shapes: Mapping[str, str]) -> dict[str, Any]:
    """Arrays of numbers, by key; the lengths of their dimensions must agree."""
    if not isinstance(table, dict):
        raise BadInput(where, "must be a JSON object")
    lengths = {"features": len(FEATURES), "classes": len(PATTERNS)}
    arrays = {}
    for key, shape in shapes.items():
        try:
            values = arrays[key] = np.array(table.get(key), dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"{where}.{key}", "must be a list of numbers") from None
        dimensions = shape.split()
        _require(values.ndim == len(dimensions) and np.isfinite(values), f"{where}.{key}")
        agree = [lengths.setdefault(name, n) == n for name, n in zip(dimensions, values.shape, strict=True)]
        _require(agree, f"{where}.{key}")
    return arrays


def _require(good: ArrayLike, where: str) -> None:
    if not np.all(good):
        raise BadInput(where, "has impossible values or the wrong number of values; train the detector again")
