"""Workloads: the access patterns of MPI-IO Test, and the 144 experiments of the paper."""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from forebay.model.errors import BadInput, UnknownName
from forebay.model.kernels import Array
from forebay.model.layout import KIB
from forebay.model.process_mapping import BLOCK
from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.model.units import plural
from forebay.simulate.requests.engine import PROCESS

PAPER_TOTAL = 4 << 30
PAPER_NODES, PAPER_PROCESSES, PAPER_REQUESTS = (1, 2, 4, 8), (128, 256, 512), (32 * KIB, 256 * KIB)
PAPER_WINDOWS = tuple(125_000 << k for k in range(7))
"""Nanoseconds: 0.125 to 8 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Processes with one outstanding request of `request` bytes each, `total` bytes in all."""

    processes: int
    pattern: str
    operation: str
    request: int
    total: int = PAPER_TOTAL
    think: float = 0.0  # seconds before each request, on average (exponentially distributed)
    spread: float = 2e-3  # seconds within which the processes begin
    first_servers: tuple[int, ...] = ()  # of each file's first stripe; empty: in turn

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise UnknownName("pattern", self.pattern, PATTERNS)
        if self.operation not in OPERATIONS:
            raise UnknownName("operation", self.operation, OPERATIONS)
        for name in ("processes", "request"):
            if getattr(self, name) < 1:
                raise BadInput(name, f"must be 1 or more, not {getattr(self, name)}")
        if self.total < self.processes * self.request:
            raise BadInput("total", "must be at least one request for each process")
        if self.first_servers and len(self.first_servers) != self.files:
            raise BadInput("first_servers", f"must have one server for each of {plural(self.files, 'file')}")
        for name in ("think", "spread"):
            if not 0 <= getattr(self, name) <= 3600:
                raise BadInput(name, f"must be from 0 to 3600 seconds, not {getattr(self, name):g}")

    @property
    def requests(self) -> int:
        """Requests of each process; an incomplete last one is left out."""
        return self.total // (self.processes * self.request)

    @property
    def files(self) -> int:
        return self.processes if self.pattern == "file-per-process" else 1

    def rows(self, first_file: int = 0) -> Array:
        """Return a PROCESS for each process, without its I/O node; `start` is the number of its file's first server."""
        rows, rank = np.zeros(self.processes, dtype=PROCESS), np.arange(self.processes)
        rows["requests"], rows["size"], rows["step"] = self.requests, self.request, self.request
        rows["write"], rows["think"] = self.operation == "write", round(self.think * 1e9)
        rows["file"] = first_file
        if self.pattern == "file-per-process":
            rows["file"] += rank
        elif self.pattern == "shared-contiguous":
            rows["base"] = rank * (self.requests * self.request)
        else:
            rows["base"], rows["step"] = rank * self.request, self.processes * self.request
        rows["start"] = rows["file"]
        if self.first_servers:
            rows["start"] = np.array(self.first_servers)[rows["file"] - first_file]
        return rows

    def starts(self, rng: Generator) -> Array:
        """Draw when each process begins, in nanoseconds."""
        return (rng.random(self.processes) * (self.spread * 1e9)).astype(np.int64)


class Experiment(NamedTuple):
    """A workload, a number of I/O nodes, and the mapping of processes to them."""

    nodes: int
    workload: Workload
    mapping: str = BLOCK

    @property
    def name(self) -> str:
        w = self.workload
        return f"{w.pattern}-{w.operation}-{w.request // KIB}-nodes-{self.nodes}-processes-{w.processes}"


def paper_experiments(total: int = PAPER_TOTAL) -> tuple[Experiment, ...]:
    """Return the 144 experiments of Bez et al. 2019, section 6."""
    every = product(PATTERNS, OPERATIONS, PAPER_REQUESTS, PAPER_NODES, PAPER_PROCESSES)
    return tuple(
        Experiment(
            nodes=nodes,
            workload=Workload(processes=p, pattern=pattern, operation=operation, request=request, total=total),
        )
        for pattern, operation, request, nodes, p in every
    )
