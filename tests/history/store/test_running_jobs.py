"""Jobs that run: noted once, known by what was decided for them, and over when their time is."""

import pytest

from forebay.history.store import Store
from forebay.history.store.decisions import record_decision
from forebay.history.store.jobs import MOST_SEARCHED, add_jobs, find_app_of_job_name, is_known_app
from forebay.history.store.running_jobs import (
    applied_layout,
    begin_job,
    forget_job,
    is_decided,
    jobs_by_target,
    last_app,
    last_decision_time,
    list_running_jobs,
    list_targets,
    mark_decided,
    take_targets,
)
from support.made_up_runs import a_run, fill

LAYOUT = {"stripe_count": 2, "stripe_size": 1 << 20, "stripe_offset": 0}
ROW = {"time": 5.0, "job": "a", "app": "vpic", "nprocs": 8, "policy": "p", "phase": "rule", **LAYOUT, "because": "so",
       "outcome": "applied", "applied_to": "/x"}  # fmt: skip


def test_a_job_begins_once_until_it_is_forgotten_or_its_time_is_over(store: Store) -> None:
    with store.open_writer() as connection:
        assert begin_job(connection, "a", until=10.0, now=1.0)
        assert not begin_job(connection, "a", until=10.0, now=9.0)
        assert begin_job(connection, "b", until=10.0, now=1.0)
        assert begin_job(connection, "a", until=20.0, now=10.0)
        assert forget_job(connection, "a") == 0
        assert begin_job(connection, "a", until=20.0, now=11.0)


def test_it_is_decided_when_somebody_says_so(store: Store) -> None:
    with store.open_writer() as connection:
        begin_job(connection, "a", until=10.0, now=1.0)
        assert not is_decided(connection, "a", 1.0)
        mark_decided(connection, "a", until=10.0, now=1.0)
        assert is_decided(connection, "a", 1.0)
        assert not is_decided(connection, "b", 1.0)
        assert not is_decided(connection, "a", 10.0)


def test_those_with_targets_are_known_by_their_latest_decision(store: Store) -> None:
    with store.open_writer() as connection:
        record_decision(connection, ROW | {"app": "old"})
        record_decision(connection, ROW)
        take_targets(connection, "scratch", "a", (3, 1), until=10.0, now=1.0)
        take_targets(connection, "scratch", "by hand", (1,), until=10.0, now=1.0)
        take_targets(connection, "other", "b", (1,), until=10.0, now=1.0)
        [found] = list_running_jobs(connection, "scratch", 1.0)
        assert (found.job, found.app, found.nprocs, found.targets) == ("a", "vpic", 8, (1, 3))
        assert list_targets(connection, "scratch", "a", 1.0) == (1, 3)
        assert (last_app(connection, "a"), last_app(connection, "by hand")) == ("vpic", "")
        assert list_running_jobs(connection, "scratch", 10.0) == []


def test_all_that_a_job_has_is_freed_on_every_system(store: Store) -> None:
    with store.open_writer() as connection:
        begin_job(connection, "a", until=10.0, now=1.0)
        take_targets(connection, "scratch", "a", (0, 1), until=10.0, now=1.0)
        take_targets(connection, "ions", "a", (2,), until=10.0, now=1.0)
        take_targets(connection, "ions", "b", (2,), until=10.0, now=1.0)
        assert forget_job(connection, "a") == 3
        assert jobs_by_target(connection, "ions", 1.0) == {2: {"b"}}


@pytest.mark.parametrize(
    ("change", "told"), [({}, True), ({"outcome": "refused"}, False), ({"phase": "targets"}, False)]
)
def test_a_layout_is_told_if_it_was_put_on(store: Store, change: dict[str, str], told: bool) -> None:
    with store.open_writer() as connection:
        record_decision(connection, ROW | change)
        assert (applied_layout(connection, "a") is not None) == told
        assert applied_layout(connection, "b") is None


def test_when_it_was_decided_is_known_of_jobs_that_run(store: Store) -> None:
    with store.open_writer() as connection:
        record_decision(connection, ROW)
        assert last_decision_time(connection, "a", 1.0) is None
        begin_job(connection, "a", until=10.0, now=1.0)
        assert last_decision_time(connection, "a", 1.0) == 5.0
        begin_job(connection, "b", until=10.0, now=1.0)
        assert last_decision_time(connection, "b", 1.0) is None


def test_the_last_job_of_a_name_tells_its_application_unless_it_is_long_ago(store: Store) -> None:
    fill(
        store,
        [
            a_run(1, "old", job_id=5),
            a_run(2, "new", job_id=6, total_bytes=9),
            a_run(3, "tool", job_id=6, total_bytes=3),
        ],
    )
    blank = dict.fromkeys(("nodes", "submit_time", "job_start_time", "job_end_time", "state"))
    with store.open_writer() as connection:
        add_jobs(connection, [{"job_id": job, "job_name": "weekly", "user": "ann", **blank} for job in (5, 6)])
        assert find_app_of_job_name(connection, "weekly", "ann") == "new"
        assert find_app_of_job_name(connection, "weekly", "ben") is None
        assert (is_known_app(connection, "old"), is_known_app(connection, "none")) == (True, False)
        add_jobs(connection, [{"job_id": 6 + MOST_SEARCHED, "job_name": "x", "user": "ann", **blank}])
        assert find_app_of_job_name(connection, "weekly", "ann") is None
