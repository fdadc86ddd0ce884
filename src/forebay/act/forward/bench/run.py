"""The benchmark itself: a workload through one or several ways, in turns, with every byte checked."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from forebay.act.forward.bench.compare import Way, turns, ways
from forebay.act.forward.bench.drive import Doing, Task, drive
from forebay.act.forward.bench.pattern import Operation, Workload
from forebay.act.forward.bench.through import Through
from forebay.act.forward.clients.identity import identify
from forebay.model.layout import Layout

Progress = Callable[[float], None]


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
    found = {name: in_folder(plan, through) for name, through in by_name.items()}
    try:
        for through in found.values():
            make_folder(through, layout)
        yield found
    finally:
        for through in found.values():
            with suppress(OSError):
                remove_folder(through)


def in_folder(plan: Plan, through: Through) -> Through:
    """The same way with a folder of its own; its processes say that they are one job."""
    job, load = secrets.token_hex(6), plan.workload
    return replace(through, folder=f"/bench-{job}", who=identify(f"bench-{load.pattern}", job, load.processes))


def make_folder(through: Through, layout: Layout | None) -> None:
    with through.client() as client:
        client.mkdir(through.folder, layout=layout)


def remove_folder(through: Through) -> None:
    """With all files in it."""
    with through.client() as client:
        for entry in client.readdir(through.folder):
            client.unlink(f"{through.folder}/{entry.name}")
        client.rmdir(through.folder)
