"""A slow and obvious simulator of jobs, written from the definitions of the policies and not from src/."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from forebay.model.jobs import JOB, Jobs


@dataclass(frozen=True)
class Booking:
    """Nodes and bytes that are taken over [start, end)."""

    start: float
    end: float
    nodes: int
    bytes: int


@dataclass
class Machine:
    """What waits and runs at `now`."""

    rows: NDArray[np.void]
    nodes: int
    space: int
    now: float = 0.0
    queue: list[int] = field(default_factory=list)
    running: dict[int, float] = field(default_factory=dict)  # job -> start

    def bookings(self) -> list[Booking]:
        """What the running jobs take if they use all of their wall times."""
        return [self.booking(job, start) for job, start in self.running.items()]

    def booking(self, job: int, start: float) -> Booking:
        row = self.rows[job]
        return Booking(start, start + row["walltime"], int(row["nodes"]), int(row["bytes"]))

    def is_free(self, wanted: Booking, taken: Sequence[Booking]) -> bool:
        """Whether the nodes and bytes are free at every moment: enough to look at the start and where others start."""
        moments = [wanted.start, *(b.start for b in taken if wanted.start < b.start < wanted.end)]
        for moment in moments:
            holders = [b for b in taken if b.start <= moment < b.end]
            if sum(b.nodes for b in holders) + wanted.nodes > self.nodes:
                return False
            if sum(b.bytes for b in holders) + wanted.bytes > self.space:
                return False
        return True

    def fits_now(self, job: int, taken: Sequence[Booking]) -> bool:
        return self.is_free(self.booking(job, self.now), taken)

    def earliest(self, job: int, taken: Sequence[Booking], *, nodes_only: bool = False) -> float:
        """The earliest start: now, or when a booking ends."""
        for start in sorted({self.now, *(b.end for b in taken if b.end > self.now)}):
            wanted = self.booking(job, start)
            if nodes_only:
                wanted = Booking(wanted.start, wanted.end, wanted.nodes, -self.space)
            if self.is_free(wanted, taken):
                return start
        raise AssertionError("a job that fits on the machine fits when all have ended")


Choice = Callable[[Machine], list[int]]
"""Returns the jobs that start now."""


def fcfs(machine: Machine) -> list[int]:
    taken, chosen = machine.bookings(), []
    for job in machine.queue:
        if not machine.fits_now(job, taken):
            break
        chosen.append(job)
        taken.append(machine.booking(job, machine.now))
    return chosen


def filler(machine: Machine) -> list[int]:
    taken, chosen = machine.bookings(), []
    for job in machine.queue:
        if machine.fits_now(job, taken):
            chosen.append(job)
            taken.append(machine.booking(job, machine.now))
    return chosen


def easy(machine: Machine) -> list[int]:
    return _backfill(machine, machine.queue, nodes_only=True)


def fcfs_bb(machine: Machine) -> list[int]:
    return _backfill(machine, machine.queue)


def sjf_bb(machine: Machine) -> list[int]:
    return _backfill(machine, sorted(machine.queue, key=lambda job: (machine.rows[job]["walltime"], job)))


def _backfill(machine: Machine, order: Sequence[int], *, nodes_only: bool = False) -> list[int]:
    taken, chosen, head = machine.bookings(), [], None
    for job in order:
        if machine.fits_now(job, taken):
            chosen.append(job)
            taken.append(machine.booking(job, machine.now))
        elif head is None:
            head = job
            reserved = machine.booking(job, machine.earliest(job, taken, nodes_only=nodes_only))
            taken.append(Booking(reserved.start, reserved.end, reserved.nodes, 0) if nodes_only else reserved)
    return chosen


def make_conservative_bb() -> Choice:
    reserved: dict[int, float] = {}

    def conservative_bb(machine: Machine) -> list[int]:
        """Each job in turn gives up its reservation and takes the earliest one that all others leave."""
        for job in set(reserved) - set(machine.queue):
            del reserved[job]
        for job in machine.queue:
            reserved.pop(job, None)
            others = [machine.booking(other, start) for other, start in reserved.items()]
            reserved[job] = machine.earliest(job, machine.bookings() + others)
        return [job for job in machine.queue if reserved[job] == machine.now]

    return conservative_bb


def window(machine: Machine) -> list[int]:
    if not machine.queue:
        return []
    taken, chosen = machine.bookings(), []
    head, *others = machine.queue[:10]
    starts = machine.earliest(head, taken)
    taken.append(machine.booking(head, starts))
    chosen += [head] if starts == machine.now else []
    best, most = tuple[int, ...](), 0.0
    for size in range(len(others), 0, -1):
        for subset in combinations(others, size):
            rows = machine.rows[list(subset)]
            filled = rows["nodes"].sum() / machine.nodes + rows["bytes"].sum() / machine.space
            if (filled > most or (filled == most and subset < best)) and fit_together(machine, subset, taken):
                best, most = subset, filled
    chosen += best
    taken += [machine.booking(job, machine.now) for job in best]
    waits = starts > machine.now
    for job in [job for job in machine.queue if job != head and job not in best]:
        if machine.fits_now(job, taken):
            chosen.append(job)
            taken.append(machine.booking(job, machine.now))
        elif not waits:
            waits = True
            taken.append(machine.booking(job, machine.earliest(job, taken)))
    return chosen


def fit_together(machine: Machine, subset: Sequence[int], taken: Sequence[Booking]) -> bool:
    taken = list(taken)
    for job in subset:
        if not machine.fits_now(job, taken):
            return False
        taken.append(machine.booking(job, machine.now))
    return True


def slurm(machine: Machine) -> list[int]:
    def until_full_minute(booking: Booking) -> Booking:
        return Booking(booking.start, -(-booking.end // 60) * 60, booking.nodes, 0)

    taken, chosen = [until_full_minute(booking) for booking in machine.bookings()], list[int]()
    free = machine.space - sum(booking.bytes for booking in machine.bookings())
    for job in machine.queue:
        start = machine.earliest(job, taken, nodes_only=True)
        size = machine.booking(job, start).bytes
        if start == machine.now and size > free:
            continue
        if start == machine.now:
            chosen.append(job)
            free -= size
        taken.append(until_full_minute(machine.booking(job, start)))
    return chosen


CHOICES: dict[str, Callable[[], Choice]] = {
    "fcfs": lambda: fcfs,
    "filler": lambda: filler,
    "easy": lambda: easy,
    "fcfs-bb": lambda: fcfs_bb,
    "sjf-bb": lambda: sjf_bb,
    "conservative-bb": make_conservative_bb,
    "window": lambda: window,
    "slurm": lambda: slurm,
}


def simulate_slowly(jobs: Jobs, nodes: int, space: int, choose: Choice) -> list[float]:
    """The start of every job: at each instant first the ends, then the arrivals, then the policy."""
    rows = jobs.rows
    machine = Machine(rows, nodes, space)
    starts, ends = [float("inf")] * len(jobs), dict[int, float]()
    coming = list(range(len(jobs)))
    while coming or ends or machine.queue:
        machine.now = min([rows[job]["submit"] for job in coming[:1]] + list(ends.values()))
        for job in [job for job, end in ends.items() if end == machine.now]:
            del ends[job], machine.running[job]
        while coming and rows[coming[0]]["submit"] == machine.now:
            machine.queue.append(coming.pop(0))
        for job in choose(machine):
            machine.queue.remove(job)
            machine.running[job] = starts[job] = machine.now
            ends[job] = machine.now + min(rows[job]["runtime"], rows[job]["walltime"])
    return starts


def draw_jobs(seed: int, count: int, *, nodes: int, space: int, load: float = 1.5) -> Jobs:
    """Random jobs with many ties: of times, of wall times and of sizes."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(count, JOB)
    rows["nodes"] = np.where(rng.random(count) < 0.2, rng.integers(1, nodes + 1, count), rng.integers(1, 4, count))
    rows["walltime"] = rng.choice([1, 2, 5, 10, 30, 60, 60, 120], count)
    rows["runtime"] = np.floor(rows["walltime"] * rng.choice([0, 0.1, 0.5, 0.9, 1, 1, 1.5], count))
    rows["bytes"] = np.where(rng.random(count) < 0.3, rng.integers(0, space + 1, count), space // 16)
    work = float((rows["nodes"] * np.minimum(rows["walltime"], rows["runtime"])).sum())
    rows["submit"] = np.sort(rng.integers(0, max(int(work / nodes / load), 1), count))
    return jobs_of(rows)


def jobs_of(rows: NDArray[np.void]) -> Jobs:
    """Jobs without names."""
    return Jobs(rows=rows, ids=[str(number) for number in range(len(rows))])
