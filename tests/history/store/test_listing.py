"""Runs one by one."""

import pytest

from forebay.history.store import Store
from forebay.history.store.listing import COLUMNS, dump_tables, find_app_id, has_runs, list_runs, read_run
from forebay.history.store.past_runs import list_behaviours
from forebay.history.store.schema import jobs, logs
from forebay.model.errors import BadInput, UnknownName
from support.made_up_runs import MIB, START, a_run, behaviour, fill


def test_an_empty_history_has_no_runs(store: Store) -> None:
    with store.open_reader() as connection:
        assert not has_runs(connection)
    fill(store, [a_run(0)])
    with store.open_reader() as connection:
        assert has_runs(connection)


def test_runs_are_listed_newest_first_with_lists_for_text(store: Store) -> None:
    fill(store, [a_run(1), a_run(0), a_run(2, "gcrm")])
    with store.open_reader() as connection:
        found = list(list_runs(connection))
    assert [(r["app"], r["start_time"]) for r in found] == [
        ("gcrm", START + 120),
        ("vpic", START + 60),
        ("vpic", START),
    ]
    assert tuple(found[0]) == COLUMNS
    assert found[0]["modules"] == ["POSIX", "LUSTRE"]
    assert found[0]["write_sizes"] == [0, 0, 0, 0, 0, 750, 0, 0, 0, 0]
    assert found[0]["partial_flag"] is False
    assert found[0]["job_name"] is None


def test_what_slurm_knows_of_the_job_is_beside_the_run(store: Store) -> None:
    fill(store, [a_run(0, user="ann")])
    with store.open_writer() as connection:
        job = {"job_id": 7000, "job_name": "nightly", "nodes": 4, "submit_time": 1.5, "job_start_time": 2.5}
        connection.execute(jobs.insert().values(**job, job_end_time=3.5, user="somebody", state="COMPLETED"))
    with store.open_reader() as connection:
        (run,) = list_runs(connection)
    assert job.items() <= run.items()
    assert (run["user"], run["job_end_time"]) == ("ann", 3.5)


def test_runs_of_one_application_between_two_times_and_not_too_many(store: Store) -> None:
    fill(store, [a_run(i) for i in range(10)] + [a_run(5, "gcrm")])

    def starts(since: float | None = None, until: float | None = None, limit: int | None = None) -> list[float]:
        with store.open_reader() as connection:
            runs = list_runs(connection, app="vpic", since=since, until=until, limit=limit)
            return [(run["start_time"] - START) / 60 for run in runs]

    assert starts(since=START + 120, until=START + 300) == [4, 3, 2]
    assert starts(limit=2) == [9, 8]
    assert starts(since=START + 540) == [9]
    assert starts(until=START) == []


def test_more_runs_than_are_held_at_once_all_come(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.history.store.listing.AT_ONCE", 7)
    fill(store, [a_run(i) for i in range(30)])
    with store.open_reader() as connection:
        assert [r["run_key"] for r in list_runs(connection)] == [f"vpic/{i}" for i in reversed(range(30))]


def test_an_unknown_application_is_told_the_nearest_name(store: Store) -> None:
    fill(store, [a_run(0), a_run(1, "gcrm")])
    with store.open_reader() as connection, pytest.raises(UnknownName, match="did you mean 'vpic'"):
        find_app_id(connection, "vpci")


def test_where_no_name_is_near_a_thousand_are_not_listed(store: Store) -> None:
    fill(store, [a_run(i, f"application-{i}") for i in range(30)])
    with store.open_reader() as connection, pytest.raises(BadInput) as caught:
        find_app_id(connection, "zzz")
    assert str(caught.value) == "no application 'zzz': `forebay history apps` lists all 30"


def test_one_run_with_its_modules_osts_and_logs(store: Store) -> None:
    fill(store, [a_run(0), a_run(1, count=4, slowness=[1.0, 1.0, 1.1, 9.0])])
    with store.open_writer() as connection:
        log = {"path": "b.darshan", "size": 10, "mtime_ns": 1, "digest": "d", "status": "read", "reason": None}
        connection.execute(logs.insert().values(**log, run_key="vpic/1"))
    with store.open_reader() as connection:
        run_id = next(list_runs(connection))["run_id"]
        found = read_run(connection, run_id)
    assert found["run"]["run_key"] == "vpic/1"
    assert [(m["module"], m["total_bytes"]) for m in found["modules"]] == [("POSIX", 1000 * MIB)]
    assert [(o["ost"], o["slowness"]) for o in found["osts"]] == [(0, 1.0), (1, 1.0), (2, 1.1), (3, 9.0)]
    assert found["logs"] == [{"path": "b.darshan", "size": 10, "status": "read", "reason": None}]


def test_a_run_that_is_not_there_is_an_error_that_tells_the_numbers(store: Store) -> None:
    fill(store, [a_run(i) for i in range(3)])
    with store.open_reader() as connection, pytest.raises(BadInput, match=r"no run 99 in the history: .* from 1 to 3"):
        read_run(connection, 99)


def test_behaviours_are_the_newest_runs_oldest_first(store: Store) -> None:
    rows = [a_run(i, count=None if i == 2 else i) for i in range(1, 6)]
    fill(store, rows)
    with store.open_reader() as connection:
        found = list_behaviours(connection, "vpic", limit=4)
    assert found == [behaviour(i, count=None if i == 2 else i) for i in range(2, 6)]


def test_every_table_with_its_columns_and_rows_in_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.history.store.listing._DUMPED_AT_ONCE", 2)
    fill(store, [a_run(i, "ab"[i % 2], count=2) for i in range(5)])
    with store.open_reader() as connection:
        found = {
            name: (columns, [[tuple(row) for row in part] for part in parts])
            for name, columns, parts in dump_tables(connection)
        }
    assert list(found) == ["runs", "run_modules", "run_requests", "run_osts", "jobs", "decisions"]
    columns, parts = found["runs"]
    assert [len(part) for part in parts] == [2, 2, 1]
    assert [row[:2] for part in parts for row in part] == [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "a")]
    assert (columns["run_id"], columns["app"], columns["perf_by_slowest"]) == ("BIGINT", "VARCHAR", "DOUBLE")
    assert (columns["partial_flag"], columns["stripe_count"]) == ("BOOLEAN", "BIGINT")
    assert "app_id" not in columns
    assert sum(len(part) for part in found["run_osts"][1]) == 10
    assert found["jobs"][1] == []
