"""Histories of earlier versions: they open, and say what they said."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from forebay.history.darshan.ingest import ingest
from forebay.history.store import Store, open_store
from forebay.history.store.findings import read_diagnoses
from forebay.history.store.listing import list_runs, read_run
from forebay.history.store.past_runs import list_past_runs, list_peer_runs
from forebay.history.store.running_jobs import jobs_by_target
from forebay.history.store.runs import add_runs
from forebay.history.store.schema import logs, metadata
from forebay.history.store.totals import filesystem_sums, layout_sums
from forebay.profile.findings import examine_records
from support.darshan_logs import wheel_log
from support.made_up_runs import MIB, a_run
from support.old_histories import make_version_2
from support.stores import PostgreSQL


@pytest.fixture
def old(tmp_path: Path) -> str:
    path = str(tmp_path / "history.db")
    make_version_2(path)
    return path


def told(store: Store) -> dict[str, Any]:
    with store.open_reader() as connection:
        return {
            "runs": list(list_runs(connection)),
            "osts": [read_run(connection, run)["osts"] for run in (1, 2)],
            "sums": [(s.stripe_count, s.runs, s.total_bytes) for s in layout_sums(connection)],
            "past": [(run.run, run.count) for run in list_past_runs(connection, "ior")],
            "held": jobs_by_target(connection, "default", 0.0),
        }


def test_a_history_of_version_2_opens_and_has_all_that_was_in_it(old: str) -> None:
    with open_store(old) as store:
        found = told(store)
    assert [(run["run_id"], run["total_bytes"], run["filesystem"]) for run in found["runs"]] == [
        (1, 8400725, ""),
        (2, 51539609136, ""),
    ]
    assert [len(osts) for osts in found["osts"]] == [1, 24]
    assert {ost["filesystem"] for osts in found["osts"] for ost in osts} == {""}
    assert sum(ost["total_bytes"] for ost in found["osts"][1]) == 51539607552
    assert found["sums"] == [(1, 1, 8400725), (24, 1, 51539609136)]
    assert found["past"] == [(2, 1), (1, 1)]
    assert found["held"] == {7: {"4711"}}


def test_it_is_then_like_one_that_was_made_new(old: str, tmp_path: Path) -> None:
    open_store(old).close()
    open_store(str(tmp_path / "new.db")).close()
    tables, indexes = zip(*(shape(path) for path in (old, str(tmp_path / "new.db"))), strict=True)
    assert tables[0] == tables[1]
    assert indexes[0] == indexes[1]


def shape(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = {n: sorted(row[1:] for row in connection.execute(f"PRAGMA table_info({n})")) for n in names}
        keys = [r[0] for r in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")]
        indexes = {n: [row[2] for row in connection.execute(f"PRAGMA index_info({n})")] for n in keys}
    connection.close()
    return tables, indexes


def test_the_next_ingest_learns_the_file_systems_from_logs_that_are_still_there(old: str) -> None:
    path = wheel_log("sample-goodost.darshan")
    state = path.stat()
    with sqlite3.connect(old) as connection:
        known = (str(path), state.st_size, state.st_mtime_ns)
        connection.execute("UPDATE logs SET path = ?, size = ?, mtime_ns = ? WHERE log_id = 2", known)
    connection.close()
    with open_store(old) as store:
        report = ingest(store, [path], workers=1)
        again = ingest(store, [path], workers=1)
        with store.open_reader() as connection_now:
            found = {mount: runs for mount, runs, _ in filesystem_sums(connection_now)}
    assert (report.read, again.known) == (1, 1)
    assert found == {"": 1, "/scratch1": 1}


def test_the_next_ingest_finds_problems_of_runs_from_logs_that_are_still_there(old: str) -> None:
    path = wheel_log("sample-goodost.darshan")
    state = path.stat()
    with open_store(old) as store:
        with store.open_writer() as connection:
            known = {"path": str(path), "size": state.st_size, "mtime_ns": -1}
            connection.execute(logs.update().where(logs.c.log_id == 2).values(known))
            assert not read_diagnoses(connection, [1, 2])
        ingest(store, [path], workers=1, examine=examine_records)
        with store.open_reader() as connection:
            numbers = [run["run_id"] for run in list_runs(connection)]
            assert len(read_diagnoses(connection, numbers)) == 1


def test_on_postgresql_as_well(postgresql: PostgreSQL) -> None:
    address = postgresql.new_database()
    make_version_2(address)
    with open_store(address) as store, store.open_writer() as connection:
        assert [run["total_bytes"] for run in list_runs(connection)] == [1000 * MIB] * 3
        add_runs(connection, [a_run(3, count=3, filesystem="/scratch")])
        assert {mount: runs for mount, runs, _ in filesystem_sums(connection)} == {"": 2, "/scratch": 1}
        assert len(list_peer_runs(connection, "vpic", 64)) == 1
        found = sa.inspect(connection)
        names = ["run_id", "filesystem_id", "ost"]
        assert found.get_pk_constraint("run_osts")["constrained_columns"] == names
        for table in metadata.sorted_tables:
            assert {c["name"] for c in found.get_columns(table.name)} == {c.name for c in table.columns}
