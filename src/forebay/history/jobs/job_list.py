"""Collects jobs row by row, checks them, and makes the table of jobs."""

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from forebay.history.run_fields import LATEST
from forebay.history.traces.columns import check_id, describe_left_out, quote
from forebay.model.jobs import JOB, BadRow, Jobs
from forebay.model.system import MOST_BYTES

MOST_NODES = 10**7
LONGEST = float(LATEST)
"""Of wall times and run times, in seconds."""
_LARGEST = 1e300  # larger whole numbers are no floating-point numbers
NAMES = ("user", "project", "tier", "application")


@dataclass(slots=True, kw_only=True)
class Row:
    """A job as a file states it. Without `bytes_in` or `bytes_out`, all of its space is staged."""

    id: str
    submit: float
    nodes: int
    walltime: float
    runtime: float
    bytes: int
    bytes_in: int | None = None
    bytes_out: int | None = None
    names: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise ValueError with the reason if the job is not valid."""
        check_id(self.id)
        require("submit", self.submit, 0, LONGEST)
        require("nodes", self.nodes, 1, MOST_NODES)
        require("walltime", self.walltime, 0, LONGEST)
        if self.walltime == 0:
            raise ValueError("walltime must be more than 0")
        require("runtime", self.runtime, 0, LONGEST)
        require("bytes", self.bytes, 0, MOST_BYTES)
        for name, staged in (("bytes_in", self.bytes_in), ("bytes_out", self.bytes_out)):
            if staged is not None:
                require(name, staged, 0, MOST_BYTES)


def require(name: str, value: float, least: float, most: float) -> None:
    """Raise ValueError unless the value is in the range.

    >>> require("nodes", 4, 1, 96)
    """
    if least <= value <= most:
        return
    shown = f"{value:.15g}" if abs(value) <= _LARGEST else "a number of many digits"
    if -math.inf < value < 0:
        raise ValueError(f"{name} must not be negative, not {shown}")
    raise ValueError(f"{name} must be from {least:,.15g} to {most:,.15g}, not {shown}")


class JobList:
    """The jobs of a file, as they are read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.rejected: list[BadRow] = []
        self.left_out: Counter[tuple[str, str]] = Counter()
        self._rows: list[Row] = []
        self._lines: list[int] = []
        self._places: dict[str, int] = {}

    def add(self, line: int, row: Row) -> None:
        """Add a job, or reject it with the reason. `line` is 0 where a file has no lines."""
        try:
            row.check()
            if row.id in self._places:
                before = f", on line {self._places[row.id]}" if line else ""
                raise ValueError(f"job {quote(row.id)} appears twice{before}; job ids must be unique")
        except ValueError as error:
            self.reject(line, str(error))
            return
        self._places[row.id] = line
        self._rows.append(row)
        self._lines.append(line)

    def reject(self, line: int, reason: str) -> None:
        self.rejected.append(BadRow(self.file, line, reason))

    def make_jobs(self) -> Jobs:
        """Return the jobs in order of submission."""
        rows = np.zeros(len(self._rows), dtype=JOB)
        for name in ("submit", "nodes", "walltime", "runtime", "bytes"):
            rows[name] = [getattr(row, name) for row in self._rows]
        for name in ("bytes_in", "bytes_out"):
            staged = [getattr(row, name) for row in self._rows]
            rows[name] = [row.bytes if each is None else each for row, each in zip(self._rows, staged, strict=True)]
        named: dict[str, tuple[str, ...]] = {}
        for name in NAMES:
            values = [row.names.get(name, "") for row in self._rows]
            named[name] = tuple(sorted(set(values) - {""}))
            index = {value: i for i, value in enumerate(named[name])} | {"": -1}
            rows[name] = [index[value] for value in values]
        order = np.argsort(rows["submit"], kind="stable")
        return Jobs(
            rows=rows[order],
            ids=tuple(self._rows[i].id for i in order.tolist()),
            users=named["user"],
            projects=named["project"],
            tiers=named["tier"],
            applications=named["application"],
            rejected=tuple(self.rejected),
            left_out=describe_left_out(self.left_out),
            name=short_name(self.file),
            file=self.file,
            lines=np.array(self._lines, dtype=np.int64)[order],
        )


def short_name(file: str) -> str:
    """The name of a file without its folder and suffixes.

    >>> short_name("data/alloc-only-00.csv.gz")
    'alloc-only-00'
    """
    path = Path(file)
    return path.name.removesuffix("".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix)
