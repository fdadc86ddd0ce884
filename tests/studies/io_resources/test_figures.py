"""Figures: there for whatever a study has run, the same bytes every time, and no warning on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from forebay.model.curve import Curve
from forebay.show.figures.looks import LOOKS, looks_of, mean_of_rows, regression
from forebay.show.figures.sheet import printable
from forebay.show.figures.simulation import draw_simulation
from forebay.show.rows import match_rows
from forebay.studies.io_resources.figures import Subject, by_bin, describe_leaders, figures_of
from forebay.studies.io_resources.results import CLASS, RUN, TRUE, Results, load_bins
from support.figures import assert_same_bytes, numbers_of

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.fine_figures]

ALLOCATE = ("random", "static", "best-bandwidth", "nsys", "tcpu", "mckp", "forebay")
PLACE = ("random", "greedy-non-clairvoyant", "greedy-clairvoyant")
LOADS = (0.2, 0.5, 0.8, 1.1)
CURVES = {
    "up": Curve.of({1: 10.0, 2: 20.0, 4: 40.0}),
    "down": Curve.of({1: 40.0, 2: 20.0, 4: 10.0}),
    "peak": Curve.of({1: 10.0, 2: 40.0, 4: 10.0}),
}
COMPARED = ["01", "05", "06", "07", "08", "09", "10", "11"]


def some_results(
    study: str = "io-nodes",
    *,
    allocate: Sequence[str] = ALLOCATE,
    place: Sequence[str] = PLACE,
    curves: Sequence[str] = (TRUE,),
    loads: Sequence[float] = LOADS,
    sets: int = 4,
    targets: int = 6,
) -> Results:
    """Random numbers in the ranges that the metrics have; mckp far above the others, as it is."""
    rng = np.random.default_rng(7)
    kinds = list(product(loads, range(sets), allocate, place, curves))
    runs = np.zeros(len(kinds), dtype=RUN)
    runs[["load", "set", "allocate", "place", "curves"]] = kinds
    runs["io_load_sys"] = runs["load"] + 0.009 * (runs["set"] % 5)
    own = 1 + rng.exponential(size=runs.size)
    contended = rng.exponential(runs["load"]) * np.where(match_rows(runs, allocate="mckp"), 100, 1)
    runs["rho_io"], runs["rho_con"] = own, contended
    runs["mean_io_slowdown"] = own + contended
    runs["max_io_slowdown"] = 2 * (own + contended)
    runs["io_spread"], runs["machine_idle"] = rng.uniform(size=(2, runs.size))
    return Results(
        study=study,
        origin="curves of a test",
        settings={},
        bins=load_bins(loads, 0.1),
        runs=runs,
        occupancy=-np.sort(-rng.uniform(size=(runs.size, targets))),
    )


def numbers(results: Results, curves: dict[str, Curve] = CURVES) -> list[str]:
    """The numbers of the figures sketched, each of which can be drawn."""
    return numbers_of(figures_of(results, curves))


@pytest.mark.parametrize(
    ("study", "seen", "expected"),
    [
        ("io-nodes", (TRUE,), COMPARED),
        ("osts", (TRUE,), ["02", *COMPARED[1:], "13"]),
        ("robustness", (TRUE, CLASS), ["01", "11", "12"]),
    ],
)
def test_each_study_has_the_figures_of_the_paper(study: str, seen: Sequence[str], expected: list[str]) -> None:
    assert numbers(some_results(study, curves=seen)) == expected


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    for study, seen, curves in (("osts", (TRUE,), CURVES), ("robustness", (TRUE, CLASS), {})):
        results = some_results(study, allocate=ALLOCATE[:3], place=PLACE[:1], curves=seen, loads=(0.5, 0.6), sets=2)
        assert_same_bytes(partial(figures_of, results, curves), tmp_path / study)


@pytest.mark.parametrize(
    "part",
    [
        {"allocate": ["tcpu"], "place": ["random"], "loads": [0.5], "sets": 1, "targets": 1},
        {"allocate": ["mckp", "tcpu"], "place": ["greedy-clairvoyant"], "loads": [1.1]},
        {"allocate": ["_mine", "a$b$", "日本", "forebay:weight=0.3"], "place": ["π$", "my/own"], "loads": [0.2, 0.3]},
        {"allocate": [f"plug-in-{i}" for i in range(15)], "place": [f"place-{i}" for i in range(5)], "loads": [0.4]},
    ],
)
def test_any_part_of_a_study_can_be_drawn(part: dict[str, list[str]]) -> None:
    assert numbers(some_results(**part), {}) == COMPARED[1:-1]  # type: ignore[arg-type]
    robust = some_results("robustness", curves=(CLASS, TRUE), **part)  # type: ignore[arg-type]
    assert numbers(robust, {}) == ["12"]


def test_nothing_is_drawn_for_what_is_missing() -> None:
    empty = some_results(sets=0)
    assert numbers(empty) == ["01", "11"]
    assert numbers(empty, {}) == []
    assert numbers(some_results("robustness", sets=1), {}) == []
    only_class = some_results("robustness", curves=(CLASS,), sets=1)
    assert numbers(only_class, {}) == ["12"]


def test_runs_without_a_value_are_left_out() -> None:
    results = some_results(allocate=ALLOCATE[:2], place=PLACE[:1], loads=(0.2, 0.5), sets=2)
    for metric in ("mean_io_slowdown", "max_io_slowdown", "rho_io", "rho_con"):
        results.runs[metric][match_rows(results.runs, load=0.5)] = np.nan
    assert numbers(results, {}) == COMPARED[1:-1]
    for metric in ("mean_io_slowdown", "max_io_slowdown", "rho_io", "rho_con"):
        results.runs[metric] = np.nan
    assert numbers(results, {}) == ["06", "07", "10"]


def test_every_policy_has_its_own_look_and_keeps_it() -> None:
    names = [*LOOKS["allocators"], *(f"plug-in-{i}" for i in range(6))]
    looks = looks_of(names, "allocators")
    assert len({look.colour for look in looks.values()}) == len(names)
    assert len({(look.marker, str(look.dashes)) for look in looks.values()}) == len(names)
    assert looks == looks_of(names, "allocators")
    assert max(looks, key=lambda name: looks[name].width) == "forebay"
    assert len({look.colour for look in LOOKS["placers"].values()}) == len(LOOKS["placers"])


def test_a_bin_has_the_mean_and_the_percentiles_of_its_sets() -> None:
    results = some_results(allocate=["tcpu"], place=["random"], loads=(0.2, 0.5), sets=11)
    values = np.arange(22.0)
    band = by_bin(results, results.select(), values)
    assert band.x.tolist() == [0.2, 0.5]
    assert band.middle.tolist() == [5.0, 16.0]
    assert band.low.tolist() == [1.0, 12.0]
    assert band.high.tolist() == [9.0, 20.0]


def test_the_nearest_bin_is_one_that_has_runs() -> None:
    results = some_results(loads=LOADS)
    only_high = results.runs["load"] > 0.7
    found = results.nearest_bin(only_high, 0.5)
    assert found is not None and found.middle == 0.8
    assert results.nearest_bin(results.runs["load"] > 9, 0.5) is None


def test_the_mean_of_rows_has_a_student_interval() -> None:
    band = mean_of_rows(np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert band.middle.tolist() == [2.0, 5.0]
    assert band.high[0] - 2.0 == pytest.approx(12.706, abs=1e-3)  # t(0.975, 1) * sqrt(2) / sqrt(2)
    assert band.high[1] == 5.0


def test_a_regression_finds_the_polynomial_again() -> None:
    x = np.linspace(0.1, 1.2, 30)
    band = regression(x, 1 + 2 * x - 3 * x**2, 3)
    assert band.middle == pytest.approx(1 + 2 * band.x - 3 * band.x**2)
    assert band.high == pytest.approx(band.low)


@pytest.mark.parametrize("points", [0, 1, 2, 3])
def test_few_points_give_a_simpler_line(points: int) -> None:
    x = np.arange(float(points))
    band = regression(x, 2 * x, 3)
    assert np.all(np.isfinite(band.middle))
    assert band.middle == pytest.approx(2 * band.x)


def test_the_regressions_band_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    x = np.linspace(0, 1, 20)
    inside = 0
    for _ in range(400):
        band = regression(x, 1 + x**2 + rng.normal(0, 0.3, x.size), 3)
        inside += int(band.low[30] <= 1 + band.x[30] ** 2 <= band.high[30])
    assert 0.92 <= inside / 400 <= 0.98


def test_leaders_compares_only_sets_that_all_have_run() -> None:
    results = some_results(allocate=["tcpu", "nsys"], place=["random"], loads=[0.5], sets=2)
    results.runs["mean_io_slowdown"] = [2.0, 3.0, 9.0, np.nan]  # set 0: tcpu, nsys; set 1: tcpu, nsys
    subject = Subject.of(results, CURVES)
    assert describe_leaders(subject, "mean_io_slowdown") == " Lowest mean: tcpu (in 1 of 1 bins)."
    assert describe_leaders(Subject.of(some_results(allocate=["tcpu"]), CURVES), "rho_io") == ""


def test_names_are_shown_as_they_are() -> None:
    assert printable("a$b") == r"a\$b"
    assert printable("日x\n") == "?x?"
    assert printable("_own") == " _own"
    assert len(printable("x" * 100)) == 47


@pytest.mark.parametrize(("applications", "name"), [(1, "a.png"), (3, "a.pdf"), (60, "a.png"), (300, "a.png")])
def test_one_simulation_is_one_picture(applications: int, name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(applications)
    names = [f"{i}:application$ 日 with a very long name that has to be cut somewhere" for i in range(applications)]
    placement = [sorted(rng.permutation(20)[: rng.integers(1, 9)].tolist()) for _ in names]
    rho_io = 1 + rng.exponential(size=applications)
    slowdown = rho_io + rng.exponential(size=applications)
    slowdown[0] = np.nan
    out = draw_simulation(names, placement, slowdown, rho_io, rng.uniform(size=20), tmp_path / name)
    assert out == tmp_path / name and out.stat().st_size > 1000


def test_pictures_of_simulations_are_the_same_bytes(tmp_path: Path) -> None:
    for end in ("png", "pdf"):
        files = [tmp_path / f"{turn}.{end}" for turn in "ab"]
        one, other = (
            draw_simulation(["a", "b"], [[0], [0, 1]], [2.0, 1.5], [1.0, 1.5], [0.5, 0.25], f).read_bytes()
            for f in files
        )
        assert one == other


def test_figures_do_without_a_screen(tmp_path: Path) -> None:
    """Nobody looks for one: pyplot is never imported."""
    code = (
        "import sys; from pathlib import Path; from forebay.show.figures.simulation import draw_simulation\n"
        f"draw_simulation(['a'], [[0]], [1.0], [1.0], [0.5], Path({str(tmp_path / 'a.png')!r}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
