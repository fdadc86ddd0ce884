"""The results: one row for every simulation, and their means for every bin of load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forebay.model.arrays import Bools, Floats
from forebay.show.rows import Record, Rows, distinct_values, read_columns
from forebay.simulate.applications.engine import mean_of_known

METRICS = ("mean_io_slowdown", "max_io_slowdown", "rho_io", "rho_con", "io_spread", "machine_idle")
TRUE, CLASS = "true", "class"
GREEDY = "greedy-non-clairvoyant"

RUN = np.dtype(read_columns(__file__)["run"])


class Bin(NamedTuple):
    """Sets whose I/O-load(pi_sys) lies in [low, high)."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return round((self.low + self.high) / 2, 9)

    @property
    def label(self) -> str:
        """Like `0.5 ± 0.05`."""
        return f"{self.middle:g} ± {round((self.high - self.low) / 2, 9):g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All runs of a study.

    `runs` is a structured array of type RUN. `occupancy` has a row for each run: the occupancy
    of every target, from the busiest to the least busy.
    """

    study: str
    origin: str  # where the curves come from, in words
    settings: Mapping[str, object]
    bins: Sequence[Bin]
    runs: Rows
    occupancy: Floats

    def select(self, allocate: str | None = None, place: str | None = None, curves: str = TRUE) -> Bools:
        """Return a mask of the runs with these policies, and with policies that saw these curves."""
        chosen: Bools = self.runs["curves"] == curves
        for kind, policy in (("allocate", allocate), ("place", place)):
            if policy is not None:
                chosen &= self.runs[kind] == policy
        return chosen

    def within(self, low: float, high: float) -> Bools:
        """Return a mask of the runs with an I/O-load(pi_sys) in [low, high)."""
        inside: Bools = (self.runs["io_load_sys"] >= low) & (self.runs["io_load_sys"] < high)
        return inside

    def bins_of(self, chosen: Bools) -> list[Bin]:
        """Return the bins that hold any of the chosen runs."""
        return [bin_ for bin_ in self.bins if (chosen & self.within(*bin_)).any()]

    def nearest_bin(self, chosen: Bools, load: float) -> Bin | None:
        """Return the bin around `load`, or else the nearest one that holds chosen runs."""
        return min(self.bins_of(chosen), key=lambda b: abs(b.middle - load), default=None)

    def allocators(self) -> list[str]:
        """Return the allocators in the order of the request."""
        return distinct_values(self.runs, "allocate")

    def placers(self) -> list[str]:
        return distinct_values(self.runs, "place")

    def rows(self) -> list[Record]:
        """Return the means over the sets of each bin, for every combination of policies and known curves."""
        rows: list[Record] = []
        for curves, allocate, place in distinct_values(self.runs, "curves", "allocate", "place"):
            chosen = self.select(allocate=allocate, place=place, curves=curves)
            for bin_ in self.bins:
                runs = self.runs[chosen & self.within(*bin_)]
                if runs.size:
                    row = {"allocate": allocate, "place": place, "curves": curves}
                    row |= {"load_low": bin_.low, "load_high": bin_.high, "sets": int(runs.size)}
                    rows.append(row | {m: mean_of_known(runs[m]) for m in METRICS})
        return rows


def load_bins(loads: Sequence[float], step: float) -> list[Bin]:
    """Return a bin of width `step` around each load, like the paper's 0.5 +- 0.05."""
    return [Bin(low=round(load - step / 2, 9), high=round(load + step / 2, 9)) for load in loads]
