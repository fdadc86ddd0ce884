"""Says why each planned job starts when it does."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forebay.act.slurm.planner.cluster import Cluster, SlurmJob
from forebay.act.slurm.planner.plan import Because, Machine, PlannedJob, RunningJob, amount_of, space_of
from forebay.model.units import format_duration, format_size, plural


def explain(
    cluster: Cluster,
    machine: Machine,
    jobs: Sequence[tuple[SlurmJob, float, bool]],
    running: Sequence[RunningJob],
    late: float,
    *,
    foresees: bool = False,
) -> list[PlannedJob]:
    """Say why each job starts when it does. `jobs` are in the plan's order, with start and `may_stage`.

    If the policy `foresees` run times, starts are likely ones, not the latest.
    """
    now = cluster.at
    blocker = next((job for job, start, _ in jobs if start > now), None)
    left = _leave_out(machine, [job for job, start, _ in jobs if start <= now], cluster.buffers)
    planned = []
    for job, start, early in jobs:
        amount, space = amount_of(job, machine), space_of(job, machine, cluster.buffers)
        holds = job.number in cluster.buffers
        because, sentence = _explain(left, job, amount, 0 if holds else space, start, now, blocker)
        if because is Because.STARTS and holds and job.buffer != "staged-in":
            because, sentence = Because.STAGES, "Its data is being staged in; it starts afterwards."
        elif start > now:
            sentence += _describe_start(start, now, running, foresees=foresees)
        planned.append(
            PlannedJob(
                job=job,
                amount=amount,
                space=space,
                start=start,
                because=because,
                sentence=sentence,
                holds=holds,
                may_stage=early or start <= now,
                is_overdue=job.submit <= late,
            )
        )
    return planned


def _leave_out(machine: Machine, jobs: Sequence[SlurmJob], buffers: Mapping[str, int]) -> Machine:
    """Return the machine with what is free after these jobs have started."""
    nodes = sum(amount_of(job, machine) for job in jobs)
    space = sum(space_of(job, machine, buffers) for job in jobs if job.number not in buffers)
    return replace(
        machine, free_nodes=max(machine.free_nodes - nodes, 0), free_space=max(machine.free_space - space, 0)
    )


def _explain(
    machine: Machine, job: SlurmJob, amount: int, space: int, start: float, now: float, blocker: SlurmJob | None
) -> tuple[Because, str]:
    if start <= now:
        return Because.STARTS, "Its nodes and its space are free: Slurm starts it next."
    unit = machine.unit if amount != 1 else machine.unit.removesuffix("s")
    nodes = f"{amount} {unit} ({machine.free_nodes} free)"
    size = f"{format_size(space)} ({format_size(machine.free_space)} free)"
    lacks_nodes, lacks_space = amount > machine.free_nodes, space > machine.free_space
    if lacks_nodes and lacks_space:
        return Because.BOTH, f"It waits for {nodes} and for {size}."
    if lacks_nodes:
        return Because.NODES, f"It waits for {nodes}."
    if lacks_space:
        return Because.SPACE, f"It waits for {size}."
    first = f"job {blocker.name}" if blocker is not None and blocker.number != job.number else "jobs"
    return Because.BEHIND, f"It would fit now, but would delay {first}, which the plan starts earlier."


def round_time(seconds: float) -> int:
    """Round to seconds, from three minutes on to minutes, and from three hours on to tenths of an hour.

    >>> round_time(170.4), round_time(356.0), round_time(89_880)
    (170, 360, 90000)
    """
    step = 1 if seconds < 180 else 60 if seconds < 10_800 else 360
    return step * round(seconds / step)


def _describe_start(start: float, now: float, running: Sequence[RunningJob], *, foresees: bool) -> str:
    if math.isinf(start):
        return " It has no planned start yet."
    seconds = round_time(start - now)
    if foresees:
        return f" It probably starts in {format_duration(seconds)}."
    enders = [holder.job.name for holder in running if abs(holder.end_by - start) < 1.0]
    if not enders:
        return f" It starts in {format_duration(seconds)} at the latest, by the jobs that wait now."
    who = f"job {enders[0]}" if len(enders) == 1 else plural(len(enders), "job")
    return f" It starts in {format_duration(seconds)}, when {who} must have ended."
