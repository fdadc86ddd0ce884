"""What a study's figures are drawn from, and the choices that several of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from forebay.model.curve import Curve
from forebay.show.figures.looks import ALLOCATORS, PLACERS, Look, looks_of
from forebay.show.figures.series import Band
from forebay.show.phrases import join_names
from forebay.show.rows import Floats, Mask, finite
from forebay.studies.io_resources.results import TRUE, Bin, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A study's results, the curves that its applications were drawn from, and its policies' looks."""

    results: Results
    curves: Mapping[str, Curve]
    allocators: Mapping[str, Look]
    placers: Mapping[str, Look]

    @classmethod
    def of(cls, results: Results, curves: Mapping[str, Curve]) -> Subject:
        """Policies in the order in which the study has them, the paper's placements before others."""
        met = results.placers()
        placers = [name for name in PLACERS if name in met] + [name for name in met if name not in PLACERS]
        return cls(
            results=results,
            curves=curves,
            allocators=looks_of(results.allocators(), ALLOCATORS),
            placers=looks_of(placers, PLACERS),
        )

    @property
    def placer(self) -> str:
        """The placement for comparing allocators: the paper's, or the first there is."""
        usual = "greedy-non-clairvoyant"
        return usual if usual in self.placers or not self.placers else next(iter(self.placers))

    def mask(self, allocate: str, place: str, curves: str = TRUE) -> Mask:
        return self.results.select(allocate=allocate, place=place, curves=curves)

    def by_load(self, metric: str, place: str, *, curves: str = TRUE, factor: float = 1.0) -> dict[str, Band]:
        """The metric for each bin of load, of every allocator that has been run with that placement."""
        values = self.results.runs[metric] * factor
        bands = {name: by_bin(self.results, self.mask(name, place, curves), values) for name in self.allocators}
        return {name: band for name, band in bands.items() if band.x.size}


def leaders(subject: Subject, metric: str, place: str) -> str:
    """Who is lowest in how many bins, like ` Lowest mean: tcpu (in 7 of 10 bins) and nsys (3).`

    A bin counts only the sets that every policy has been run on; empty if there is nothing to compare.
    """
    tables = {name: _by_set(subject, metric, name, place) for name in subject.allocators}
    tables = {name: table for name, table in tables.items() if table}
    common = set.intersection(*map(set, tables.values())) if len(tables) > 1 else set()
    wins: Counter[str] = Counter()
    for bin_ in subject.results.bins:
        shared = [key for key in sorted(common) if bin_.low <= key[2] < bin_.high]
        if shared:
            wins[min(tables, key=lambda name: np.mean([tables[name][key] for key in shared]))] += 1
    if not wins:
        return ""
    (first, most), *others = wins.most_common()
    shown = [f"{first} (in {most} of {wins.total()} bins)", *(f"{name} ({bins})" for name, bins in others)]
    return f" Lowest mean: {join_names(shown)}."


def _by_set(subject: Subject, metric: str, allocate: str, place: str) -> dict[tuple[float, int, float], float]:
    runs = subject.results.runs[subject.mask(allocate, place)]
    keys = zip(*(runs[column].tolist() for column in ("load", "set", "io_load_sys")), strict=True)
    return {key: value for key, value in zip(keys, runs[metric].tolist(), strict=True) if np.isfinite(value)}


def by_bin(results: Results, chosen: Mask, values: Floats) -> Band:
    """Mean, 10th and 90th percentile of the chosen runs' values in every bin that has any.

    `values` has a value for each run of the results.
    """
    points = []
    for bin_ in results.bins:
        sample = finite(values[chosen & results.within(bin_.low, bin_.high)])
        if sample.size:
            points.append((bin_.middle, sample.mean(), *np.percentile(sample, (10, 90))))
    return Band(*np.array(points, dtype=float).reshape(-1, 4).T)


def nearest_bin(results: Results, chosen: Mask, load: float) -> Bin | None:
    """The bin around `load`, or else the nearest one, of those that hold chosen runs."""
    held = [b for b in results.bins if (chosen & results.within(b.low, b.high)).any()]
    return min(held, key=lambda b: abs(b.middle - load), default=None)


def load_range(bin_: Bin) -> str:
    """Like `0.5 ± 0.05`."""
    return f"{bin_.middle:g} ± {round((bin_.high - bin_.low) / 2, 9):g}"
