"""The benchmark: contenders run a workload in turns, so that other load on the machine affects all of them alike."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from statistics import median

from forebay.act.forward.bench.client_processes import LayerAccess, Measurement, Task, run_task
from forebay.act.forward.bench.workload import Direction
from forebay.act.forward.clients.channel import identify

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One contender and one operation; `bandwidths` (bytes per second) are those of its rounds.

    `ratio` is the median over the rounds of its bandwidth over the first contender's in the same round.
    """

    name: str
    doing: Direction
    bandwidths: tuple[float, ...]
    ratio: float

    @property
    def bandwidth(self) -> float:
        return median(self.bandwidths)


def bench(task: Task, rounds: int, by_name: Mapping[str, LayerAccess], progress: Progress) -> list[Comparison]:
    """Compare the bandwidth of each contender with the first; `progress` gets the number of finished rounds."""
    with ExitStack() as stack:
        accesses = {name: stack.enter_context(job_folder(task, access)) for name, access in by_name.items()}
        for access in accesses.values():
            prepare(task, access)
        measurements = []
        for number, names in enumerate(order_turns(tuple(accesses), rounds)):
            measurements.append({name: run_task(round_task(task, number), accesses[name]) for name in names})
            progress(number + 1)
        if task.doings == ("write",):
            for access in accesses.values():  # the bytes have not been checked yet
                run_task(replace(round_task(task, rounds - 1), doings=("read",)), access)
    return compare_rounds([{name: each[name] for name in by_name} for each in measurements], next(iter(by_name)))


def learn(task: Task, access: LayerAccess, runs: int) -> list[list[Measurement]]:
    """Repeat the workload so that a council can learn, and return the measurements of each run."""
    with job_folder(task, access) as place:
        prepare(task, place)
        return [run_task(round_task(task, number), place) for number in range(runs)]


def round_task(task: Task, number: int) -> Task:
    """Give each round other bytes to write, so that old bytes of the last round count as wrong."""
    return replace(task, seed=task.seed + number) if "write" in task.doings else task


def prepare(task: Task, access: LayerAccess) -> None:
    """Compile, connect, and write the files to read, so that the benchmark does not measure this."""
    load = task.workload
    few = replace(load, total=load.processes * load.request)
    run_task(Task(workload=few, doings=("write", "read"), name="first", seed=0), access)
    if task.doings == ("read",):
        run_task(replace(task, doings=("write",)), access)


def job_folder(task: Task, access: LayerAccess) -> AbstractContextManager[LayerAccess]:
    """Give a job its own temporary folder and identity."""
    job, load = secrets.token_hex(6), task.workload
    who = identify(f"bench-{load.pattern}", job, load.processes)
    return temporary_folder(replace(access, folder=f"/bench-{job}", who=who))


@contextmanager
def temporary_folder(access: LayerAccess) -> Iterator[LayerAccess]:
    """Create the folder of this access, and remove it with all files in it at the end."""
    with access.client() as client:
        client.mkdir(access.folder)
    try:
        yield access
    finally:
        with suppress(OSError), access.client() as client:
            empty_folder(access)
            client.rmdir(access.folder)


def empty_folder(access: LayerAccess) -> None:
    with access.client() as client:
        for entry in client.readdir(access.folder):
            client.unlink(f"{access.folder}/{entry.name}")


def order_turns(names: Sequence[str], rounds: int) -> Iterator[tuple[str, ...]]:
    """Order the contenders of each round; each round begins with another one.

    >>> list(order_turns("ab", 3))
    [('a', 'b'), ('b', 'a'), ('a', 'b')]
    """
    for number in range(rounds):
        begin = number % len(names)
        yield (*names[begin:], *names[:begin])


def compare_rounds(rounds: Sequence[Mapping[str, Sequence[Measurement]]], first: str) -> list[Comparison]:
    """Compare the contenders; a round has the measurements of each operation by name."""
    results = []
    for place, measurement in enumerate(rounds[0][first]):
        for name in rounds[0]:
            widths = tuple(measured[name][place].bandwidth for measured in rounds)
            shares = [w / measured[first][place].bandwidth for w, measured in zip(widths, rounds, strict=True)]
            results.append(Comparison(name=name, doing=measurement.doing, bandwidths=widths, ratio=median(shares)))
    return results
