"""Reads requests from the CSV files on Theta in ALCF's data portal: Darshan's counters and the scheduler's times."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import numpy as np

from forebay.history.text_files import read_csv
from forebay.history.traces.columns import check_id, id_column, make_requests, parse_bytes, parse_time, quote
from forebay.model.errors import BadInput
from forebay.model.space_requests import Requests
from forebay.model.system import MOST_BYTES

T = TypeVar("T")

_ID = "cobalt_jobid"
_TIMES = ("queued_timestamp", "start_timestamp", "end_timestamp")
_KINDS = ("bytes_read", "bytes_written", "f_read_time", "f_write_time", "f_meta_time")
_COUNTERS = tuple(f"total_{interface}_{kind}" for interface in ("posix", "mpiio", "stdio") for kind in _KINDS)
_DARSHAN = (_ID, "nprocs", "run_time", *_COUNTERS[:4])  # required columns; others count as 0

# Monniot et al. 2023, section 5. (Their script accepts either one; we require both, like the paper.)
_LEAST_SHARE = 0.1
_LEAST_BYTES = 10 * 10**9


@dataclass(slots=True)
class _Job:
    """Sums over the Darshan rows of one job. `busy` is the I/O time per process, in seconds."""

    read: int = 0
    written: int = 0
    busy: float = 0.0
    run: float = 0.0

    @property
    def is_heavy(self) -> bool:
        return self.busy >= _LEAST_SHARE * self.run and max(self.read, self.written) >= _LEAST_BYTES


@dataclass(frozen=True, slots=True)
class _Row:
    """Some cells of a line, by column."""

    path: Path
    line: int
    cells: tuple[str, ...]

    def get(self, index: int, column: str, convert: Callable[[str], T]) -> T:
        try:
            return convert(self.cells[index].strip())
        except ValueError as error:
            raise BadInput(f"{self.path}:{self.line}", f"{column.upper()} {error}") from None


def read(paths: Sequence[Path]) -> Requests:
    """A request for every job that passes the paper's filter: 10 % of its run time in I/O, and 10 GB read or written.

    `paths` are the two files in any order, or one file that joins them.
    """
    darshan, scheduler = _identify_files({path: next(read_csv(path))[1] for path in paths})
    jobs = _jobs(darshan)
    schedule = _schedule(scheduler, jobs, joined=len(paths) == 1)
    heavy = [name for name, job in jobs.items() if name in schedule and job.is_heavy]
    ids = id_column(heavy)
    times = [_times(schedule[name]) for name in heavy]
    order = np.lexsort((ids, np.array([submitted for submitted, _, _ in times])))
    volumes = [(jobs[heavy[i]].read, jobs[heavy[i]].written) for i in order]
    left_out = {
        ("job", "missing from the scheduler's file"): len(jobs.keys() - schedule.keys()),
        ("job", "with little I/O"): len(schedule) - len(heavy),
    }
    return make_requests(ids[order], [times[i] for i in order], volumes, left_out)


def _identify_files(headers: Mapping[Path, list[str]]) -> tuple[Path, Path]:
    """The file with Darshan's counters and the one with the scheduler's times, possibly the same."""
    paths = list(headers)
    darshan = [path for path in paths if any(column in _COUNTERS for column in headers[path])]
    for path in paths:
        if not headers[path]:
            raise BadInput(str(path), "has no requests")
    if len(darshan) != 1:
        what = "both have" if darshan else "has none of"
        raise BadInput(" and ".join(map(str, paths)), f"{what} Darshan's columns, like {_COUNTERS[0].upper()}")
    scheduler = next((path for path in paths if path != darshan[0]), darshan[0])
    for path, needed in ((darshan[0], _DARSHAN), (scheduler, (_ID, *_TIMES))):
        for column in needed:
            if column not in headers[path]:
                raise BadInput(f"{path}:1", f"needs the column {column.upper()}")
    return darshan[0], scheduler


def _jobs(path: Path) -> dict[str, _Job]:
    jobs: dict[str, _Job] = {}
    for row in _rows(path, (_ID, "nprocs", "run_time", *_COUNTERS)):
        name = row.get(0, _ID, _id)
        job = jobs.setdefault(name, _Job())
        processes = row.get(1, "nprocs", _parse_positive)
        values = [
            row.get(index, column, parse_bytes if "_bytes_" in column else _span) if row.cells[index] else 0
            for index, column in enumerate(_COUNTERS, start=3)
        ]
        # MPI-IO goes through POSIX, STDIO does not.
        interfaces = zip(values[:5], values[5:10], values[10:], strict=True)
        read, written, *busy = (max(posix, mpiio) + stdio for posix, mpiio, stdio in interfaces)
        job.read += int(read)
        job.written += int(written)
        job.busy += sum(busy) / processes
        job.run += row.get(2, "run_time", _span)
        if max(job.read, job.written) > MOST_BYTES:
            raise BadInput(f"{path}:{row.line}", f"job {name} moves more than {MOST_BYTES:,} bytes")
    return jobs


def _schedule(path: Path, jobs: Mapping[str, _Job], *, joined: bool) -> dict[str, _Row]:
    """The scheduler's row of every job with Darshan rows. A joined file repeats it in each row of the job."""
    rows: dict[str, _Row] = {}
    for row in _rows(path, (_ID, *_TIMES)):
        name = row.get(0, _ID, _id)
        if name not in jobs:
            continue
        first = rows.setdefault(name, row)
        if first is not row and not (joined and first.cells[1:] == row.cells[1:]):
            raise BadInput(f"{path}:{row.line}", f"job {name} already has a row, on line {first.line}")
    return rows


def _times(row: _Row) -> tuple[float, float, float]:
    queued, start, end = (row.get(index, column, parse_time) for index, column in enumerate(_TIMES, start=1))
    if end < start:
        raise BadInput(f"{row.path}:{row.line}", "END_TIMESTAMP is before START_TIMESTAMP")
    return queued, start, end


def _rows(path: Path, columns: Sequence[str]) -> Iterator[_Row]:
    """Yield the cells of these columns, line by line; cells of a missing column are empty."""
    lines = read_csv(path)
    _, header = next(lines)
    chosen = itemgetter(*(header.index(c) if c in header else len(header) for c in columns))
    for number, cells in lines:
        cells.append("")
        yield _Row(path, number, chosen(cells))


def _id(text: str) -> str:
    """Parse an id, which the portal writes as 404560 in one file and as 404560.0 in the other."""
    return check_id(text.removesuffix(".0"))


def _parse_positive(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise ValueError(f"must be positive, not {quote(text)}")
    return value


def _span(text: str) -> float:
    """Parse seconds. Negative ones, from a wrong clock, count as 0."""
    return max(0.0, _number(text))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"must be a number, not {quote(text)}")
    return value
