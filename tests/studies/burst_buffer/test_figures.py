"""Figures of storage studies: there for whatever has been run, the same bytes every time, and no warning on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebay.decide.registry import find
from forebay.model.reference_platforms import reference_platform
from forebay.model.space_requests import Requests
from forebay.show.figures.looks import LOOKS, looks_of
from forebay.show.figures.storage_run import draw_storage_run, levels
from forebay.show.rows import match_rows
from forebay.simulate.storage.rules import Rules
from forebay.simulate.storage.run import Run, run_storage
from forebay.studies.burst_buffer.figures import by_kind, choose_columns, figures_of
from forebay.studies.burst_buffer.results import StorageResults
from forebay.studies.sizing.figure import draw_sizes
from forebay.studies.sizing.search import Point, Sizing
from support.figures import numbers_of
from support.storage_rows import GB, PAPER, SPLIT, TB, random_results, results_of, run_rows

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.fine_figures]

ALL = ["04", "05", "06", "07", "08", "09", "10", "11"]
SMALL: dict[str, Any] = {"platforms": ("32TB/nNnD", "32TB/1N1D"), "tries": (0,), "policies": PAPER[:2]}


def numbers(results: StorageResults) -> list[str]:
    """The numbers of the figures sketched, each of which can be drawn."""
    return numbers_of(figures_of(results))


def test_the_whole_grid_has_the_figures_of_the_paper() -> None:
    assert numbers(random_results()) == ALL


def test_feedback_adds_a_figure() -> None:
    assert numbers(random_results(slowdown=True, modes=["correct"], mixed=False, **SMALL)) == [*ALL[:-2], "12"]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"modes": ["correct"], "mixed": False}, ALL[:-2]),
        ({"modes": ["storalloc"], "mixed": False}, ALL[:-2]),
        ({"policies": ["random"], "mixed": False}, ["04", "05", "06", "09"]),  # nobody to compare with
        ({"splits": [0], "mixed": False}, ALL[:5]),  # no split request
        ({"platforms": ["8TB/1N1D"], "mixed": False, "disks": 1}, ["04", "09"]),  # the baseline alone
        ({"platforms": ["32TB/nN1D"], "disks": 1, "modes": ["correct"], "mixed": False}, ["04", "05", "06", "09"]),
        ({"platforms": [], "bound": False, "modes": ["correct"]}, ALL),  # only the mixed platform
        ({"platforms": [], "mixed": False}, []),
    ],
)
def test_nothing_is_drawn_for_what_is_missing(part: dict[str, Any], expected: list[str]) -> None:
    assert numbers(random_results(**{**SMALL, **part})) == expected


def test_platforms_policies_and_splits_of_any_name_and_number_can_be_drawn() -> None:
    own = random_results(
        modes=["correct"],
        platforms=["_mine", "a$b$", "日本", "x" * 80, *(f"p{i}" for i in range(12))],
        policies=["mine:weight=0.3", "_p$", "forebay", *(f"plug-in-{i}" for i in range(6))],
        splits=[50 * GB, 77],
        tries=[3],
        capacity=3 * GB,
        slowdown=True,
        mixed=False,
    )
    assert numbers(own) == [*ALL[:-2], "12"]
    many = random_results(platforms=[f"{i}TB/nNnD" for i in range(1, 30)], policies=["fill"], tries=[0], mixed=False)
    assert numbers(many) == ["04", "05", "06", "09"]


def test_measures_without_a_value_are_left_out() -> None:
    results = random_results(modes=["correct"], **SMALL)
    results.rows["max_allocations"] = np.nan
    results.rows["max_use"][match_rows(results.rows, policy="random")] = np.nan
    assert numbers(results) == [n for n in ALL if n != "08"]
    for column in ("mean_allocations", "max_use", "mean_use"):
        results.rows[column] = np.nan
    assert numbers(results) == [n for n in ALL if n not in ("07", "08")]


def test_no_dot_is_cut_off_where_panels_share_an_axis() -> None:
    """The second panel has more than the first."""
    disks = [("a", "SSD", 0.5, 10.0), ("b", "HDD", 0.5, 90.0)]
    figure = by_kind(results_of(run_rows("correct", "32TB/heterogeneous", "fill", disks=disks)))
    assert len(figure.axes) == 2
    assert all(axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 90 for axes in figure.axes)


def test_every_storage_policy_has_its_own_look_and_same_names_look_the_same() -> None:
    looks = looks_of([*LOOKS["storage"], *(f"plug-in-{i}" for i in range(6))], "storage")
    assert len({look.colour for look in looks.values()}) == len(looks)
    assert len({(look.marker, str(look.dashes)) for look in looks.values()}) == len(looks)
    assert max(looks, key=lambda name: looks[name].width) == "forebay"
    for name in LOOKS["storage"].keys() & LOOKS["allocators"].keys():
        assert LOOKS["storage"][name] == LOOKS["allocators"][name]


def test_of_very_many_capacities_a_few_are_shown() -> None:
    assert choose_columns([1, 2, 3], [2, 9]) == [2]
    assert choose_columns([1, 2, 3], [9]) == [1, 2, 3]
    assert choose_columns(range(100)) == [0, 20, 40, 59, 79, 99]


def one_run(sizes: list[int], *, start: float = 0.0, split: int = 0, platform: str = "8TB/nNnD") -> Run:
    """Requests one hour apart, of two hours each."""
    count = len(sizes)
    starts = start + 3600.0 * np.arange(count, dtype=np.float64)
    requests = Requests(
        ids=np.arange(count),
        submitted=starts,
        start=starts,
        duration=np.full(count, 7200.0),
        bytes=np.array(sizes, dtype=np.int64),
        volume=np.array(sizes, dtype=float),
        origin="a test",
    )
    return run_storage(reference_platform(platform), requests, find("storage", "first-fit"), Rules(split=split), seed=0)


def test_levels_are_what_is_held_when() -> None:
    edges, most, mean = levels(one_run([300 * GB, 500 * GB, 2 * TB, 100 * GB]))  # 2 TB fit no disk
    hours = edges / 3600
    assert (hours[0], hours[-1]) == (0.0, 5.0)

    for hour, held in ((0.5, 300), (1.5, 800), (2.5, 500), (3.5, 100), (4.5, 100)):
        index = np.searchsorted(hours, hour, side="right") - 1
        assert most[index] == held * GB
        assert mean[index] == pytest.approx(held * GB)
    assert most.max() == 800 * GB
    assert (mean * np.diff(edges)).sum() == pytest.approx(900 * GB * 7200.0)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ([300 * GB], {}),
        ([9 * TB], {}),  # nothing is served
        ([300 * GB, 5 * TB, 7 * GB] * 20, {"split": SPLIT, "start": 1.6e9, "platform": "32TB/heterogeneous"}),
        ([300 * GB], {"platform": "8TB/1N1D"}),
    ],
)
def test_one_run_is_one_picture(sizes: list[int], options: dict[str, Any], tmp_path: Path) -> None:
    assert draw_storage_run(one_run(sizes, **options), tmp_path / "run.png").stat().st_size > 1000


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_pictures_of_runs_are_the_same_bytes(kind: str, tmp_path: Path) -> None:
    run = one_run([300 * GB])
    one, other = (draw_storage_run(run, tmp_path / f"{turn}.{kind}").read_bytes() for turn in "ab")
    assert one == other


def test_sizes_are_drawn_with_and_without_an_answer(tmp_path: Path) -> None:
    points = tuple(Point(capacity=c * TB, share=s) for c, s in ((4, 0.5), (8, 0.9), (16, 0.995)))
    found = Sizing(family="32TB/nNnD", policy="forebay", target=0.99, points=points, answer=points[-1])
    missed = Sizing(family="a$b", policy="日本$", target=0.999, points=points[:1], answer=None)
    other = Sizing(family="32TB/nN1D", policy="forebay", target=0.99, points=points, answer=points[-1])
    for sizings, kind in (([found], "pdf"), ([missed], "png"), ([found, missed, other], "png")):
        one, two = (draw_sizes(sizings, tmp_path / f"{turn}.{kind}").read_bytes() for turn in "ab")
        assert one == two and len(one) > 1000
