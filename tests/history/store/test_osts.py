"""What the history knows of OSTs."""

from typing import Any

import pytest

from forebay.history.run_fields import OstSums
from forebay.history.store import Connection, Store
from forebay.history.store.totals import osts_by_filesystem
from support.history_rows import ost_columns
from support.made_up_runs import START, a_run, fill


def only(connection: Connection, since: float | None = None, until: float | None = None) -> tuple[list[OstSums], Any]:
    """What is known of the one file system that there is."""
    [found] = osts_by_filesystem(connection, since, until)
    return found


def test_bytes_seconds_and_files_of_every_ost_add_up(store: Store) -> None:
    fill(
        store,
        [
            a_run(0, count=2, slowness=[1.0, 3.0], total_bytes=1000),
            a_run(1, count=3, slowness=[2.0, 1.0, 0.5], total_bytes=3000),
        ],
    )
    with store.open_reader() as connection:
        found, _ = only(connection)
    assert [(s.ost, s.runs, s.files, s.total_bytes, s.io_time) for s in found] == [
        (0, 2, 20, 1500, 3.0),
        (1, 2, 20, 1500, 4.0),
        (2, 1, 10, 1000, 0.5),
    ]


def test_observations_are_ordered_by_run_and_leave_out_what_is_not_known(store: Store) -> None:
    fill(store, [a_run(0, count=3, slowness=[1.0, 3.0, 1.0]), a_run(1, count=2), a_run(2, count=1)])
    with store.open_reader() as connection:
        _, found = only(connection)
    assert found.tolist() == [(1, 0, 10, 1.0), (1, 1, 10, 3.0), (1, 2, 10, 1.0)]


@pytest.mark.parametrize(("since", "until", "runs"), [(60.0, None, [2, 3]), (None, 60.0, [1]), (60.0, 120.0, [2])])
def test_only_runs_that_started_then_count(
    store: Store, since: float | None, until: float | None, runs: list[int]
) -> None:
    fill(store, [a_run(i, count=3, slowness=[1.0, 2.0, 1.0]) for i in range(3)])
    low, high = (None if t is None else START + t for t in (since, until))
    with store.open_reader() as connection:
        sums, observed = only(connection, low, high)
    assert sorted(set(observed["run"].tolist())) == runs
    assert [s.runs for s in sums] == [len(runs)] * 3


def test_a_history_without_osts_has_none(store: Store) -> None:
    fill(store, [a_run(0, count=None)])
    with store.open_reader() as connection:
        assert osts_by_filesystem(connection) == []


def test_osts_of_the_same_number_on_two_file_systems_are_two(store: Store) -> None:
    here = ost_columns({"filesystem": "/home", "ost": 14, "total_bytes": 1}, {"filesystem": "/scratch", "ost": 14})
    there = ost_columns({"filesystem": "/scratch", "ost": 14, "total_bytes": 4})
    fill(store, [a_run(0, osts=here), a_run(1, osts=there)])
    with store.open_reader() as connection:
        found = [sums for sums, _ in osts_by_filesystem(connection)]
        [[alone]] = [sums for sums, _ in osts_by_filesystem(connection, only="/scratch")]
    told = [[(s.filesystem, s.ost, s.runs, s.total_bytes) for s in sums] for sums in found]
    assert told == [[("/home", 14, 1, 1)], [("/scratch", 14, 2, 4)]]
    assert alone == found[1][0]
