"""Earlier runs beside one: which they are, and when this one stands out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.history.run_fields import Row
from forebay.history.store import Connection, open_store
from forebay.show.run.past_runs import MOST_DRAWN, describe_change, find_past_runs, show_past_runs
from support.made_up_runs import MIB, START, a_run, fill


@pytest.fixture
def history(tmp_path: Path) -> Iterator[Connection]:
    with open_store(str(tmp_path / "history.db")) as store:
        fill(store, [a_run(number) for number in range(60)])
        fill(store, [a_run(70, "other")])
        with store.open_reader() as connection:
            yield connection


def a_row(**others: Any) -> Row:
    usual = {"run_id": None, "job_id": 1, "start_time": START, "nprocs": 64, "perf_by_slowest": 100.0 * MIB}
    return {**usual, "total_bytes": 10, "time_by_slowest": 1.0, "run_time": 50.0, **others}


def test_runs_go_from_old_to_new_and_end_with_this_one(history: Connection) -> None:
    this = a_row(start_time=START + 60.0 * 30, job_id=7030, run_id=31)
    runs = find_past_runs(history, "vpic", this)
    assert runs[-1] is this and [run["run_id"] for run in runs] == list(range(1, 32))
    latest = find_past_runs(history, "vpic", a_row(start_time=START + 1e6))
    assert len(latest) == MOST_DRAWN and latest[-2]["run_id"] == 60


def test_a_log_of_a_known_run_is_not_beside_itself(history: Connection) -> None:
    this = a_row(start_time=START + 60.0 * 30, job_id=7030)
    assert [run["run_id"] for run in find_past_runs(history, "vpic", this)] == [*range(1, 31), None]


def test_an_unknown_application_has_no_earlier_runs(history: Connection) -> None:
    runs = find_past_runs(history, "nobody", a_row())
    assert len(runs) == 1 and "no earlier run" in show_past_runs(runs).notes[0]


@pytest.mark.parametrize(
    ("bandwidth", "change"), [(50.0, "2.0 times as slow"), (300.0, "3.0 times as fast"), (90.0, "")]
)
def test_a_run_stands_out_by_its_bandwidth(bandwidth: float, change: str) -> None:
    runs = [*(a_row(run_id=number) for number in range(4)), a_row(perf_by_slowest=bandwidth * MIB)]
    assert [change in sentence for sentence in describe_change(runs)] == ([True] if change else [])


def test_few_runs_or_other_process_counts_say_nothing() -> None:
    slow = a_row(perf_by_slowest=MIB)
    assert describe_change([a_row(), a_row(), slow]) == []
    assert describe_change([*(a_row(nprocs=8) for _ in range(9)), slow]) == []
    assert describe_change([*(a_row() for _ in range(9)), a_row(perf_by_slowest=0.0)]) == []
