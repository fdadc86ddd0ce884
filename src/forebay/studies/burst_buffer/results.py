"""The results: a row for every disk of every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forebay.show.rows import Floats, Rows, distinct, select
from forebay.simulate.storage.rules import OPTIMAL as OPTIMAL

# Of a run, the same in the rows of all its disks:
_RUN = [
    ("mode", "U16"),
    ("platform", "U80"),
    ("layout", "U16"),
    ("capacity", "i8"),
    ("policy", "U80"),
    ("split", "i8"),  # bytes; 0 if requests are not split
    ("tries", "i8"),  # 0 if requests are not requeued
    ("interval", "f8"),
    ("requests", "i8"),
    ("parts", "i8"),
    ("sum_bytes", "i8"),
    ("allocated_bytes", "i8"),
    ("allocated_share", "f8"),
    ("allocated", "i8"),
    ("refused", "i8"),
    ("refused_bytes", "i8"),
    ("failed", "i8"),
    ("failed_bytes", "i8"),
    ("delayed", "i8"),
    ("requeued", "i8"),
    ("delay_seconds", "f8"),
    ("split_requests", "i8"),
    ("split_allocated", "i8"),
    ("split_refused", "i8"),
    ("split_failed", "i8"),
    ("split_allocated_bytes", "i8"),
    ("split_refused_bytes", "i8"),
    ("split_failed_bytes", "i8"),
    ("max_concurrent", "i8"),
    ("seconds", "f8"),
    ("mean_slowdown", "f8"),  # with feedback only
    ("median_slowdown", "f8"),
    ("max_slowdown", "f8"),
]
# Of a disk:
_DISK = [
    ("node", "U80"),
    ("disk", "i8"),  # -1 in the one row of `optimal`
    ("kind", "U16"),
    ("disk_capacity", "i8"),
    ("max_use", "f8"),
    ("mean_use", "f8"),
    ("max_allocations", "f8"),
    ("mean_allocations", "f8"),
]
ROW = np.dtype([*_RUN, *_DISK])
KEY = ("mode", "platform", "policy", "split", "tries", "interval")
LAYOUTS = ("nNnD", "nN1D", "1NnD", "1N1D")


def layout_of(platform: str) -> str:
    """The paper's name of a layout, if the platform is one of the paper's.

    >>> layout_of("32TB/nN1D")
    'nN1D'
    """
    _, _, layout = platform.rpartition("/")
    return layout if layout in LAYOUTS else ""


@dataclass(frozen=True)
class StorageResults:
    """All runs of a study; `rows` is a structured array of type ROW."""

    origin: str  # whose requests, in words
    requests: int
    settings: Mapping[str, object]
    rows: Rows

    @cached_property
    def runs(self) -> Rows:
        """The first row of every run, without its disk; `optimal` among them."""
        runs = self.rows[[name for name, _ in _RUN]]
        _, first = np.unique(self.rows[list(KEY)], return_index=True)
        return runs[np.sort(first)]

    def policies(self) -> list[str]:
        """In the order in which they were asked for, without `optimal`."""
        return [policy for policy in distinct(self.rows, "policy") if policy != OPTIMAL]

    def modes(self) -> list[str]:
        return distinct(self.rows, "mode")

    def disks(self, **wanted: object) -> Rows:
        """Rows of real disks whose columns have these values."""
        return select(self.rows[self.rows["disk"] >= 0], **wanted)

    def select(self, **wanted: object) -> Rows:
        """Runs whose columns have these values."""
        return select(self.runs, **wanted)


def cohens_d(sample: Floats, other: Floats) -> float:
    """By how many standard deviations the mean of `sample` lies below that of `other` (Cohen 1988).

    >>> cohens_d(np.array([1.0, 2.0, 3.0]), np.array([3.0, 4.0, 5.0]))
    2.0
    """
    if sample.size < 2 or other.size < 2:
        return float("nan")
    free = sample.size - 1, other.size - 1
    pooled = (free[0] * sample.var(ddof=1) + free[1] * other.var(ddof=1)) / sum(free)
    difference = float(other.mean() - sample.mean())
    if pooled == 0:
        return 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
    return difference / float(np.sqrt(pooled))
