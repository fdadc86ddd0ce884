"""Which process asks for which bytes of which file: the patterns of MPI-IO Test, which FORGE replays too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from forebay.model.errors import BadInput, UnknownName

Pattern = Literal["file-per-process", "shared-contiguous", "shared-strided"]
Operation = Literal["read", "write", "both"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
MOST_PROCESSES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Bytes of `total` are of all processes together, in requests of `request` bytes; each moves as much as another."""

    processes: int
    pattern: Pattern
    request: int
    total: int

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise UnknownName("pattern", self.pattern, PATTERNS)
        if not 1 <= self.processes <= MOST_PROCESSES:
            raise BadInput("--processes", f"must be between 1 and {MOST_PROCESSES}, not {self.processes}")
        if self.request < 1:
            raise BadInput("--request", "must be at least one byte")
        if self.total < self.processes * self.request:
            raise BadInput("--total", f"{self.total} bytes are less than one request of each process")

    @property
    def files(self) -> int:
        return self.processes if self.pattern == "file-per-process" else 1

    @property
    def requests(self) -> int:
        """Of each process."""
        return self.total // (self.processes * self.request)

    @property
    def bytes(self) -> int:
        """That are really moved: as many whole requests as fit into the total."""
        return self.processes * self.requests * self.request

    def file(self, process: int) -> int:
        """The number of the file that a process uses."""
        return process if self.pattern == "file-per-process" else 0

    def offsets(self, process: int) -> Iterator[int]:
        """Where its requests begin, in the order in which it makes them.

        >>> list(Workload(processes=2, pattern="shared-strided", request=10, total=40).offsets(1))
        [10, 30]
        """
        size, count = self.request, self.requests
        if self.pattern == "shared-strided":
            return iter(range(process * size, self.processes * count * size, self.processes * size))
        start = process * count * size if self.pattern == "shared-contiguous" else 0
        return iter(range(start, start + count * size, size))
