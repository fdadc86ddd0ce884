"""The plan: which jobs start when, why others wait, and what is left to Slurm."""

import json
import math

import pytest

from forebay.act.slurm.planner.plan import Because
from forebay.act.slurm.planner.planning import Planner
from forebay.act.slurm.planner.record import plan_document
from forebay.act.slurm.planner.settings import Excluded
from forebay.decide.registry import find
from support.slurm_planner import GB, NOW, cluster, job, plan_of, running, settings


def order(*args: object, **more: object) -> list[str]:
    return [planned.job.number for planned in plan_of(*args, **more).planned]  # type: ignore[arg-type]


def test_jobs_go_in_the_order_of_the_policy_and_start_when_nodes_are_free() -> None:
    plan = plan_of(cluster(running(1, nodes=3, limit=100.0), job(2, nodes=2, limit=600.0), job(3, limit=60.0)))
    first, second = plan.planned
    assert (first.job.number, first.start, first.because) == ("3", NOW, Because.STARTS)
    assert (second.job.number, second.start, second.because) == ("2", NOW + 90, Because.NODES)
    assert second.sentence == "It waits for 2 nodes (0 free). It starts in 1.5 min, when job 1 must have ended."


def test_space_that_is_missing_is_said() -> None:
    plan = plan_of(cluster(running(1, space=80.0 * GB), job(2, space=50.0 * GB)))
    (planned,) = plan.planned
    assert (planned.because, planned.start) == (Because.SPACE, NOW + 50)
    assert planned.sentence.startswith("It waits for 50.00 GB (20.00 GB free).")


def test_a_job_that_would_delay_another_one_waits_behind_it() -> None:
    now = cluster(running(1, nodes=2, limit=110.0), job(2, nodes=4, limit=60.0), job(3, nodes=1, limit=6000.0))
    last = plan_of(now).planned[-1]
    assert (last.job.number, last.because) == ("3", Because.BEHIND)
    assert "would delay job 2" in last.sentence


def test_a_job_that_holds_its_buffer_does_not_need_it_again() -> None:
    held = job(2, space=90.0 * GB, buffer="staged-in")
    plan = plan_of(cluster(held, job(3, space=50.0 * GB)))
    first, second = plan.planned
    assert (first.job.number, first.start, first.holds) == ("2", NOW, True)
    assert (second.because, second.start) == (Because.SPACE, NOW + 60)


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        ({"nodes": 5}, Because.TOO_LARGE),
        ({"space": 101.0 * GB}, Because.TOO_LARGE),
        ({"space": math.nan}, Because.UNCLEAR),
        ({"priority": 0, "reason": "JobHeldUser"}, Because.HELD),
        ({"reason": "Dependency"}, Because.SLURM),
        ({"reason": "BeginTime", "eligible": NOW + 600}, Because.SLURM),
        ({"is_part": True}, Because.SLURM),
        ({"user": "eve"}, Because.EXCLUDED),
        ({"partition": "main,debug"}, Because.EXCLUDED),
        ({"qos": "urgent"}, Because.EXCLUDED),
        ({"account": "phys"}, Because.EXCLUDED),
    ],
)
def test_what_the_plan_leaves_to_slurm_is_named_with_the_reason(fields: dict[str, object], because: Because) -> None:
    rules = settings(exclude=Excluded(partitions=["debug"], users=["eve"], qos=["urgent"], accounts=["phys"]))
    plan = plan_of(cluster(job(1), job(2, **fields)), rules)
    assert [planned.job.number for planned in plan.planned] == ["1"]
    (other,) = plan.others
    assert (other.because, math.isnan(other.start)) == (because, True) and other.sentence.endswith(".")


def test_a_job_that_the_planner_keeps_back_stays_in_the_plan() -> None:
    kept = job(2, reason="BeginTime", eligible=NOW + 20)
    assert order(cluster(job(1), kept), kept={"2": NOW + 20}) == ["1", "2"]


def test_a_begin_time_that_the_user_chose_meanwhile_is_respected() -> None:
    assert order(cluster(job(1), job(2, reason="BeginTime", eligible=NOW + 7200)), kept={"2": NOW + 20}) == ["1"]


def test_a_job_that_waited_for_too_long_goes_first() -> None:
    jobs = [job(2, nodes=4, limit=6000.0, submit=NOW - 500), *(job(k, submit=NOW - 100) for k in range(3, 9))]
    now = cluster(running(1, nodes=1, limit=60.0), *jobs)
    assert next(planned.start for planned in plan_of(now).planned if planned.job.number == "2") > NOW + 100
    plan = plan_of(now, settings(longest_wait=400.0))
    late = next(planned for planned in plan.planned if planned.job.number == "2")
    assert late.is_overdue and late.start == NOW + 50
    assert all(planned.start + 60 <= late.start or planned.start >= late.start + 6000 for planned in plan.planned
               if planned is not late)  # fmt: skip


def test_only_the_jobs_that_slurm_would_start_first_are_planned_and_the_longest_waiting_one() -> None:
    jobs = [job(1, submit=NOW - 5000, priority=1), *(job(k) for k in range(2, 30))]
    plan = plan_of(cluster(*jobs), settings(depth=5, longest_wait=4000.0))
    assert sorted(int(planned.job.number) for planned in plan.planned) == [1, 2, 3, 4, 5]
    assert (plan.others, len(plan.deep)) == ((), 24)


def test_of_many_overdue_jobs_those_that_were_submitted_first_are_planned() -> None:
    jobs = [job(k, submit=NOW - 9000 + k, priority=k) for k in range(1, 30)]
    plan = plan_of(cluster(*jobs), settings(depth=5, longest_wait=4000.0))
    assert sorted(int(planned.job.number) for planned in plan.planned) == [1, 2, 3, 4, 5]


def test_processors_are_planned_where_jobs_share_nodes() -> None:
    plan = plan_of(cluster(job(1, cpus=7), job(2, cpus=2)), settings(unit="cpus"))
    assert plan.machine.nodes == 8
    assert [planned.because for planned in plan.planned] == [Because.STARTS, Because.NODES]
    assert plan.planned[1].sentence.startswith("It waits for 2 cpus (1 free).")


def test_a_cluster_without_burst_buffers_is_planned_by_nodes() -> None:
    plan = plan_of(cluster(job(1, nodes=4), job(2), space=0))
    assert [planned.start for planned in plan.planned] == [NOW, NOW + 60]


def test_an_empty_queue_gives_an_empty_plan() -> None:
    assert plan_of(cluster()).planned == ()


def test_a_queue_of_100_000_jobs_is_planned_as_far_as_the_depth() -> None:
    fields: tuple[dict[str, object], ...] = ({"reason": "Dependency"}, {"space": 500.0 * GB}, {})
    plan = plan_of(cluster(*(job(k, **fields[k % 3]) for k in range(1, 100_001))), settings(depth=100))
    assert (len(plan.planned), len(plan.others), len(plan.deep)) == (100, 66_667, 33_233)
    assert len(json.dumps(plan_document(plan, {}, {}))) < 1_000_000


def test_the_planner_learns_how_long_jobs_run_from_those_that_end() -> None:
    rules = settings(policy="forebay")
    planner = Planner(rules, find("schedule", "forebay"))
    ended = [
        job(number, state="COMPLETED", start=NOW - 500, end=NOW - 400 + number, limit=10_000.0) for number in range(50)
    ]
    busy = running(100, nodes=4, limit=10_000.0)
    (first,) = planner.plan(cluster(busy, job(101, limit=10_000.0)), {}).planned
    plan = planner.plan(cluster(*ended, busy, job(101, limit=10_000.0)), {})
    assert first.start == NOW + 9_990 and NOW < plan.planned[0].start < NOW + 2_000
    assert plan.planned[0].sentence.endswith("min.") and " It probably starts in " in plan.planned[0].sentence
    assert plan.running[0].end_by == NOW + 9_990 and plan.running[0].expected_end == plan.planned[0].start
