"""What is changed in Slurm: priorities are only raised, and what is kept back is free again without the planner."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from forebay.act.slurm.planner.cluster import SlurmJob
from forebay.act.slurm.planner.plan import Plan
from forebay.act.slurm.planner.settings import Excluded, Steering
from forebay.act.slurm.planner.steering import (
    HIGHEST,
    Book,
    Change,
    order_priorities,
    read_book,
    steer,
    undo,
    write_book,
)  # fmt: skip
from forebay.model.errors import BadInput
from support.slurm_planner import GB, NOW, TOP, cluster, job, plan_of, running, settings

RULES = Steering(ahead=10.0, lease=30.0)
STRICT = Steering(ahead=10.0, lease=30.0, strict=True)


def crowded(*more: SlurmJob) -> Plan:
    """One job without burst buffer starts, the next three wait for space."""
    waiting = [job(k, space=60.0 * GB, limit=60.0 * k) for k in range(3, 6)]
    return plan_of(cluster(running(1, space=50.0 * GB), job(2, limit=10.0), *waiting, *more))


def test_priorities_fall_along_the_plan_and_no_job_gets_less_than_it_had() -> None:
    plan = plan_of(cluster(running(1, nodes=4), *(job(k, limit=600.0 / k) for k in range(2, 9))))
    nices = order_priorities(plan.planned, {})
    after = [planned.job.priority - nices[planned.job.number] for planned in plan.planned]
    assert after == sorted(set(after), reverse=True)
    assert all(nice <= 0 for nice in nices.values())


@given(some.lists(some.tuples(some.integers(1, 50), some.integers(0, 20)), max_size=12))
def test_any_priorities_are_brought_into_the_order_of_the_plan(rows: list[tuple[int, int]]) -> None:
    jobs = [job(k, priority=priority + raised, nice=7 - raised) for k, (priority, raised) in enumerate(rows)]
    book = {each.number: Change(number=each.number, own_nice=7, nice=each.nice) for each in jobs}
    plan = plan_of(cluster(*jobs))
    nices = order_priorities(plan.planned, book)
    after = [planned.job.priority + planned.job.nice - nices[planned.job.number] for planned in plan.planned]
    assert after == sorted(set(after), reverse=True)
    assert all(nice <= 7 for nice in nices.values())


def test_no_priority_reaches_the_end_of_slurms_numbers() -> None:
    jobs = [job(k, priority=HIGHEST - 3 + k % 2, limit=600.0 / k) for k in range(1, 20)]
    plan = plan_of(cluster(running(100, nodes=4), *jobs))
    nices = order_priorities(plan.planned, {})
    assert all(planned.job.priority - nices[planned.job.number] <= HIGHEST for planned in plan.planned)


def test_jobs_that_would_take_space_of_others_are_kept_back_for_a_while_but_not_the_next_one() -> None:
    plan = crowded()
    book, commands = steer(plan, {}, RULES)
    kept = {number for number, change in book.items() if change.kept}
    later = [planned.job.number for planned in plan.planned if planned.start > NOW]
    assert kept == set(later[1:]) and all(book[number].kept == NOW + 30 for number in kept)
    assert sorted(re.findall(r"JobId=(\d+) .*StartTime=now\+30", "\n".join(commands))) == sorted(kept)


def test_the_next_one_is_kept_back_too_while_a_job_that_is_due_has_not_taken_its_space() -> None:
    due = job(6, space=50.0 * GB, limit=20.0)
    book, _ = steer(crowded(due), {}, RULES)
    assert {number for number, change in book.items() if change.kept} == {"3", "4", "5"}


def test_what_slurm_has_already_is_not_asked_for_again() -> None:
    plan = crowded()
    book, commands = steer(plan, {}, RULES)
    assert commands and steer(apply(plan, book), book, RULES) == (book, [])


def test_a_lease_is_renewed_in_its_second_half() -> None:
    plan = crowded()
    book, _ = steer(plan, {}, RULES)
    later = replace(apply(plan, book), at=NOW + 20)
    again, commands = steer(later, book, RULES)
    assert {change.kept for change in again.values() if change.kept} == {NOW + 50}
    assert all("StartTime=now+30" in command and "Nice" not in command for command in commands)


def test_a_job_is_let_go_as_soon_as_the_plan_starts_it() -> None:
    waits = job(2, space=60.0 * GB, reason="BeginTime", eligible=NOW + 20)
    book = {"2": Change(number="2", own_nice=0, nice=0, kept=NOW + 20)}
    plan = plan_of(cluster(waits), kept={"2": NOW + 20})
    assert steer(plan, book, RULES) == ({}, ["update JobId=2 StartTime=now"])


def test_the_overdue_job_that_was_submitted_first_gets_the_space_whatever_the_limit_is() -> None:
    small = [job(k, space=40.0 * GB, limit=600.0) for k in range(4, 9)]
    now = cluster(running(1, space=50.0 * GB), job(3, space=60.0 * GB, limit=900.0), *small)
    for rules in (RULES, RULES.model_copy(update={"most": 1})):
        book, _ = steer(plan_of(now, settings(longest_wait=10.0)), {}, rules)
        assert {number for number, change in book.items() if change.kept} == {"5", "6", "7", "8"}


def test_most_limits_how_many_are_kept_back() -> None:
    book, _ = steer(crowded(), {}, Steering(lease=30.0, most=1))
    assert sum(change.kept > 0 for change in book.values()) == 1


def test_strict_settings_also_keep_back_what_would_take_the_nodes_of_a_job_that_waits_for_space() -> None:
    plan = crowded(job(9, limit=9000.0, nodes=4), job(10, limit=9900.0, nodes=4))
    no_space = {planned.job.number for planned in plan.planned if not planned.space and planned.start > NOW}
    book, _ = steer(plan, {}, RULES)
    assert no_space and not any(book[number].kept for number in no_space & book.keys())
    strict, _ = steer(plan, {}, STRICT)
    assert {number for number, change in strict.items() if change.kept} == no_space | {
        number for number, change in book.items() if change.kept
    }


def test_strict_settings_leave_jobs_without_burst_buffer_alone_if_none_waits_for_space() -> None:
    plan = plan_of(cluster(running(1, nodes=4), job(2, nodes=2), job(3, nodes=4)))
    assert not any(change.kept for change in steer(plan, {}, STRICT)[0].values())


def test_a_nice_value_that_the_user_sets_is_the_jobs_own() -> None:
    book = {"2": Change(number="2", own_nice=0, nice=-40)}
    plan = plan_of(cluster(job(2, nice=100, priority=TOP - 102)))
    assert steer(plan, book, RULES)[0] == {}


def test_a_later_begin_time_that_the_user_sets_stays() -> None:
    book = {"2": Change(number="2", own_nice=0, nice=0, kept=NOW + 20)}
    waits = job(2, space=60.0 * GB, reason="BeginTime", eligible=NOW + 86400)
    assert steer(plan_of(cluster(waits), kept={"2": NOW + 20}), book, RULES) == ({}, [])


def test_jobs_beyond_the_depth_stay_in_the_book() -> None:
    book = {"9": Change(number="9", own_nice=0, nice=-4)}
    jobs = [job(k, priority=TOP - k, nice=-4 * (k == 9)) for k in range(2, 10)]
    assert steer(plan_of(cluster(*jobs), settings(depth=3)), book, RULES)[0]["9"] == book["9"]


def test_a_job_that_is_excluded_meanwhile_gets_back_what_it_had() -> None:
    book = {"2": Change(number="2", own_nice=0, nice=-4)}
    plan = plan_of(cluster(job(2, nice=-4)), settings(exclude=Excluded(users=["ann"])))
    assert steer(plan, book, RULES) == ({}, ["update JobId=2 Nice=0"])


def test_a_change_that_slurm_did_not_make_is_asked_for_again() -> None:
    plan = crowded()
    book, commands = steer(plan, {}, RULES)
    assert steer(plan, book, RULES)[1] == commands


def test_all_is_undone() -> None:
    book = {
        "2": Change(number="2", own_nice=5, nice=-40, kept=NOW + 5),
        "3": Change(number="3", own_nice=0, nice=-1),
    }
    assert undo(book) == ["update JobId=2 Nice=5 StartTime=now", "update JobId=3 Nice=0"]


def test_the_book_comes_back_from_its_file_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    book: Book = {"2": Change(number="2", own_nice=5, nice=-40, kept=NOW + 5)}
    write_book(tmp_path / "changes.json", book)
    assert read_book(tmp_path / "changes.json") == book
    assert read_book(tmp_path / "none.json") == {}
    (tmp_path / "changes.json").write_text('{"job": "2"')
    with pytest.raises(BadInput, match="is damaged; delete it"):
        read_book(tmp_path / "changes.json")


def apply(plan: Plan, book: Book) -> Plan:
    """The plan as it would be if Slurm had made the changes."""
    planned = []
    for each in plan.planned:
        if change := book.get(each.job.number):
            priority = each.job.priority + each.job.nice - change.nice
            waits = {"reason": "BeginTime", "eligible": change.kept} if change.kept else {}
            each = replace(each, job=replace(each.job, nice=change.nice, priority=priority, **waits))  # type: ignore[arg-type]
        planned.append(each)
    return replace(plan, planned=tuple(planned))
