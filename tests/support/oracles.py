"""Slow and obvious answers, written from the papers and not from src/.

Numbers are whatever comes in: floats, or `fractions.Fraction` for answers without rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from forebay.model.application import Application
from forebay.model.decision import Placement


@dataclass
class Job:
    """What one application repeats: `compute` seconds, then a transfer of `work` seconds on each of `targets`."""

    compute: Any
    work: Any
    targets: tuple[int, ...]


@dataclass
class Outcome:
    """What a simulated machine went through until the horizon."""

    phases_done: list[int]
    io_seconds: list[Any]  # of completed phases
    waiting: list[Any]  # in the I/O under way at the horizon
    busy: list[Any]  # of each target
    delivered: list[Any]  # work done by each target
    events: int = 0
    nearest: Any = None  # how close to the horizon the last event before it or the first one after it is
    phase_ends: list[list[Any]] = field(default_factory=list)


def fair_sharing(jobs: Sequence[Job], targets: int, horizon: Any) -> Outcome:
    """Equal shares, recomputed from nothing after every event: O(everything) an event."""
    count = len(jobs)
    now = 0 * horizon
    out = Outcome([0] * count, [now] * count, [now] * count, [now] * targets, [now] * targets, 0, horizon)
    out.phase_ends = [[] for _ in jobs]
    computing: dict[int, Any] = {a: job.compute for a, job in enumerate(jobs)}  # seconds left
    transfers: dict[tuple[int, int], Any] = {}  # (target, application) -> seconds of work left
    started: dict[int, Any] = {}
    while True:
        load = [sum(1 for t, _ in transfers if t == target) for target in range(targets)]
        waits = [(left * load[t], 0, t, a) for (t, a), left in transfers.items()]
        waits += [(left, 1, a, a) for a, left in computing.items()]
        wait, kind, t, a = min(waits)
        step = min(wait, horizon - now)
        for (target, b), left in transfers.items():
            transfers[target, b] = left - step / load[target]
            out.delivered[target] += step / load[target]
        for target in range(targets):
            out.busy[target] += step if load[target] else 0
        for b in computing:
            computing[b] -= step
        out.nearest = min(out.nearest, abs(now + wait - horizon))
        if now + wait > horizon:
            break
        now += step
        out.events += 1
        if kind == 1:
            del computing[a]
            started[a] = now
            for target in jobs[a].targets:
                transfers[target, a] = jobs[a].work
        else:
            del transfers[t, a]
            if not any(b == a for _, b in transfers):
                out.phases_done[a] += 1
                out.io_seconds[a] += now - started.pop(a)
                out.phase_ends[a].append(now)
                computing[a] = jobs[a].compute
    for a, since in started.items():
        out.waiting[a] = horizon - since
    return out


def time_steps(jobs: Sequence[Job], targets: int, horizon: float, unit: float) -> Outcome:
    """Bandet et al. 2024, V-B: who collides on a target does I/O for one unit of time each, in turn."""
    count = len(jobs)
    out = Outcome([0] * count, [0.0] * count, [0.0] * count, [0.0] * targets, [0.0] * targets)
    computing = [round(job.compute / unit) for job in jobs]  # units left
    left: list[dict[int, int]] = [{} for _ in jobs]  # target -> units left
    queue: list[list[int]] = [[] for _ in range(targets)]
    since = [0] * count
    for step in range(round(horizon / unit)):
        for a, job in enumerate(jobs):
            if not left[a] and computing[a] == 0:
                left[a] = dict.fromkeys(job.targets, round(job.work / unit))
                since[a] = step
                for t in job.targets:
                    queue[t].append(a)
        for a in range(count):
            if not left[a]:
                computing[a] -= 1
        for t in range(targets):
            if queue[t]:
                a = queue[t].pop(0)
                out.busy[t] += unit
                left[a][t] -= 1
                if left[a][t]:
                    queue[t].append(a)
                else:
                    del left[a][t]
                    if not left[a]:
                        out.phases_done[a] += 1
                        out.io_seconds[a] += (step + 1 - since[a]) * unit
                        computing[a] = round(jobs[a].compute / unit)
    for a in range(count):
        if left[a]:
            out.waiting[a] = horizon - since[a] * unit
    return out


def paper_cpu_load(application: Application, n: int) -> float:
    """CPUload(i, n), Bandet et al. 2024, IV-A."""
    return (
        application.compute_nodes
        * application.compute_seconds
        / (application.compute_seconds + application.io_seconds(n))
    )


def tcpu(
    applications: Sequence[Application], targets: int, cpu_load: Callable[[Application, int], float] = paper_cpu_load
) -> tuple[tuple[int, ...], float]:
    """Bandet et al. 2024, Algorithm 1, line by line; and by how little the closest decision on the load was taken."""
    closest = float("inf")
    pi = [a.n_sys for a in applications]  # 1
    done = False  # 2
    while not done:  # 3
        tilde = list(pi)  # 4
        load_diff = [-1.0] * len(pi)  # 5
        init_io_load = sum(a.io_stress(n) for a, n in zip(applications, pi, strict=True)) / targets  # 6
        for i, a in enumerate(applications):  # 7
            n = pi[i]  # 8
            while n != a.curve.n_perf and load_diff[i] < 0:  # 9
                n += 1  # 10
                load = init_io_load + (a.io_stress(n) / targets - a.io_stress(pi[i]) / targets)  # 11
                closest = min(closest, abs(load - 1))
                if load <= 1:  # 12
                    load_diff[i] = cpu_load(a, n) - cpu_load(a, tilde[i])  # 13
                    tilde[i] = n  # 14
        idx = load_diff.index(max(load_diff))  # 15
        if load_diff[idx] < 0:  # 16
            done = True  # 17
        else:  # 18
            pi[idx] = tilde[idx]  # 19
    return tuple(pi), closest  # 20


def knapsack(choices: Sequence[dict[int, float]], capacity: int, may_skip: bool) -> tuple[int, ...]:
    """One size for each class (0 is none, if one may skip) with the largest value: the first such one in order."""
    sizes = [([0] if may_skip else []) + sorted(c) for c in choices]
    fitting = (chosen for chosen in itertools.product(*sizes) if sum(chosen) <= capacity)

    def value(chosen: tuple[int, ...]) -> float:
        return sum(c[n] for c, n in zip(choices, chosen, strict=True) if n)

    return max(fitting, key=value)  # max keeps the first of equals, and products come smallest first


def greedy_clairvoyant(applications: Sequence[Application], targets: int, counts: Sequence[int]) -> Placement:
    """Largest share of I/O first, each on the least occupied targets; ties to the first one, and the lowest target."""
    ratio = [a.io_ratio(n) for a, n in zip(applications, counts, strict=True)]
    occupancy = [0.0] * targets
    placed: dict[int, tuple[int, ...]] = {}
    while len(placed) < len(counts):
        i = max((i for i in range(len(counts)) if i not in placed), key=lambda i: (ratio[i], -i))
        own: list[int] = []
        for _ in range(counts[i]):
            own.append(min((t for t in range(targets) if t not in own), key=lambda t: (occupancy[t], t)))
        for t in own:
            occupancy[t] += ratio[i]
        placed[i] = tuple(sorted(own))
    return tuple(placed[i] for i in range(len(counts)))


def greedy_non_clairvoyant(targets: int, counts: Sequence[int]) -> Placement:
    """Most targets first, round robin; ties to the first one."""
    around = itertools.cycle(range(targets))
    order = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    placed = {i: tuple(sorted(next(around) for _ in range(counts[i]))) for i in order}
    return tuple(placed[i] for i in range(len(counts)))
