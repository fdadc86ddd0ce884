"""What the history knows of OSTs."""

import pytest

from forebay.history.store import Store
from forebay.history.store.targets import observations, ost_sums
from support.made_up_runs import START, a_run, fill


def test_bytes_seconds_and_files_of_every_ost_add_up(store: Store) -> None:
    fill(
        store,
        [
            a_run(0, count=2, slowness=[1.0, 3.0], total_bytes=1000),
            a_run(1, count=3, slowness=[2.0, 1.0, 0.5], total_bytes=3000),
        ],
    )
    with store.reading() as connection:
        found = ost_sums(connection)
    assert [(s.ost, s.runs, s.files, s.total_bytes, s.io_time) for s in found] == [
        (0, 2, 20, 1500, 3.0),
        (1, 2, 20, 1500, 4.0),
        (2, 1, 10, 1000, 0.5),
    ]


def test_observations_are_ordered_by_run_and_leave_out_what_is_not_known(store: Store) -> None:
    fill(store, [a_run(0, count=3, slowness=[1.0, 3.0, 1.0]), a_run(1, count=2), a_run(2, count=1)])
    with store.reading() as connection:
        found = observations(connection)
    assert found.tolist() == [(1, 0, 10, 1.0), (1, 1, 10, 3.0), (1, 2, 10, 1.0)]


@pytest.mark.parametrize(("since", "until", "runs"), [(60.0, None, [2, 3]), (None, 60.0, [1]), (60.0, 120.0, [2])])
def test_only_runs_that_started_then_count(
    store: Store, since: float | None, until: float | None, runs: list[int]
) -> None:
    fill(store, [a_run(i, count=3, slowness=[1.0, 2.0, 1.0]) for i in range(3)])
    low, high = (None if t is None else START + t for t in (since, until))
    with store.reading() as connection:
        assert sorted(set(observations(connection, low, high)["run"].tolist())) == runs
        assert [s.runs for s in ost_sums(connection, low, high)] == [len(runs)] * 3


def test_a_history_without_osts_has_none(store: Store) -> None:
    fill(store, [a_run(0, count=None)])
    with store.reading() as connection:
        assert ost_sums(connection) == []
        assert observations(connection).size == 0
