"""The results: a row for each job and each combination of decisions, and the savings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from forebay.model.arrays import Floats
from forebay.show.rows import Rows, distinct_values, match_rows, read_columns, select
from forebay.simulate.centre.month import DECISIONS
from forebay.simulate.centre.request_gains import Gain

BASE, DEFAULT, ALL, WITHOUT = "base", "default", "all", "without-"
RUN = np.dtype(read_columns(__file__)["run"])
LABELS = {"storage": "burst buffer", "stripe": "file layouts", "allocate": "targets", "requests": "request order"}


def label(on: str) -> str:
    """Describe which decisions are on.

    >>> label("without-stripe")
    'all but file layouts'
    """
    if on.startswith(WITHOUT):
        return f"all but {LABELS[on.removeprefix(WITHOUT)]}"
    return {DEFAULT: "none (default)", ALL: "all four"}.get(on) or f"{LABELS[on]} alone"


class Estimate(NamedTuple):
    """A mean over months and its confidence interval (95 %, Student's t), which is nan for a single month."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width of the interval; 0 for a single month."""
        return 0.0 if np.isnan(self.low) else self.mean - self.low

    @property
    def interval(self) -> str:
        """The interval as text."""
        return "one month" if np.isnan(self.low) else f"{self.low:,.0f} to {self.high:,.0f}"

    @classmethod
    def of(cls, values: Floats) -> Estimate:
        """
        >>> Estimate.of(np.array([1.0, 2.0, 3.0])).mean
        2.0
        """
        mean = float(values.mean())
        if values.size < 2:
            return cls(mean, float("nan"), float("nan"))
        half = float(stdtrit(values.size - 1, 0.975) * values.std(ddof=1) / np.sqrt(values.size))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExascaleResults:
    """All runs. `gains` are those of request windows, `capacity` is the node-hours of the whole machine in a month."""

    settings: Mapping[str, object]
    months: int
    runs: Rows
    gains: Sequence[Gain]
    capacity: float

    def of(self, *, setting: str = BASE, on: str = DEFAULT) -> Rows:
        return select(self.runs, setting=setting, on=on)

    def has(self, setting: str) -> bool:
        return bool(match_rows(self.runs, setting=setting).any())

    def hours(self, *, setting: str = BASE, on: str = DEFAULT, kind: str | None = None) -> Floats:
        """Return the node-hours that waited for I/O in each month."""
        rows = self.of(setting=setting, on=on)
        months = sorted(distinct_values(rows, "month"))
        if kind is not None:
            rows = select(rows, kind=kind)
        return np.array([select(rows, month=m)["io_hours"].sum() for m in months])

    def hours_saved(self, on: str, *, setting: str = BASE, against: str = DEFAULT) -> Estimate:
        """Estimate the node-hours a month that `on` saves, comparing months with the same jobs."""
        return Estimate.of(self.hours(setting=setting, on=against) - self.hours(setting=setting, on=on))

    def share_saved(self, on: str, *, setting: str = BASE) -> Estimate:
        """Estimate the same as a share of the node-hours that wait by default."""
        return Estimate.of(1 - self.hours(setting=setting, on=on) / self.hours(setting=setting))

    def alone(self) -> dict[str, Estimate]:
        """Estimate what each decision saves when it is the only one."""
        return {name: self.hours_saved(name) for name in DECISIONS}

    def last(self) -> dict[str, Estimate]:
        """Estimate what each decision adds to the three others."""
        return {name: self.hours_saved(ALL, against=f"{WITHOUT}{name}") for name in DECISIONS}

    @property
    def kinds(self) -> list[str]:
        return distinct_values(self.runs, "kind")

    @property
    def variants(self) -> list[str]:
        """The variants of the assumed setting, in their order."""
        return distinct_values(select(self.runs, setting=BASE), "on")

    def ratios(self, kind: str) -> Floats:
        """Return the I/O time of each decided job of a kind with all decisions, divided by that by default."""
        before, after = self.of(), self.of(on=ALL)
        chosen = (before["kind"] == kind) & (before["decided"] == 1) & (before["io_hours"] > 0)
        ratios: Floats = after["io_hours"][chosen] / before["io_hours"][chosen]
        return ratios
