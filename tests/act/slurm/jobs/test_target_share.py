"""Targets shared out among running jobs: how many by the policy, which by who is there."""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.act.advice import JobRequest
from forebay.act.slurm.jobs.decision import LATEST_RUNS, allocate_targets, decide_share, least_used, warm_up
from forebay.act.slurm.jobs.epilog import run_epilog
from forebay.act.slurm.jobs.settings import Targets
from forebay.history.store import Store, open_store
from forebay.history.store.running_jobs import take_targets
from support.examples import examples
from support.made_up_runs import a_run, fill
from support.slurm_jobs import NOW, before, leases, own_job, rules_of

IONS = '[targets]\nname = "ions"\ncount = 8\nallocate = "best-bandwidth"\n'


def rules(
    count: int | None = 8, *, allocate: str = "best-bandwidth", unknown: int = 1, curves: Path | None = None
) -> Targets:
    return Targets(name="ions", count=count, allocate=allocate, unknown=unknown, curves=curves)


def new(job: str, app: str = "vpic", nprocs: int = 64) -> JobRequest:
    return JobRequest(job=job, app=app, nprocs=nprocs, now=NOW, until=NOW + 100, chance=0.5)


def share(store: Store, targets: Targets, job: str, app: str = "vpic") -> tuple[int, ...]:
    with store.open_writer() as connection:
        return allocate_targets(connection, targets, new(job, app))[0]


def test_the_policy_decides_how_many(store: Store) -> None:
    fill(store, [a_run(n, count=n, perf_by_slowest=b) for n, b in ((1, 1e8), (2, 3e8), (4, 2e8))])
    assert share(store, rules(), "a") == (0, 1)


def test_jobs_at_the_same_time_get_different_targets(store: Store) -> None:
    fill(store, [a_run(n, count=n, perf_by_slowest=b) for n, b in ((1, 1e8), (3, 3e8))])
    given = [share(store, rules(), job) for job in "abc"]
    assert given == [(0, 1, 2), (3, 4, 5), (0, 6, 7)]


def test_a_job_that_asks_again_is_not_in_its_own_way(store: Store) -> None:
    fill(store, [a_run(1, count=2)])
    assert share(store, rules(), "a") == share(store, rules(), "a")
    assert leases(store, "ions") == {"a": {0, 1}}


def test_of_an_unknown_application_the_file_says_how_many(store: Store) -> None:
    assert share(store, rules(unknown=3), "a", "new") == (0, 1, 2)
    with store.open_reader() as connection:
        found = decide_share(connection, rules(2, unknown=3), new("b", "new"), 2, "ions")
    assert found.count == 2
    assert "no run of new shows how it scales" in found.because


def test_runs_that_tell_no_bandwidth_tell_no_number(store: Store) -> None:
    fill(store, [a_run(1, count=4, partial_flag=True), a_run(2, count=None)])
    assert share(store, rules(), "a") == (0,)


def test_newer_runs_on_another_file_system_do_not_hide_those_on_this_one(store: Store) -> None:
    here = [a_run(n, count=n, perf_by_slowest=n * 1e8, filesystem="/scratch") for n in (1, 2, 4)]
    fill(store, [*here, *(a_run(10 + n, filesystem="/home") for n in range(LATEST_RUNS))])
    with store.open_reader() as connection:
        found = decide_share(connection, rules(), new("a"), 8, "lustre", "/scratch")
    assert found.count == 4


def test_a_curve_beyond_the_machine_is_cut(store: Store) -> None:
    fill(store, [a_run(1, count=64), a_run(2, "other", count=1, perf_by_slowest=1e8), a_run(3, "other", count=64)])
    assert len(share(store, rules(), "a")) == 8
    assert len(share(store, rules(), "b", "other")) == 1


def test_curves_of_a_file_count_instead_of_the_historys(store: Store, tmp_path: Path) -> None:
    fill(store, [a_run(1, count=8), a_run(2, "other")])
    file = tmp_path / "curves.csv"
    file.write_text("application,n,bandwidth\nvpic,1,100\nvpic,2,300\nvpic,4,200\n")
    assert len(share(store, rules(curves=file), "a")) == 2
    assert len(share(store, rules(curves=file), "b", "other")) == 1  # the file has no curve of it


def test_running_jobs_keep_what_they_have_and_count(store: Store) -> None:
    """static gives by shares of the machine: alone all, beside another of the same size half."""
    fill(store, [a_run(n, count=n) for n in range(1, 9)])
    static = rules(allocate="static")
    first = share(store, static, "a")
    assert len(first) == 8
    assert len(share(store, static, "b")) == 4
    assert leases(store, "ions")["a"] == set(first)


def test_every_policy_of_ones_own_choice_can_share_out(store: Store) -> None:
    fill(store, [a_run(n, count=n, perf_by_slowest=1e8 * n**0.5) for n in (1, 2, 4, 8)])
    for name in ("forebay", "tcpu", "mckp", "nsys", "static", "random", "best-bandwidth"):
        warm_up(rules(allocate=name))
        assert 1 <= len(share(store, rules(allocate=name), f"job-{name}")) <= 8


def test_a_job_of_which_nothing_was_decided_is_only_in_the_way(store: Store) -> None:
    fill(store, [a_run(1, count=2)])
    with store.open_writer() as connection:
        take_targets(connection, "ions", "by hand", (0, 1), until=NOW + 1, now=NOW)
    assert share(store, rules(), "a") == (2, 3)


def test_jobs_that_start_at_once_never_get_the_same(database: str) -> None:
    with open_store(database) as store:
        fill(store, [a_run(1, count=2)])

    def one(number: int) -> tuple[int, ...]:
        with open_store(database) as own:
            return share(own, rules(16), f"j{number}")

    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(one, range(8)))
    assert sorted(target for own in given for target in own) == list(range(16))


jobs_on = st.lists(st.integers(0, 4), min_size=1, max_size=12)


@given(jobs_on, st.data())
def test_nobody_gets_a_target_while_one_with_fewer_jobs_is_left(counts: Sequence[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(counts)))
    users = {target: {f"j{k}" for k in range(number)} for target, number in enumerate(counts)}
    own = least_used(range(len(counts)), users, n)
    assert len(set(own)) == n
    assert list(own) == sorted(own)
    left = [counts[t] for t in range(len(counts)) if t not in own]
    assert not left or max(counts[t] for t in own) <= min(left)


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12)


@settings(max_examples=examples(25))
@given(steps)
def test_whoever_comes_and_goes_exactly_the_running_jobs_have_targets_and_are_told(
    steps: list[tuple[bool, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/history.db") as store:
        fill(store, [a_run(1, count=2)])
        rules, running = rules_of(Path(folder), more=IONS), set[str]()
        for starts, number in steps:
            job = own_job(str(number), nprocs=64)
            if starts:
                before(store, rules, job)
            else:
                run_epilog(store, rules, job, now=NOW)
            running = running | {job.job} if starts else running - {job.job}
            own = leases(store, "ions")
            assert own.keys() == running
            assert all(len(targets) == 2 for targets in own.values())
            assert {path.stem for path in rules.jobs.folder.glob("*.env")} == running


@pytest.mark.parametrize("count", [1, 4])
def test_equal_targets_are_taken_from_the_lowest_on(count: int) -> None:
    assert least_used(range(4), {}, count) == tuple(range(count))
