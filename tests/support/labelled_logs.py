"""Logs of runs with known problems: what each program does, and which findings are true of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from support.darshan_runs import Handle, record, write_log

KIB, MIB = 1 << 10, 1 << 20
_NAMES = {"READ": "F_READ_TIME", "WRITE": "F_WRITE_TIME"}


@dataclass
class Program:
    """A run of `nprocs` processes. Times are those of a file system with 0.2 ms for a request and 1 GB/s a process."""

    nprocs: int = 8
    alignment: int = MIB
    handles: dict[tuple[int, int], Handle] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)
    layouts: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    slowness: dict[int, float] = field(default_factory=dict)
    """Of some files, how many times as long everything takes."""
    pace: float = 1.0
    """The same of all files, on a slow or busy file system."""
    compute: float = 0.0
    """Seconds without I/O."""

    def open(self, file: int, rank: int) -> Handle:
        handle = self.handles.setdefault((file, rank), Handle(alignment=self.alignment))
        handle.open()
        handle.seconds["F_META_TIME"] += 0.0005
        return handle

    def move(self, file: int, rank: int, verb: str, offsets: Any, size: int) -> None:
        handle = self.open(file, rank)
        places = np.asarray(offsets, np.int64)
        handle.move(verb, places, size)
        pace = self.slowness.get(file, 1.0) * self.pace
        handle.seconds[_NAMES[verb]] += places.size * (0.0002 + size / 1e9) * pace

    def everybody(self) -> range:
        return range(self.nprocs)

    def write(self, path: Path) -> Path:
        busy = np.zeros(self.nprocs)
        for (_, rank), handle in self.handles.items():
            busy[rank] += sum(handle.seconds.values())
        run_time = int(2 * busy.max() + self.compute) + 2
        return write_log(path, self.nprocs, self.handles, self.calls, self.streams, self.layouts, run_time)


def own(program: Program, total: int, size: int, verb: str = "WRITE", first: int = 100) -> None:
    """A file for each process, from its beginning to its end."""
    for rank in program.everybody():
        program.move(first + rank, rank, verb, np.arange(0, total, size), size)


def shared_blocks(program: Program, total: int, size: int, verb: str = "WRITE", file: int = 1) -> None:
    """One file; each process has a block of it."""
    for rank in program.everybody():
        program.move(file, rank, verb, rank * total + np.arange(0, total, size), size)


def shared_turns(program: Program, count: int, size: int, verb: str = "WRITE", file: int = 1) -> None:
    """One file; the processes take turns, request by request."""
    for rank in program.everybody():
        program.move(file, rank, verb, (np.arange(count) * program.nprocs + rank) * size, size)


def random_own(program: Program, count: int, size: int, verb: str = "READ", first: int = 200) -> None:
    for rank in program.everybody():
        program.move(first + rank, rank, verb, program.rng.permutation(4 * count)[:count] * size, size)


def random_shared(program: Program, count: int, size: int, verb: str = "READ", file: int = 2) -> None:
    for rank in program.everybody():
        program.move(file, rank, verb, program.rng.permutation(16 * count)[:count] * size, size)


def mpi_calls(program: Program, kind: str, count: int, size: int, file: int = 1) -> None:
    """`kind` is COLL or INDEP."""
    total = count * program.nprocs
    counters = {f"{kind}_WRITES": total, "BYTES_WRITTEN": total * size, "COLL_OPENS": program.nprocs}
    program.calls.append(record("MPI-IO", file, -1, counters, {"F_WRITE_TIME": 0.0001 * total}))


def many_files(program: Program, count: int, size: int = 2000, stats: int = 0, reopen: int = 1) -> None:
    for rank in program.everybody():
        for number in range(count):
            file = 10_000 + rank * count + number
            for _ in range(reopen):
                program.move(file, rank, "WRITE", [0], size)
            for _ in range(stats):
                program.handles[file, rank].stat()
                program.handles[file, rank].seconds["F_META_TIME"] += 0.0005


def uneven(program: Program, sizes: list[int], size: int = 4 * MIB, first: int = 300) -> None:
    for rank, total in zip(program.everybody(), sizes, strict=True):
        if total:
            program.move(first + rank, rank, "WRITE", np.arange(0, total, size), size)


def stdio(program: Program, total: int, first: int = 400) -> None:
    for rank in program.everybody():
        counters = {"OPENS": 1, "WRITES": total // 4096, "BYTES_WRITTEN": total, "MAX_BYTE_WRITTEN": total - 1}
        program.streams.append(record("STDIO", first + rank, rank, counters, {"F_WRITE_TIME": total / 1e9}))


def synced(program: Program, write: Callable[[Program, int, int], None]) -> None:
    """Each process writes 2 MiB in order, and syncs after every KiB."""
    write(program, 2 * MIB, KIB)
    for handle in program.handles.values():
        handle.counts["FSYNCS"] += handle.counts["WRITES"]
        handle.seconds["F_WRITE_TIME"] += 0.0005 * handle.counts["WRITES"]


def striped(program: Program, file: int, osts: list[int], size: int = MIB) -> None:
    program.layouts[file] = (size, osts)


Plant = Callable[[Program], None]
TURNS = ["small-requests-shared", "no-collective"]
"""Of small pieces that adjoin those of other processes: collective calls would put them together."""
PLANTS: dict[str, tuple[list[str], Plant]] = {
    "small-own-4k": (["small-requests"], lambda p: own(p, 16 * MIB, 4 * KIB)),
    "small-own-1000": (["small-requests"], lambda p: own(p, 4_000_000, 1000)),
    "small-own-read-16k": (["small-requests"], lambda p: own(p, 32 * MIB, 16 * KIB, "READ")),
    "small-shared-4k": (TURNS, lambda p: shared_turns(p, 2000, 4 * KIB)),
    "small-shared-64k": (TURNS, lambda p: shared_turns(p, 1000, 64 * KIB)),
    "small-shared-blocks-8k": (["small-requests-shared"], lambda p: shared_blocks(p, 16 * MIB, 8 * KIB)),
    "small-shared-read-64k": (TURNS, lambda p: shared_turns(p, 1000, 64 * KIB, "READ")),
    "hard-47008": ([*TURNS, "misaligned"], lambda p: shared_turns(p, 1000, 47008)),
    "misaligned-own": (["misaligned"], lambda p: own(p, 40 * (2 * MIB + 100), 2 * MIB + 100)),
    "misaligned-shared": (["misaligned"], lambda p: shared_blocks(p, 30 * (4 * MIB + 8), 4 * MIB + 8)),
    "random-own-4k": (["random-access", "small-requests"], lambda p: random_own(p, 2000, 4 * KIB)),
    "random-own-1m": (["random-access"], lambda p: random_own(p, 100, MIB)),
    "random-write-1m": (["random-access"], lambda p: random_own(p, 100, MIB, "WRITE")),
    "random-shared-64k": (["random-access", "small-requests-shared"], lambda p: random_shared(p, 800, 64 * KIB)),
    "many-files": (["metadata-bound", "small-requests"], lambda p: many_files(p, 300)),
    "stats": (["metadata-bound"], lambda p: many_files(p, 50, stats=20)),
    "single-own": (["single-writer"], lambda p: uneven(p, [400 * MIB] + [0] * (p.nprocs - 1))),
    "imbalance-one": (["imbalance"], lambda p: uneven(p, [400 * MIB] + [40 * MIB] * (p.nprocs - 1))),
    "imbalance-half": (
        ["imbalance"],
        lambda p: uneven(p, [160 * MIB] * (p.nprocs // 4) + [16 * MIB] * (p.nprocs - p.nprocs // 4)),
    ),
    "stdio": (["stdio-bulk"], lambda p: stdio(p, 60 * MIB)),
}


def repeat_own(program: Program) -> None:
    for rank in program.everybody():
        program.move(500 + rank, rank, "READ", np.tile(np.arange(0, 32 * MIB, 4 * MIB), 6), 4 * MIB)


def repeat_all(program: Program) -> None:
    for rank in program.everybody():
        program.move(5, rank, "READ", np.arange(0, 64 * MIB, 4 * MIB), 4 * MIB)


def independent(count: int, size: int) -> Plant:
    def plant(program: Program) -> None:
        shared_turns(program, count, size)
        mpi_calls(program, "INDEP", count, size)

    return plant


def collective(program: Program) -> None:
    """Two processes write what all have sent to them, in large pieces."""
    for rank in (0, 1):
        program.move(1, rank, "WRITE", rank * 256 * MIB + np.arange(0, 256 * MIB, 4 * MIB), 4 * MIB)
    for rank in range(2, program.nprocs):
        program.open(1, rank)
    mpi_calls(program, "COLL", 512, MIB)


def blocks_by_calls(program: Program, count: int, size: int) -> None:
    """Contiguous blocks, but in many independent calls."""
    shared_blocks(program, count * size, size)
    mpi_calls(program, "INDEP", count, size)


def few_stripes(program: Program) -> None:
    program.nprocs = 64
    shared_blocks(program, 64 * MIB, 16 * MIB)
    striped(program, 1, [3])
    program.open(9, 0)
    striped(program, 9, [31])


def few_osts(program: Program) -> None:
    program.nprocs = 64
    own(program, 64 * MIB, 16 * MIB)
    for rank in program.everybody():
        striped(program, 100 + rank, [3 + rank % 2])
    program.open(9, 0)
    striped(program, 9, [47])


def narrow(program: Program, write: Plant) -> None:
    """Few processes share a file of one stripe: it limits none of them much."""
    program.nprocs = 4
    write(program)
    striped(program, 1, [3])
    program.open(9, 0)
    striped(program, 9, [31])


def slow_ost(program: Program) -> None:
    program.nprocs = 64
    program.slowness = {100 + rank: 12.0 for rank in range(64) if rank % 16 == 5}
    own(program, 64 * MIB, 16 * MIB)
    for rank in program.everybody():
        striped(program, 100 + rank, [rank % 16])


def well_striped(program: Program) -> None:
    program.nprocs = 64
    shared_blocks(program, 64 * MIB, 16 * MIB)
    striped(program, 1, list(range(32)))


def scratch(program: Program) -> None:
    """Files that are written and read back, four times over."""
    for rank in program.everybody():
        for verb in ("WRITE", "READ") * 4:
            program.move(600 + rank, rank, verb, np.arange(0, 32 * MIB, 4 * MIB), 4 * MIB)
        program.handles[600 + rank, rank].seconds |= {"F_WRITE_START_TIMESTAMP": 0.1, "F_READ_START_TIMESTAMP": 0.2}


def checkpoints(program: Program) -> None:
    for first in range(100, 500, 100):
        own(program, 64 * MIB, 8 * MIB, first=first)


def written_and_read(program: Program) -> None:
    own(program, 64 * MIB, 4 * MIB)
    own(program, 64 * MIB, 4 * MIB, "READ")


def with_settings(program: Program) -> None:
    own(program, 256 * MIB, 4 * MIB)
    program.move(7, 0, "READ", range(0, 4000, 100), 100)


def with_log(program: Program) -> None:
    own(program, 256 * MIB, 4 * MIB)
    stdio(program, 4096)


def slow_hard(program: Program) -> None:
    """The model's seconds are few in a run of minutes."""
    program.pace = 100.0
    shared_turns(program, 400, 47008)


def one_aggregator(program: Program) -> None:
    """Collective calls of a file with one stripe: one process writes for all."""
    program.nprocs = 64
    program.move(1, 0, "WRITE", np.arange(0, 4096 * MIB, 4 * MIB), 4 * MIB)
    for rank in range(1, program.nprocs):
        program.open(1, rank)
    mpi_calls(program, "COLL", 64, MIB)


def straggler(program: Program) -> None:
    program.slowness = {103: 20.0}
    own(program, 256 * MIB, 4 * MIB)


def slow_opens(program: Program) -> None:
    """All processes open one file together, and wait long for the metadata server."""
    shared_blocks(program, 64 * MIB, 16 * MIB)
    mpi_calls(program, "COLL", 4, 16 * MIB)
    for rank in program.everybody():
        program.handles[1, rank].seconds["F_META_TIME"] += 3.0


def one_of_many(program: Program) -> None:
    """Process 0 writes a file with one stripe: no other process has one on this OST."""
    program.move(1, 0, "WRITE", np.arange(0, 16 * MIB, 4 * MIB), 4 * MIB)
    own(program, 64 * MIB, 4 * MIB)
    striped(program, 1, [3])
    program.open(9, 0)
    striped(program, 9, [31])


def one_byte(program: Program) -> None:
    """Reads that go back to the beginning of a file, beside a program's output: neither random nor many."""
    own(program, 256 * MIB, 4 * MIB)
    for rank in program.everybody():
        program.move(700 + rank, rank, "READ", np.zeros(40, np.int64), 1)


def computing(program: Program) -> None:
    """Bad I/O that takes 0.1 % of the run."""
    shared_turns(program, 100, 4 * KIB)
    many_files(program, 40)
    program.compute = 100.0


PLANTS |= {
    "hard-slow": ([*TURNS, "misaligned"], slow_hard),
    "one-aggregator": (["single-writer"], one_aggregator),
    "straggler": (["imbalance"], straggler),
    "slow-opens": (["metadata-bound"], slow_opens),
    "synced-shared-1k": (["small-requests-shared"], lambda p: synced(p, shared_blocks)),
    "synced-own-1k": (["small-requests"], lambda p: synced(p, own)),
    "repeat-own": (["repeated-reads"], repeat_own),
    "repeat-all": (["repeated-reads"], repeat_all),
    "independent-64k": (TURNS, independent(1000, 64 * KIB)),
    "independent-1m": (["no-collective"], independent(100, MIB)),
    "few-stripes": (["stripe-count"], few_stripes),
    "few-osts": (["few-osts"], few_osts),
    "slow-ost": (["slow-ost"], slow_ost),
    "scratch": (["burst-buffer"], scratch),
}
CLEAN: dict[str, Plant] = {
    "own-4m": lambda p: own(p, 64 * MIB, 4 * MIB),
    "own-16m-read": lambda p: own(p, 256 * MIB, 16 * MIB, "READ"),
    "own-1m": lambda p: own(p, 64 * MIB, MIB),
    "shared-4m": lambda p: shared_blocks(p, 64 * MIB, 4 * MIB),
    "shared-8m-turns": lambda p: shared_turns(p, 20, 8 * MIB),
    "collective": collective,
    "well-striped": well_striped,
    "checkpoint": checkpoints,
    "write-and-read": written_and_read,
    "config-file": with_settings,
    "log-lines": with_log,
    "computing": computing,
    "one-of-many": one_of_many,
    "few-calls-1m": lambda p: blocks_by_calls(p, 16, MIB),
    "many-calls-1m": lambda p: blocks_by_calls(p, 2048 // p.nprocs, MIB),
    "few-processes-one-stripe": lambda p: narrow(p, lambda q: shared_blocks(q, 256 * MIB, 4 * MIB)),
    "one-byte-again": one_byte,
}
# Problems of the same weight that do not hide each other.
TOGETHER = (
    ("small-own-4k", "imbalance-one"), ("small-own-4k", "random-own-1m"), ("small-shared-64k", "random-own-4k"),
    ("hard-47008", "many-files"), ("random-own-1m", "many-files"), ("repeat-own", "small-own-read-16k"),
    ("repeat-all", "random-own-1m"), ("misaligned-own", "repeat-all"), ("independent-64k", "many-files"),
    ("independent-1m", "small-own-1000"), ("stdio", "small-shared-4k"), ("stdio", "random-own-1m"),
    ("imbalance-half", "random-own-1m"), ("hard-47008", "random-own-4k"), ("small-shared-64k", "stdio"),
)  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    name: str
    labels: frozenset[str]
    nprocs: int
    plants: tuple[Plant, ...]

    @cached_property
    def program(self) -> Program:
        program = Program(self.nprocs)
        for plant in self.plants:
            plant(program)
        return program


def labelled_programs() -> Iterator[Labelled]:
    """At least 60 programs: each problem alone with 8 and with 4 processes, several together, and without any."""
    for name, plant in CLEAN.items():
        yield Labelled(name, frozenset(), 8, (plant,))
    for nprocs in (8, 4):
        for name, (labels, plant) in PLANTS.items():
            yield Labelled(f"{name}-{nprocs}", frozenset(labels), nprocs, (plant,))
    for names in TOGETHER:
        together = frozenset(label for name in names for label in PLANTS[name][0])
        yield Labelled("+".join(names), together, 8, tuple(PLANTS[name][1] for name in names))
