"""Client processes of their own that move a workload through the layer together, and tell how long it took."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from threading import BrokenBarrierError
from typing import Any, Literal, Protocol

from forebay.act.forward.bench.content import Content
from forebay.act.forward.bench.pattern import Workload
from forebay.model.errors import ForebayError, UserError

Doing = Literal["read", "write"]
Span = tuple[float, float]
"""When something began and ended, in seconds of a clock that all processes share."""
_LONGEST = 3600.0
"""Seconds that the processes may take at most."""


class WrongBytes(ForebayError):
    """What was read is not what was written."""


class ProcessFailed(UserError):
    """A process of the benchmark could not do its part."""


class File(Protocol):
    """An open file."""

    def pread_into(self, room: memoryview, offset: int) -> int: ...
    def pwrite(self, data: memoryview, offset: int) -> int: ...
    def fsync(self) -> None: ...
    def close(self) -> None: ...


class Opener(Protocol):
    """How a process of the benchmark comes to a file: called in that process, once."""

    def __call__(self, process: int, name: str, *, write: bool) -> File: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All processes together: `seconds` from the first one's begin to the last one's end."""

    doing: Doing
    bytes: int
    requests: int
    seconds: float
    slowest: float
    fastest: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What each process does, one after the other; files are `name.0`, `name.1` and so on."""

    workload: Workload
    doings: tuple[Doing, ...]
    name: str
    seed: int
    sync: bool = False


def drive(task: Task, opener: Opener, *, patience: float = _LONGEST) -> list[Measured]:
    """Start the processes, let them begin everything together, and wait for all; what each thing they did took.

    The first process that fails ends the others.
    """
    with _processes(task, opener) as pipes:
        times = list(_answers(pipes, patience))
    return [_measured(task.workload, doing, [one[k] for one in times]) for k, doing in enumerate(task.doings)]


def _measured(load: Workload, doing: Doing, times: list[Span]) -> Measured:
    spans = [end - start for start, end in times]
    return Measured(
        doing=doing,
        bytes=load.bytes,
        requests=load.processes * load.requests,
        seconds=max(end for _, end in times) - min(start for start, _ in times),
        slowest=max(spans),
        fastest=min(spans),
    )


@contextmanager
def _processes(task: Task, opener: Opener) -> Iterator[list[Connection]]:
    # Forked: they share the content's memory, and a hundred of them start within a second.
    context = multiprocessing.get_context("fork")
    content = Content(seed=task.seed, longest=task.workload.request)
    together = context.Barrier(task.workload.processes)
    started, pipes = [], []
    try:
        for number in range(task.workload.processes):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_process, args=(task, number, opener, content, together, theirs))
            process.start()
            theirs.close()
            started.append(process)
            pipes.append(mine)
        yield pipes
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.join()
        for pipe in pipes:
            pipe.close()


def _answers(pipes: list[Connection], patience: float) -> Iterator[list[Span]]:
    left: list[Any] = list(pipes)
    end = time.monotonic() + patience
    while left:
        ready = wait(left, max(end - time.monotonic(), 0.0))
        if not ready:
            raise ProcessFailed(f"{len(left)} of {len(pipes)} processes had no answer within {patience:g} s")
        for pipe in ready:
            left.remove(pipe)
            yield from _answer(pipe)  # type: ignore[arg-type]


def _answer(pipe: Connection) -> list[list[Span]]:
    try:
        answer = pipe.recv()
    except EOFError:
        raise ProcessFailed("a process of the benchmark died") from None
    if isinstance(answer, Exception):
        raise answer
    return [answer] if answer else []


def _process(task: Task, number: int, opener: Opener, content: Content, together: Any, pipe: Connection) -> None:
    """The life of one process; whatever goes wrong is told to the one that started it."""
    try:
        file = opener(number, f"{task.name}.{task.workload.file(number)}", write="write" in task.doings)
        spans = []
        for doing in task.doings:
            together.wait()
            start = time.monotonic()
            (_write if doing == "write" else _read)(task, number, file, content)
            spans.append((start, time.monotonic()))
        file.close()
        pipe.send(spans)
    except BrokenBarrierError:
        pipe.send(None)  # another one failed, and tells why
    except ForebayError as error:
        pipe.send(error)
        together.abort()
    except Exception as error:
        pipe.send(ProcessFailed(f"process {number}: {error}"))
        together.abort()


def _write(task: Task, number: int, file: File, content: Content) -> None:
    name, size = task.workload.file(number), task.workload.request
    for offset in task.workload.offsets(number):
        if file.pwrite(content.at(name, offset, size), offset) != size:
            raise ProcessFailed(f"process {number}: {task.name}.{name} took only part of a write at {offset}")
    if task.sync:
        file.fsync()


def _read(task: Task, number: int, file: File, content: Content) -> None:
    name, size = task.workload.file(number), task.workload.request
    room = memoryview(bytearray(size))
    for offset in task.workload.offsets(number):
        count = file.pread_into(room, offset)
        if count != size:
            raise WrongBytes(f"{task.name}.{name}: {count} bytes at {offset} instead of {size}")
        wrong = content.wrong(name, offset, room)
        if wrong is not None:
            raise WrongBytes(f"{task.name}.{name}: the byte at {wrong} is not what was written there")
