"""Requests of the history's jobs."""

from pathlib import Path

import pytest

from forebay.history.store import Store, open_store
from forebay.history.store.jobs import add_jobs
from forebay.history.store.runs import add_runs
from forebay.history.traces import requests_of_history
from forebay.model.errors import BadInput
from forebay.simulate.storage.scenario import find_requests
from support.history_rows import run_row


def run(key: str, job: int, start: float, end: float, read: int, written: int, uid: int = 1) -> dict[str, object]:
    values = {"job_id": job, "uid": uid, "start_time": start, "end_time": end, "run_time": end - start}
    return run_row(key, "app", **values, bytes_read=read, bytes_written=written, total_bytes=read + written)


def fill(store: Store) -> None:
    with store.open_writer() as connection:
        add_runs(
            connection,
            [
                run("a", 1, 100.0, 200.0, 5, 10),
                run("b", 1, 300.0, 400.0, 7, 1),
                run("c", 2, 50.0, 60.0, 3, 0),
                run("d", 2, 55.0, 65.0, 9, 9, uid=2),
                run("e", 3, 70.0, 80.0, 0, 0),
            ],
        )
        job = {"job_id": 1, "submit_time": 20.0, "job_name": "x", "user": None, "nodes": 1, "state": None}
        add_jobs(connection, [job | {"job_start_time": None, "job_end_time": None}])


def test_a_job_asks_once_for_what_its_runs_moved_together(store: Store, database: str) -> None:
    fill(store)
    asked = requests_of_history(database)
    assert asked.ids.tolist() == [1, 2, 2]  # the first was submitted before it started
    assert asked.submitted.tolist() == [20.0, 50.0, 55.0]
    assert asked.start.tolist() == [100.0, 50.0, 55.0]
    assert asked.duration.tolist() == [300.0, 10.0, 10.0]
    assert asked.bytes.tolist() == [12, 3, 9]
    assert asked.volume.tolist() == [23.0, 3.0, 18.0]
    assert asked.origin == "3 requests from the history (left out: 1 job without bytes or run time)"


def test_a_scenario_names_it_by_its_address(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "x.db")) as made:
        fill(made)
    assert len(find_requests(f"history:{tmp_path / 'x.db'}", tmp_path)) == 3
    with pytest.raises(BadInput, match="no history here yet"):
        find_requests(f"history:{tmp_path / 'y.db'}", tmp_path)
