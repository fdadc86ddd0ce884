"""Runs client processes that move a workload through the layer together, and measures their time."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from threading import BrokenBarrierError
from typing import Any, Protocol

from forebay.act.forward.bench.workload import Content, Direction, Workload
from forebay.act.forward.clients.channel import Identity, identify
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.clients.sync import File as LayerFile
from forebay.act.forward.net.address import Address
from forebay.model.errors import ForebayError, UserError
from forebay.model.process_mapping import ROUND_ROBIN, node_of

Span = tuple[float, float]
"""When something began and ended, in seconds of a clock that all processes share."""
_LONGEST = 3600.0
"""The time limit for the processes, in seconds."""


class WrongBytes(ForebayError):
    """The bytes read differ from the bytes written."""


class ProcessFailed(UserError):
    """A process of the benchmark failed."""


class File(Protocol):
    """An open file."""

    def preadinto(self, room: memoryview, offset: int) -> int: ...
    def pwrite(self, data: memoryview, offset: int) -> int: ...
    def fsync(self) -> None: ...
    def close(self) -> None: ...


class Opener(Protocol):
    """Opens the file of a process; called once, in that process."""

    def __call__(self, process: int, name: str, *, write: bool) -> File: ...


class _OnlyFile(LayerFile):
    """A file that closes its client, too."""

    def close(self) -> None:
        super().close()
        self._client.close()


@dataclass(frozen=True, slots=True)
class LayerAccess:
    """Opens files in `folder` with the layer's client; `mapping` gives each process the I/O node that it prefers."""

    nodes: Sequence[Address]
    key: bytes
    folder: str = ""
    who: Identity = field(default_factory=lambda: identify("bench"))
    mapping: str = ROUND_ROBIN

    def __call__(self, process: int, name: str, *, write: bool) -> File:
        client = self.client(self.preferred_node(process))
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        return _OnlyFile(client, client.open(f"{self.folder}/{name}", flags).handle)

    def preferred_node(self, process: int) -> int:
        return node_of(self.mapping, process, self.who.processes, len(self.nodes))

    def client(self, first: int = 0) -> Client:
        """A client that prefers I/O node `first`."""
        order = (*self.nodes[first:], *self.nodes[:first])
        return Client(order, self.key, who=self.who, connections=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The result of all processes together; `seconds` are from the first start to the last end."""

    doing: Direction
    bytes: int
    seconds: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What each process does, in order; the files are `name.0`, `name.1` and so on."""

    workload: Workload
    doings: tuple[Direction, ...]
    seed: int = 1
    sync: bool = False
    name: str = "data"


def run_task(task: Task, opener: Opener, *, patience: float = _LONGEST) -> list[Measurement]:
    """Start the processes, begin each operation in all of them together, and measure it.

    If a process fails, the others end.
    """
    with _processes(task, opener) as pipes:
        times = list(_answers(pipes, patience))
    results = []
    for doing, spans in zip(task.doings, zip(*times, strict=True), strict=True):
        starts, ends = zip(*spans, strict=True)
        results.append(Measurement(doing=doing, bytes=task.workload.bytes, seconds=max(ends) - min(starts)))
    return results


@contextmanager
def _processes(task: Task, opener: Opener) -> Iterator[list[Connection]]:
    # Forked: they share the content's memory, and a hundred start within a second.
    context = multiprocessing.get_context("fork")
    content = Content(seed=task.seed, longest=task.workload.request)
    together = context.Barrier(task.workload.processes)
    with ExitStack() as stack:
        pipes = []
        for number in range(task.workload.processes):
            mine, theirs = context.Pipe(duplex=False)
            pipes.append(stack.enter_context(mine))
            process = context.Process(target=_process, args=(task, number, opener, content, together, theirs))
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
            theirs.close()
        yield pipes


def _answers(pipes: list[Connection], patience: float) -> Iterator[list[Span]]:
    left: list[Any] = list(pipes)
    end = time.monotonic() + patience
    while left:
        ready: list[Any] = wait(left, max(end - time.monotonic(), 0.0))
        if not ready:
            raise ProcessFailed(f"{len(left)} of {len(pipes)} processes did not finish within {patience:g} s")
        for pipe in ready:
            left.remove(pipe)
            try:
                answer = pipe.recv()
            except EOFError:
                raise ProcessFailed("a process of the benchmark died without a message; was it killed?") from None
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                yield answer


def _process(task: Task, number: int, opener: Opener, content: Content, together: Any, pipe: Connection) -> None:
    """One process; it reports any error to the process that started it."""
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
        pipe.send(None)  # another process failed, and says why
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
            raise ProcessFailed(f"process {number}: wrote only part of the request at {offset} of {task.name}.{name}")
    if task.sync:
        file.fsync()


def _read(task: Task, number: int, file: File, content: Content) -> None:
    name, size = task.workload.file(number), task.workload.request
    room = memoryview(bytearray(size))
    for offset in task.workload.offsets(number):
        count = file.preadinto(room, offset)
        if count != size:
            raise WrongBytes(f"{task.name}.{name}: read {count} bytes at {offset} instead of {size}")
        wrong = content.find_wrong_byte(name, offset, room)
        if wrong is not None:
            raise WrongBytes(f"{task.name}.{name}: the byte at {wrong} differs from the one written")
