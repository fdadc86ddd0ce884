"""Clusters for the planner: jobs in the output of squeue, nodes and a pool."""

import math
from dataclasses import replace

from forebay.act.slurm.planner.cluster import Cluster, Nodes, Pool, SlurmJob
from forebay.act.slurm.planner.plan import Plan
from forebay.act.slurm.planner.planning import Planner
from forebay.act.slurm.planner.settings import Excluded, ScheduleSettings, Steering
from forebay.act.slurm.planner.settings import Plan as PlanSettings
from forebay.decide.registry import find

NOW = 1_700_000_000.0
GB = 10**9
TOP = 4_294_901_759
"""The priority of the first job under priority/basic."""


def job(number: int, **fields: object) -> SlurmJob:
    """A job that waits for resources; it came `number` seconds after the first one, and needs one node for a minute."""
    usual: dict[str, object] = {
        "number": str(number), "name": str(number), "state": "PENDING", "reason": "Resources", "partition": "main",
        "user": "ann", "account": "", "qos": "normal", "submit": NOW - 1000 + number, "start": math.nan,
        "end": math.nan, "eligible": NOW - 1000 + number, "priority": TOP - number, "nice": 0, "nodes": 1, "cpus": 1,
        "limit": 60.0, "space": 0.0, "pool": "", "buffer": "", "is_part": False,
    }  # fmt: skip
    return SlurmJob(**(usual | fields))  # type: ignore[arg-type]


def running(number: int, **fields: object) -> SlurmJob:
    return job(number, **({"state": "RUNNING", "reason": "None", "start": NOW - 10} | fields))


def cluster(*jobs: SlurmJob, nodes: int = 4, space: int = 100 * GB, at: float = NOW) -> Cluster:
    """Nodes and space are all free, but for what running jobs use, and staged-in ones hold."""
    holders = [each for each in jobs if each.state == "RUNNING" or each.buffer == "staged-in"]
    buffers = {each.number: round(each.space) for each in holders if each.space}
    busy = sum(each.nodes for each in jobs if each.state == "RUNNING")
    return Cluster(
        at=at,
        jobs=jobs,
        nodes=Nodes(count=nodes, idle=nodes - busy, cpus=2 * nodes, idle_cpus=2 * (nodes - busy)),
        pools={"nvme": Pool(total=space, free=space - sum(buffers.values()))},
        buffers=buffers,
    )


def settings(*, steering: Steering | None = None, exclude: Excluded | None = None, **plan: object) -> ScheduleSettings:
    usual: dict[str, object] = {"policy": "sjf-bb"}
    return ScheduleSettings(
        schedule=PlanSettings(**(usual | plan)),  # type: ignore[arg-type]
        steering=steering or Steering(ahead=10.0, lease=30.0),
        exclude=exclude or Excluded(),
    )


def plan_of(now: Cluster, rules: ScheduleSettings | None = None, kept: dict[str, float] | None = None) -> Plan:
    rules = rules or settings()
    return Planner(rules, find("schedule", rules.schedule.policy)).plan(now, kept or {})


def later(now: Cluster, seconds: float) -> Cluster:
    return replace(now, at=now.at + seconds)
