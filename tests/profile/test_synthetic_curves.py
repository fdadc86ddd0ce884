"""Made-up curves: what is promised of every one, and how near they come to the measured ones."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.history.curves import read_curves
from forebay.model.curve import Curve
from forebay.profile.curve_shapes import Shape, class_curves, classify
from forebay.profile.synthetic_curves import PAPER_COUNTS, Kind, synthetic_curves

FORGE = Path(__file__).parents[2].parent / "shared/data/forge/marenostrum4.csv"
COUNTS: dict[Kind, tuple[int, ...]] = {"io-nodes": (1, 2, 4, 8), "osts": (1, 2, 3, 4, 5, 6, 7, 8)}
PARTS: dict[Kind, dict[Shape, int]] = {
    "io-nodes": {Shape.ASCENT: 83, Shape.PEAK: 84, Shape.DESCENT: 20, Shape.NEUTRAL: 2},
    "osts": {Shape.ASCENT: 196, Shape.PEAK: 45, Shape.NEUTRAL: 45, Shape.DESCENT: 15},
}

kinds = st.sampled_from(sorted(COUNTS))
seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(kinds, st.integers(1, 60), seeds)
def test_every_curve_is_of_the_class_in_its_name(kind: Kind, count: int, seed: int) -> None:
    drawn = synthetic_curves(kind, count, np.random.default_rng(seed))
    assert len(drawn.by_name) == count
    assert drawn.origin == f"{count} synthetic {kind} {'curve' if count == 1 else 'curves'}"
    for name, curve in drawn.by_name.items():
        assert curve.counts == COUNTS[kind]
        assert name.split("-")[0] == classify(curve)


@settings(deadline=None)
@given(kinds, seeds)
def test_the_same_seed_draws_the_same_curves(kind: Kind, seed: int) -> None:
    one, other = (synthetic_curves(kind, 20, np.random.default_rng(seed)) for _ in range(2))
    assert one == other
    assert one != synthetic_curves(kind, 20, np.random.default_rng(seed + 1))


@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_a_set_of_the_papers_size_has_the_stated_parts(kind: Kind) -> None:
    drawn = synthetic_curves(kind, PAPER_COUNTS[kind], np.random.default_rng(7)).by_name
    assert Counter(classify(curve) for curve in drawn.values()) == PARTS[kind]


@settings(deadline=None)
@given(kinds, st.integers(1, 400))
def test_other_sizes_keep_the_parts_of_the_classes(kind: Kind, count: int) -> None:
    drawn = synthetic_curves(kind, count, np.random.default_rng(3)).by_name
    shapes = Counter(classify(curve) for curve in drawn.values())
    for shape, part in PARTS[kind].items():
        # Each family is rounded by less than one, and a class has at most two of them.
        assert abs(shapes[shape] - count * part / PAPER_COUNTS[kind]) < 2.5


@pytest.mark.parametrize("kind", sorted(COUNTS))
def test_class_curves_are_of_their_own_class(kind: Kind) -> None:
    drawn = synthetic_curves(kind, PAPER_COUNTS[kind], np.random.default_rng(7)).by_name
    assert all(classify(regression) is shape for shape, regression in class_curves(drawn).items())


def test_most_osts_gain_less_than_they_cost() -> None:
    drawn = synthetic_curves("osts", 301, np.random.default_rng(7)).by_name.values()
    # n_perf takes many OSTs, but eight of them seldom bring half of eight times the bandwidth.
    assert np.median([curve.n_perf for curve in drawn]) >= 6
    assert np.quantile([curve.at(8) / curve.at(1) for curve in drawn], 0.9) < 4


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        synthetic_curves("osts", 0, np.random.default_rng(1))


@pytest.mark.skipif(not FORGE.exists(), reason="the FORGE measurements are not on this machine")
@pytest.mark.parametrize("shape", [Shape.ASCENT, Shape.PEAK, Shape.DESCENT])
def test_io_node_curves_are_like_the_measured_ones(shape: Shape) -> None:
    measured, drawn = read_curves(FORGE).by_name, synthetic_curves("io-nodes", 1890, np.random.default_rng(7)).by_name
    ours, theirs = (_normalised([c for c in some.values() if classify(c) is shape]) for some in (drawn, measured))
    assert np.abs(np.median(ours, axis=0) - np.median(theirs, axis=0)).max() < 0.06
    assert np.abs(np.quantile(ours, [0.1, 0.9], axis=0) - np.quantile(theirs, [0.1, 0.9], axis=0)).max() < 0.12


def _normalised(curves: list[Curve]) -> np.ndarray:
    return np.array([np.array(curve.bandwidths) / max(curve.bandwidths) for curve in curves])
