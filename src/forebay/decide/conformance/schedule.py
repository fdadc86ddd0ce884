"""Checks for scheduling policies: each schedules jobs on small machines, event by event, and every answer is checked.

The machine here is slow and plain: dictionaries and sums, without the simulator.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from forebay.decide.conformance.contract import expect_kind, fail, name_errors
from forebay.decide.policy import Policy
from forebay.decide.schedule.memory import Memory, new_memory
from forebay.decide.schedule.view import KNOWN_JOB, MACHINE, View, new_starts
from forebay.model.kernels import Array

NODES, SPACE = 8, 100
_SLACK = 1e-6  # s


@dataclass(frozen=True, slots=True)
class _Case:
    """Jobs of one machine: submission, nodes, wall time, true run time and bytes of each."""

    what: str
    jobs: tuple[tuple[int, int, int, int, int], ...]


@dataclass(slots=True)
class _Site:
    """What waits and runs; `reserved` has the starts that the policy promised at its last call."""

    case: _Case
    known: Array
    ends: list[float]
    memory: Memory
    now: float = 0.0
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    reserved: dict[int, float] = field(default_factory=dict)
    starts: dict[int, float] = field(default_factory=dict)


def check_schedule(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is not a valid scheduling policy.

    If it is `patient`, a job that needs the whole machine must start although smaller ones keep coming. If it keeps
    `promises`, a reserved start must not move later while no job comes.
    """
    expect_kind(policy, "schedule")
    for case in _cases():
        if _run(policy, case) != _run(policy, case):
            fail(policy, case, "starts jobs at other times for the same view, memory and seed")
    case, wide = _stream()
    start = _run(policy, case)[wide]
    if policy.patient and start > case.jobs[-1][0]:
        fail(policy, case, f"starves job {wide}, which starts when no other comes; if it must, declare patient=False")


def _run(policy: Policy, case: _Case) -> dict[int, float]:
    """Schedule all jobs of the case; return when each starts."""
    known = np.zeros(len(case.jobs), KNOWN_JOB)
    for number, (submit, nodes, walltime, _, size) in enumerate(case.jobs):
        job = known[number]
        job["id"], job["submit"], job["nodes"], job["walltime"], job["bytes"] = number, submit, nodes, walltime, size
        job["predicted"], job["user"] = walltime, number % 3
    site = _Site(case, known, [np.inf] * len(case.jobs), new_memory(policy, seed=1, capacity=2 * len(case.jobs)))
    coming = list(range(len(case.jobs)))
    while coming or site.running:
        site.now = min([float(case.jobs[job][0]) for job in coming[:1]] + [site.ends[job] for job in site.running])
        early = [job for job in site.running if site.ends[job] == site.now]
        site.running = [job for job in site.running if job not in early]
        while coming and case.jobs[coming[0]][0] == site.now:
            site.waiting.append(coming.pop(0))
            site.reserved = {}  # a job that comes may go first
        _decide(policy, site)
    if site.waiting:
        fail(policy, case, f"leaves job {site.waiting[0]} waiting on an idle machine")
    return site.starts


def _decide(policy: Policy, site: _Site) -> None:
    """Ask the policy, check its answer, and start what it starts."""
    known, case = site.known, site.case
    machine = np.zeros(1, MACHINE)
    machine["now"], machine["nodes"], machine["bytes"] = site.now, NODES, SPACE
    machine["free_nodes"] = NODES - known["nodes"][site.running].sum()
    machine["free_bytes"] = SPACE - known["bytes"][site.running].sum()
    machine["wants_plan"] = True
    by_walltime = sorted(site.waiting, key=lambda job: (known["walltime"][job], job))
    by_end = sorted(site.running, key=lambda job: (known["end_by"][job], job))
    view = View(machine, known, *(np.array(rows, np.int64) for rows in (site.waiting, by_walltime, by_end)))
    before, answer = [array.copy() for array in view], new_starts(2 * len(case.jobs))
    with name_errors(policy, f"for {case.what}"):
        policy.decide(view, site.memory, answer)
    if not all(np.array_equal(array, copy) for array, copy in zip(view, before, strict=True)):
        fail(policy, case, "changes the view, which is read-only")
    count = int(answer.count[0])
    planned = dict(zip(answer.rows[:count].tolist(), answer.times[:count].tolist(), strict=True))
    if len(planned) < count:
        fail(policy, case, "mentions a job twice")
    for job, start in planned.items():
        if job not in site.waiting:
            fail(policy, case, f"plans job {job}, which does not wait")
        if not start >= site.now:
            fail(policy, case, f"plans job {job} for {start:g} s, which is before now ({site.now:g} s)")
        if start > site.reserved.get(job, np.inf) + _SLACK:
            fail(policy, case, f"moves the reserved start of job {job} from {site.reserved[job]:g} s to {start:g} s")
    for job in site.reserved:
        if job in site.waiting and job not in planned:
            fail(policy, case, f"takes the reservation of job {job} back")
    _start(policy, site, [job for job, start in planned.items() if start == site.now])
    if policy.promises:
        site.reserved = {job: start for job, start in planned.items() if start > site.now}


def _start(policy: Policy, site: _Site, chosen: list[int]) -> None:
    known = site.known
    for job in chosen:
        site.waiting.remove(job)
        site.running.append(job)
        known[job]["start"], known[job]["end_by"] = site.now, site.now + known[job]["walltime"]
        known[job]["expected_end"] = known[job]["space_until"] = known[job]["end_by"]
        site.ends[job] = site.now + min(site.case.jobs[job][2], site.case.jobs[job][3])
        site.starts[job] = site.now
    for column, most in (("nodes", NODES), ("bytes", SPACE)):
        if (used := known[column][site.running].sum()) > most:
            fail(policy, site.case, f"holds {used} of {most} {column} at {site.now:g} s")


def _cases() -> Iterator[_Case]:
    yield _Case("no job at all", ())
    yield _Case("one job that needs the whole machine", ((0, NODES, 10, 10, SPACE),))
    yield _Case("three equal jobs at once, room for one", ((5, NODES, 10, 10, 0),) * 3)
    yield _Case("jobs that lack bytes, not nodes", ((0, 1, 10, 5, 60), (0, 1, 20, 20, 60), (1, 1, 5, 5, 30)))
    yield _Case("jobs that lack nodes, not bytes", ((0, 5, 10, 5, 1), (0, 5, 20, 20, 1), (1, 2, 5, 5, 1)))
    yield _Case("jobs without bytes", tuple((k, 1 + k % NODES, 7, 3, 0) for k in range(12)))
    yield _Case("a job that ends at once", ((0, NODES, 10, 0, SPACE), (0, NODES, 10, 10, SPACE)))
    for seed in range(6):
        yield _Case(f"30 random jobs, seed {seed}", tuple(_draw(seed, 30)))


def _draw(seed: int, count: int) -> Iterator[tuple[int, int, int, int, int]]:
    rng = np.random.default_rng(seed)
    for submit in np.sort(rng.integers(0, 8 * count, count)).tolist():
        walltime = int(rng.choice([5, 10, 20, 60]))
        runtime = int(walltime * rng.choice([0.2, 0.5, 1.0]))
        yield submit, int(rng.integers(1, NODES + 1)), walltime, runtime, int(rng.integers(0, SPACE + 1))


def _stream() -> tuple[_Case, int]:
    """Small jobs that overlap all the time, and a wide one that comes early; and its number."""
    small = [(second, 3, 20, 20, 30) for second in range(0, 2000, 8)]
    jobs = (*small[:2], (9, NODES, 30, 30, SPACE), *small[2:])
    return _Case("a wide job among a stream of small ones", jobs), 2
