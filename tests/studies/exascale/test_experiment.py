"""The study of a whole centre, on a small one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forebay.model.arrays import Floats
from forebay.model.errors import BadInput
from forebay.simulate.centre.month import DECISIONS
from forebay.studies.exascale.experiment import SETTINGS, VARIANTS, ExascaleStudy
from forebay.studies.exascale.findings import make_report
from forebay.studies.exascale.results import ALL, DEFAULT, WITHOUT, Estimate, ExascaleResults
from forebay.studies.runner import publish, run_study
from support.centre import small_centre, small_workload

STUDY = ExascaleStudy(centre=small_centre(), workload=small_workload(days=0.5), seeds=2, seed=4, sensitivity=False)


def quiet(_: int) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exascale")


@pytest.fixture(scope="module")
def small(folder: Path) -> ExascaleResults:
    return run_study(STUDY, folder / "one", workers=1, progress=quiet)


def test_two_workers_give_the_same_bytes_as_one(small: ExascaleResults, folder: Path) -> None:
    other = run_study(STUDY, folder / "two", workers=2, progress=quiet)
    assert other.runs.tobytes() == small.runs.tobytes()


def test_it_is_written_as_report_tables_and_figures(small: ExascaleResults, folder: Path) -> None:
    document = publish("exascale", make_report(small), "forebay study exascale", folder / "out")
    written = {path.name for path in (folder / "out").iterdir()}
    assert {
        "report.html",
        "results.json",
        "rows.csv",
        "jobs.parquet",
        "exascale-won.png",
        "exascale-won.pdf",
    } <= written
    hours = sum(row["io_hours"] for row in document["rows"] if row["on"] == DEFAULT)
    assert hours == pytest.approx(small.hours().sum())


def test_a_finished_study_is_not_run_again_and_another_is_told_apart(small: ExascaleResults, folder: Path) -> None:
    told: list[int] = []
    again = run_study(STUDY, folder / "one", workers=1, progress=told.append)
    assert told == [len(STUDY.keys())] and again.runs.tobytes() == small.runs.tobytes()
    with pytest.raises(BadInput, match="seed"):
        run_study(replace(STUDY, seed=5), folder / "one", workers=1, progress=quiet)


def test_node_hours_add_up(small: ExascaleResults) -> None:
    for on in VARIANTS:
        by_kind = sum(small.hours(on=on, kind=kind) for kind in small.kinds)
        assert np.allclose(by_kind, small.hours(on=on), rtol=1e-12)
        hours: Floats = small.of(on=on)["io_hours"]
        assert np.isclose(hours.sum(), small.hours(on=on).sum(), rtol=1e-12)


def test_every_variant_has_the_same_jobs(small: ExascaleResults) -> None:
    for on in VARIANTS:
        for column in ("unit", "month", "nodes", "bytes", "compute_hours"):
            assert (small.of(on=on)[column] == small.of()[column]).all()


def test_nothing_against_nothing_wins_exactly_nothing(small: ExascaleResults) -> None:
    assert small.hours_saved(DEFAULT) == (0.0, 0.0, 0.0)


def test_what_is_added_last_is_all_four_against_the_others(small: ExascaleResults) -> None:
    for name in DECISIONS:
        won = small.hours(on=f"{WITHOUT}{name}") - small.hours(on=ALL)
        assert small.last()[name].mean == pytest.approx(won.mean())
    assert small.hours_saved(ALL).mean > 0


def test_other_assumptions_are_runs_of_the_default_and_of_all_four() -> None:
    keys = replace(STUDY, sensitivity=True).keys()
    assert len(keys) == 2 * len(VARIANTS) + 2 * 2 * (len(SETTINGS) - 1) == len({*keys})
    workload = SETTINGS["nobody-by-hand"].apply(STUDY.workload)
    assert workload.io.by_hand == 0.0 and workload.profiles == STUDY.workload.profiles


def test_an_interval_is_students() -> None:
    found = Estimate.of(np.array([1.0, 2.0, 3.0, 4.0]))
    assert found.mean == 2.5 and found.high - 2.5 == pytest.approx(3.1824 * np.std([1, 2, 3, 4], ddof=1) / 2, rel=1e-4)
    assert np.isnan(Estimate.of(np.array([1.0])).low)
