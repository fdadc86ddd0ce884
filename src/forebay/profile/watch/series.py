"""Comparable runs: of one application and user, with as many processes, on one file system, of about one volume.

The pace of a run is the logarithm of its I/O seconds per byte. Partial logs and runs that moved less than `LEAST_BYTES`
have none. Volumes are alike if they fall between the same powers of four, and mostly reads, mostly writes or both:
otherwise another input would look like a slower file system.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from forebay.history.store.run_columns import Records
from forebay.model.arrays import Floats, Ints

LEAST_BYTES = 1 << 20
NEIGHBOURS = 10
"""Runs on each side that show what is usual for a run."""
LEAST_NEIGHBOURS = 10
LEAST_SPREAD = 0.1
_BOTH = 0.2  # below this share of one operation, a run mostly does the other


@dataclass(frozen=True)
class Series:
    """`rows` are runs in the order of their start; `order` are the indices of those with a pace, series by series, and
    `bounds` where each series begins in `order`, and its end."""

    rows: Records
    order: Ints
    bounds: Ints
    pace: Floats
    """By index in `rows`; NaN without one."""

    def __iter__(self) -> Iterator[Ints]:
        return (self.order[a:b] for a, b in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True))

    @cached_property
    def numbers(self) -> Ints:
        """The series of each run; -1 without one."""
        of = np.full(self.rows.size, -1)
        of[self.order] = np.repeat(np.arange(self.bounds.size - 1), np.diff(self.bounds))
        return of

    @cached_property
    def excess(self) -> Floats:
        """How much slower each run was than its neighbours in the series: the logarithm, in robust standard deviations
        of the series; NaN with fewer than `LEAST_NEIGHBOURS`."""
        return self._against_neighbours[1]

    @cached_property
    def slowdown(self) -> Floats:
        """How many times its neighbours' seconds per byte each run needed; NaN as above."""
        return np.exp(self._against_neighbours[0])

    @cached_property
    def _against_neighbours(self) -> tuple[Floats, Floats]:
        away, excess = np.full((2, self.rows.size), np.nan)
        for members in self:
            if members.size <= LEAST_NEIGHBOURS:
                continue
            distances = self.pace[members] - _usual_pace(self.pace[members])
            spread = max(1.4826 * float(np.median(np.abs(distances - np.median(distances)))), LEAST_SPREAD)
            away[members], excess[members] = distances, distances / spread
        return away, excess


def _usual_pace(pace: Floats) -> Floats:
    """The median of the runs around each run."""
    from scipy.ndimage import median_filter

    usual: Floats = median_filter(pace, size=min(2 * NEIGHBOURS + 1, pace.size))
    return usual


def join_runs(rows: Records, records: Records) -> tuple[Records, Ints]:
    """The records of known runs, and the index in `rows` of the run of each."""
    by_number = np.argsort(rows["run_id"])
    numbers: Ints = rows["run_id"][by_number]
    known = records[np.isin(records["run_id"], numbers)]
    return known, by_number[np.searchsorted(numbers, known["run_id"])]


def group_runs(rows: Records) -> Series:
    """Put comparable runs together."""
    seconds: Floats = rows["time_by_slowest"]
    moved: Floats = rows["total_bytes"].astype(np.float64)
    has_pace = (rows["partial_flag"] == 0) & (seconds > 0) & (moved >= LEAST_BYTES)
    pace = np.full(rows.size, np.nan)
    pace[has_pace] = np.log(seconds[has_pace] / moved[has_pace])
    chosen = np.flatnonzero(has_pace)
    read_bytes: Ints = rows["bytes_read"][chosen]
    read = read_bytes / moved[chosen]
    same: list[npt.NDArray[np.integer]] = [rows[name][chosen] for name in ("app_id", "uid", "nprocs", "filesystem")]
    keys = np.column_stack(
        [
            *same,
            np.round(np.log2(moved[chosen]) / 2).astype(np.int64),
            np.where(read < _BOTH, 0, np.where(read > 1 - _BOTH, 2, 1)),
        ]
    )
    sorted_by = np.lexsort(keys.T)  # stable, so that runs stay in the order of their start
    ordered = keys[sorted_by]
    begins = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    bounds = np.concatenate(([0], begins, [chosen.size])) if chosen.size else np.zeros(1, dtype=np.int64)
    return Series(rows, chosen[sorted_by], bounds, pace)
