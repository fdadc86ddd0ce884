"""Sets of applications as Bandet et al. 2024 draw them, section V-C."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.errors import BadInput
from forebay.model.system import System
from forebay.simulate.applications.random_sets import (
    ALONE_SECONDS,
    PAPER_APPLICATIONS,
    PAPER_SYSTEM,
    _ratio_bound,
    draw,
)

CURVES = {"up": Curve.of({1: 10.0, 8: 70.0}), "down": Curve.of({1: 50.0, 4: 20.0}), "flat": Curve.of({1: 3.0})}


def drawn(
    seed: int = 1, *, load: float = 0.5, applications: int = PAPER_APPLICATIONS, system: System = PAPER_SYSTEM
) -> tuple[Application, ...]:
    return draw(system, CURVES, applications=applications, load=load, rng=np.random.default_rng(seed))


@given(st.integers(1, 20), st.integers(0, 2**32))
def test_few_applications_have_most_compute_nodes(tens: int, seed: int) -> None:
    nodes = sorted((a.compute_nodes for a in drawn(seed, applications=10 * tens, load=0.01)), reverse=True)
    large, medium, small = nodes[:tens], nodes[tens : 4 * tens], nodes[4 * tens :]
    assert (sum(large), sum(medium), sum(small)) == pytest.approx((0.75 * 480, 0.20 * 480, 0.05 * 480))
    for alike in (large, medium, small):
        assert alike == pytest.approx([alike[0]] * len(alike))


@given(st.integers(1, 30))
def test_any_number_of_applications_shares_the_whole_machine(applications: int) -> None:
    assert sum(a.compute_nodes for a in drawn(applications=applications, load=0.01)) == pytest.approx(480)


@given(st.integers(0, 2**32))
def test_computing_and_io_on_one_target_take_5000_seconds_together(seed: int) -> None:
    for a in drawn(seed):
        assert a.compute_seconds + a.io_seconds(1) == pytest.approx(ALONE_SECONDS) == pytest.approx(5000.0)
        assert a.compute_seconds >= 0 and a.volume > 0


def test_phases_are_uniform_from_2_to_20_and_curves_uniform_over_the_set() -> None:
    sample = [a for seed in range(100) for a in drawn(seed)]
    phases = Counter(a.phases for a in sample)
    assert set(phases) == set(range(2, 21))
    expected = len(sample) / 19  # 316, with a standard deviation of 17
    assert max(abs(n - expected) for n in phases.values()) < 4.5 * math.sqrt(expected)
    curves = Counter(a.curve for a in sample)
    assert max(abs(n - 2000) for n in curves.values()) < 4.5 * math.sqrt(2000)


def test_names_are_distinct_and_tell_the_curve() -> None:
    applications = drawn()
    assert len({a.name for a in applications}) == len(applications)
    assert all(CURVES[a.name.split(":")[1]] is a.curve for a in applications)


@pytest.mark.parametrize("load", [0.05, 0.3, 0.8, 1.2, 2.5])
def test_the_mean_load_on_one_target_each_is_the_one_asked_for(load: float) -> None:
    loads = [View(PAPER_SYSTEM, drawn(seed, load=load)).io_load([1] * PAPER_APPLICATIONS) for seed in range(150)]
    error = np.std(loads, ddof=1) / math.sqrt(len(loads))
    assert abs(np.mean(loads) - load) < 4 * error


@given(st.floats(1e-4, 0.999))
def test_the_bound_of_the_ratio_solves_its_equation(stress: float) -> None:
    bound = _ratio_bound(stress)
    assert bound > 0
    assert math.log1p(bound) == pytest.approx(bound * stress, rel=1e-6)


def test_the_same_seed_draws_the_same_set_and_another_one_another() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


@pytest.mark.parametrize("load", [3.0, 3.5, 0.0, -1.0, math.nan])
def test_a_load_that_the_applications_cannot_make_is_refused(load: float) -> None:
    with pytest.raises(BadInput, match=r"load: needs .* targets per application"):
        drawn(load=load)
