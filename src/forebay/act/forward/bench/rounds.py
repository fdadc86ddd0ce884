"""The benchmark: a workload in several ways, in turns, so that other load on the machine affects all of them alike."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from statistics import median

from forebay.act.forward.bench.client_processes import Doing, Measured, Task, Through, drive
from forebay.act.forward.bench.workload import Operation, Workload
from forebay.act.forward.clients.identity import identify
from forebay.model.layout import Layout

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of them, for one operation; `bandwidths` (bytes per second) are those of its rounds.

    `ratio` is the median over the rounds of its bandwidth over the first way's in the same round.
    """

    name: str
    doing: Doing
    bandwidths: tuple[float, ...]
    ratio: float

    @property
    def bandwidth(self) -> float:
        return median(self.bandwidths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What each way does in each of the rounds."""

    workload: Workload
    operation: Operation
    rounds: int = 3
    seed: int = 1
    sync: bool = False

    @property
    def doings(self) -> tuple[Doing, ...]:
        return ("write", "read") if self.operation == "both" else (self.operation,)


def bench(plan: Plan, by_name: Mapping[str, Through], progress: Progress, layout: Layout | None = None) -> list[Way]:
    """What each way reached; the first is what the others are compared with. `progress` is told the rounds done."""
    with _folders(plan, by_name, layout) as throughs:
        for through in throughs.values():
            prepare(plan, through)
        rounds = []
        for number, names in enumerate(turns(tuple(throughs), plan.rounds)):
            rounds.append({name: drive(task(plan, number), throughs[name]) for name in names})
            progress(number + 1)
        if plan.operation == "write":
            for through in throughs.values():  # nobody has looked at it yet
                drive(replace(task(plan, plan.rounds - 1), doings=("read",)), through)
    return ways([{name: measured[name] for name in by_name} for measured in rounds], next(iter(by_name)))


def task(plan: Plan, number: int) -> Task:
    """What the processes do in round `number`."""
    # Each round writes other bytes, so that those of the round before can't be taken for them.
    seed = plan.seed if plan.operation == "read" else plan.seed + number
    return Task(workload=plan.workload, doings=plan.doings, name="data", seed=seed, sync=plan.sync)


def prepare(plan: Plan, through: Through) -> None:
    """What is compiled or connected at first use does not count, nor the writing of what is only to be read."""
    load = plan.workload
    few = replace(load, total=load.processes * load.request)
    drive(Task(workload=few, doings=("write", "read"), name="first", seed=0), through)
    if plan.operation == "read":
        drive(replace(task(plan, 0), doings=("write",)), through)


@contextmanager
def _folders(plan: Plan, by_name: Mapping[str, Through], layout: Layout | None) -> Iterator[dict[str, Through]]:
    """A folder for each way, gone at the end."""
    throughs = {name: in_folder(plan, through) for name, through in by_name.items()}
    try:
        for through in throughs.values():
            make_folder(through, layout)
        yield throughs
    finally:
        for through in throughs.values():
            with suppress(OSError):
                remove_folder(through)


def in_folder(plan: Plan, through: Through) -> Through:
    """The same way with a folder of its own; its processes say that they are one job."""
    job, load = secrets.token_hex(6), plan.workload
    return replace(through, folder=f"/bench-{job}", who=identify(f"bench-{load.pattern}", job, load.processes))


def make_folder(through: Through, layout: Layout | None) -> None:
    with through.client() as client:
        client.mkdir(through.folder, layout=layout)


def empty_folder(through: Through) -> None:
    with through.client() as client:
        for entry in client.readdir(through.folder):
            client.unlink(f"{through.folder}/{entry.name}")


def remove_folder(through: Through) -> None:
    """With all files in it."""
    empty_folder(through)
    with through.client() as client:
        client.rmdir(through.folder)


def turns(names: Sequence[str], rounds: int) -> Iterator[tuple[str, ...]]:
    """Who comes when: every round has all of them, each round begins with another one.

    >>> list(turns("ab", 3))
    [('a', 'b'), ('b', 'a'), ('a', 'b')]
    """
    for number in range(rounds):
        begin = number % len(names)
        yield (*names[begin:], *names[:begin])


def ways(rounds: Sequence[Mapping[str, Sequence[Measured]]], first: str) -> list[Way]:
    """What the rounds say of each way; a round has, by name, what was measured, one for each operation."""
    results = []
    for place, measurement in enumerate(rounds[0][first]):
        for name in rounds[0]:
            widths = tuple(measured[name][place].bandwidth for measured in rounds)
            shares = [w / measured[first][place].bandwidth for w, measured in zip(widths, rounds, strict=True)]
            results.append(Way(name=name, doing=measurement.doing, bandwidths=widths, ratio=median(shares)))
    return results
