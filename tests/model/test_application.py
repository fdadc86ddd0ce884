"""Table I of Bandet et al. 2024 and what follows from it for one application alone."""

import math

import pytest
from hypothesis import given

from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.curve import Curve
from support.strategies import applications, curves, views


def example(**changes: object) -> Application:
    values: dict[str, object] = {
        "name": "a", "compute_nodes": 4.0, "phases": 2, "compute_seconds": 30.0, "volume": 600.0,
        "curve": Curve.of({1: 20.0, 2: 60.0}),
    }  # fmt: skip
    return Application(**(values | changes))  # type: ignore[arg-type]


def test_io_takes_the_volume_over_the_bandwidth() -> None:
    assert (example().io_seconds(1), example().io_seconds(2)) == (30.0, 10.0)


def test_stress_is_how_many_targets_are_busy_on_average() -> None:
    assert (example().io_ratio(1), example().io_stress(1)) == (0.5, 0.5)
    assert (example().io_ratio(2), example().io_stress(2)) == (0.25, 0.5)


def test_of_equal_stress_the_fewest_targets_are_the_systems_choice() -> None:
    assert example().n_sys == 1


def test_without_computing_an_application_is_always_in_io() -> None:
    assert example(compute_seconds=0.0).io_ratio(1) == 1.0


def test_without_io_an_application_stresses_nothing() -> None:
    assert example(volume=0.0).io_stress(2) == 0.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"phases": 0}, "phases must be at least 1 and less than"),
        ({"volume": -1.0}, "volume must be finite and not negative, not -1"),
        ({"compute_seconds": math.inf}, "compute_seconds must be finite and not negative, not inf"),
        ({"compute_nodes": math.nan}, "compute_nodes must be finite and not negative, not nan"),
        ({"compute_seconds": 0.0, "volume": 0.0}, "must not both be 0"),
    ],
)
def test_an_impossible_application_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        example(**changes)


def test_what_a_file_said_beside_the_point_does_not_make_applications_differ() -> None:
    assert example(fields={"user": "ada"}) == example()


@given(applications(curves()))
def test_a_ratio_lies_between_0_and_1_and_the_stress_between_0_and_n(application: Application) -> None:
    for n in range(application.curve.first, application.curve.last + 1):
        assert 0 <= application.io_ratio(n) <= 1
        assert 0 <= application.io_stress(n) <= n


@given(applications(curves()))
def test_lemma_1_the_systems_choice_is_never_more_than_the_applications(application: Application) -> None:
    assert application.curve.first <= application.n_sys <= application.curve.n_perf


@given(views())
def test_a_view_says_in_arrays_what_its_applications_say(view: View) -> None:
    for row, a in enumerate(view.applications):
        assert (view.first[row], view.last[row]) == (a.curve.first, a.curve.last)
        assert (view.n_perf[row], view.n_sys[row]) == (a.curve.n_perf, a.n_sys)
        for n in range(a.curve.first, a.curve.last + 1):
            assert view.bandwidth[row, n] == a.curve.at(n)
            assert view.io_seconds[row, n] == a.io_seconds(n)
            assert view.io_ratio[row, n] == a.io_ratio(n)
            assert view.io_stress[row, n] == a.io_stress(n)


@given(views())
def test_the_load_of_a_schedule_is_the_sum_of_its_stress_over_the_targets(view: View) -> None:
    counts = [a.n_sys for a in view.applications]
    stress = sum(a.io_stress(n) for a, n in zip(view.applications, counts, strict=True))
    assert view.io_load(counts) == pytest.approx(stress / view.system.targets)


@given(views())
def test_no_schedule_loads_less_than_the_systems_choice(view: View) -> None:
    least = view.io_load([a.n_sys for a in view.applications])
    for counts in ([a.curve.first for a in view.applications], [a.curve.n_perf for a in view.applications]):
        assert view.io_load(counts) >= least * (1 - 1e-12)
