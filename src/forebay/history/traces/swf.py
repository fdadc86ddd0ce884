"""Reads requests from a job log in the Standard Workload Format (Feitelson's archive)."""

import itertools
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.text_files import open_text
from forebay.history.traces.columns import describe_left_out, quote
from forebay.model.arrays import Floats, Ints
from forebay.model.errors import BadInput
from forebay.model.space_requests import Requests
from forebay.model.system import MOST_BYTES
from forebay.model.units import parse_size

_COLUMNS = 18
_USED = {
    "job number": 0, "submit time": 1, "wait time": 2, "run time": 3, "processors": 4, "used memory": 6,
    "requested memory": 9, "status": 10, "think time": 17,
}  # fmt: skip
UNKNOWN = -1
PARTIAL = (2, 3, 4)  # the status of a line about a part of a job; another line has the whole job
KILOBYTE = 1024  # as operating systems count memory; the format only says "kilobytes"
_ENCODING = "latin-1"  # for names in comments; everything else is ASCII
_BLOCK = 500_000  # lines
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_START = re.compile(r"\s*;\s*UnixStartTime\s*:\s*(\S*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of the file, and a table with a row for each line that has numbers."""

    path: Path
    first: int
    lines: list[str]
    table: Floats
    names: tuple[str, ...] = tuple(_USED)
    """Of the columns."""

    def column(self, name: str) -> Floats:
        column: Floats = self.table[:, self.names.index(name)]
        return column

    def line_numbers(self) -> Ints:
        """The line of each row."""
        return np.array(
            [number for number, line in enumerate(self.lines, self.first) if _numbers(line)], dtype=np.int64
        )

    def refuse(self, bad: NDArray[np.bool_], name: str, column: Floats, reason: str) -> None:
        """Raise BadInput at the first bad row."""
        if bad.any():
            row = int(bad.argmax())
            raise BadInput(f"{self.path}:{self.line_numbers()[row]}", f"{name} {reason}, not {column[row]:.15g}")


def volume_per_processor(volume: str | None) -> float | None:
    """Bytes per processor; None means the memory of each job.

    >>> volume_per_processor("2 GB"), volume_per_processor("memory")
    (2000000000.0, None)
    """
    if volume is None or volume == "memory":
        return None
    try:
        size = math.nan if volume.strip().isdecimal() else parse_size(volume)
    except ValueError:
        size = math.nan
    if not 1 <= size <= MOST_BYTES:
        raise BadInput("volume of SWF jobs", f"must be 'memory', or a size per processor like '2 GB', not {volume!r}")
    return size


def read(path: Path, per_processor: float | None) -> Requests:
    """A request for every job with processors, a run time and a volume, in the order of the file."""
    left_out: Counter[tuple[str, str]] = Counter()
    nothing = Block(path, 1, [], np.empty((0, len(_USED))))
    with closing(read_blocks(path)) as blocks:
        pieces = [_columns(block, per_processor, left_out) for block in itertools.chain([nothing], blocks)]
    ids, submitted, start, duration, size = map(np.concatenate, zip(*pieces, strict=True))
    if (np.diff(ids) <= 0).any():  # ascending numbers have no duplicates
        numbers, counts = np.unique(ids, return_counts=True)
        for number in numbers[counts > 1][:1]:
            raise BadInput(f"{path}: job {number}", "appears twice; job numbers must be unique")
    begin = _unix_start(path)
    return Requests(
        ids=ids,
        submitted=submitted + begin,
        start=start + begin,
        duration=duration,
        bytes=size,
        volume=size.astype(np.float64),
        left_out=describe_left_out(left_out),
    )


def _columns(block: Block, per_processor: float | None, left_out: Counter[tuple[str, str]]) -> tuple[NDArray[Any], ...]:
    """Job numbers, times of submission and start, durations, bytes."""
    _check(block)
    used, processors, run = block.column("used memory"), block.column("processors"), block.column("run time")
    memory = np.where(used == UNKNOWN, block.column("requested memory"), used) * KILOBYTE
    per_job = memory if per_processor is None else np.full_like(memory, per_processor)
    partial = np.isin(block.column("status"), PARTIAL)
    idle = ~partial & ((processors <= 0) | (run <= 0))
    empty = ~partial & ~idle & (per_job <= 0)
    kept = ~(partial | idle | empty)
    size = per_job * processors
    block.refuse(kept & (size > MOST_BYTES), "volume", size, f"must be at most {MOST_BYTES:,} bytes")
    left_out["job", "without processors or run time"] += int(idle.sum())
    left_out["job", "without memory"] += int(empty.sum())
    left_out["line", "about a part of a job"] += int(partial.sum())
    submitted = block.column("submit time")[kept]
    start = submitted + np.maximum(block.column("wait time")[kept], 0)
    ids, bytes_ = block.column("job number")[kept].astype(np.int64), np.rint(size[kept]).astype(np.int64)
    return ids, submitted, start, run[kept], bytes_


def _check(block: Block) -> None:
    for name in _USED:
        column = block.column(name)
        block.refuse(~(np.abs(column) < 2**53), name, column, "must be a number below 2**53")
        if name in ("job number", "processors", "used memory", "requested memory"):
            block.refuse(column != np.floor(column), name, column, "must be a whole number")
        if name in ("wait time", "used memory", "requested memory"):
            block.refuse((column < 0) & (column != UNKNOWN), name, column, "must be 0 or more, or -1 for unknown")
        if name == "submit time":
            block.refuse(column < 0, name, column, "must not be negative")


def read_blocks(
    path: Path, columns: Mapping[str, int] = _USED, reject: Callable[[int, str], None] | None = None
) -> Generator[Block]:
    """Yield the lines of a log in blocks, with these columns of the format.

    A line with unreadable numbers is an error; with `reject`, it is left out, and `reject` gets its number and reason.
    """
    with open_text(path, _ENCODING) as file:
        first = 1
        while lines := list(itertools.islice(file, _BLOCK)):
            try:
                table = _parse_numbers(lines, columns)
            except ValueError:
                for at, line in enumerate(lines):
                    if fault := _find_fault(line, columns):
                        if reject is None:
                            raise BadInput(f"{path}:{first + at}", fault) from None
                        reject(first + at, fault)
                        lines[at] = ""
                try:
                    table = _parse_numbers(lines, columns)
                except ValueError as error:
                    raise BadInput(str(path), f"is not SWF: {str(error).splitlines()[0]}") from None
            if table.size:
                yield Block(path, first, lines, table, tuple(columns))
            first += len(lines)


def _parse_numbers(lines: list[str], columns: Mapping[str, int]) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about blocks of comments alone
        table: Floats = np.loadtxt(lines, comments=";", usecols=list(columns.values()), ndmin=2)
    return table


def _find_fault(line: str, columns: Mapping[str, int]) -> str:
    """Return why the numbers of a line cannot be read, or ""."""
    cells = _numbers(line)
    if cells and len(cells) < _COLUMNS:
        return f"has {len(cells)} values for {_COLUMNS} columns"
    for name, index in columns.items() if cells else ():
        if not _NUMBER.fullmatch(cells[index]):
            return f"{name} must be a number, not {quote(cells[index])}"
    return ""


def _numbers(line: str) -> list[str]:
    return line.partition(";")[0].split()


def _unix_start(path: Path) -> int:
    """The Unix time at which the log starts; 0 if its header does not have it."""
    with open_text(path, _ENCODING) as file:
        for number, line in enumerate(file, start=1):
            if _numbers(line):
                break
            if match := _START.match(line):
                try:
                    return max(0, int(match[1]))
                except ValueError:
                    raise BadInput(f"{path}:{number}", f"UnixStartTime must be a number, not {match[1]!r}") from None
    return 0
