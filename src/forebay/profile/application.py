"""The profile of an application from its runs: pattern, volumes, bandwidth curve, drift, forecast."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, TypeVar

import numpy as np

from forebay.history.store.past_runs import Behaviour, RequestTotals
from forebay.model.curve import Curve
from forebay.profile.access_pattern import Pattern, pattern_of

Key = TypeVar("Key", bound=Hashable)
DriftVerdict = Literal["faster", "slower", "no drift", "too few runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of a quantity over several runs, and its 10th and 90th percentiles."""

    median: float
    p10: float
    p90: float
    runs: int


def spread(values: Sequence[float], *, that_occurred: bool = False) -> Spread:
    """The spread of at least one value; with `that_occurred`, its numbers are always among the values.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, p10=1.4, p90=4.6, runs=5)
    >>> spread([4.0, 1.0], that_occurred=True).median
    1.0
    """
    method: Literal["inverted_cdf", "linear"] = "inverted_cdf" if that_occurred else "linear"
    p10, median, p90 = np.percentile(np.array(values, dtype=float), (10, 50, 90), method=method).tolist()
    return Spread(median=median, p10=p10, p90=p90, runs=len(values))


LEAST_RUNS = 4
"""The fewest runs in each third: a rank test of three against three never reaches 5 %."""
SURE = 0.05
LEAST_CHANGE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The `ratio` of the median performance of the last third of the runs to that of the first.

    `p_value` is from a Mann-Whitney test. A drift has a p-value under 5 % and a ratio more than 10 % away from 1.
    """

    early_runs: int
    late_runs: int
    ratio: float | None
    p_value: float | None
    verdict: DriftVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The bytes of the next run, and its I/O seconds on `count` OSTs, the best known number.

    Without a curve, `count` is None and `seconds` is the median of the runs.
    """

    total_bytes: Spread
    count: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An application at one number of processes, on one file system.

    `measures` are columns of the history over `runs` runs. Partial runs are counted but not used, unless all runs
    are partial (`only_partial`). Then the profile has a pattern and measures, but no curve, drift or forecast.
    """

    app: str
    filesystem: str | None
    """The mount point; None if unknown."""
    elsewhere: tuple[tuple[str, int], ...]
    """Other file systems, each with its number of runs, which are left out."""
    unplaced_runs: int
    """Of the runs, those on an unknown file system. If others are known to be on `filesystem`, they do not count for
    the drift, as they may be of another machine."""
    processes: int
    process_counts: tuple[tuple[int, int], ...]
    """Each number of processes with its number of runs, on the named file system if one was requested."""
    runs: int
    partial_runs: int
    only_partial: bool
    untimed_runs: int
    """Whole runs without timed I/O, so without a bandwidth."""
    first_start_time: float
    last_start_time: float
    pattern: Pattern
    measures: dict[str, Spread]
    points: dict[int, Spread]
    """b(n): the performance on n OSTs, in bytes per second, by ascending n; runs with an unknown n are left out."""
    layouts: dict[tuple[int, int], Spread]
    """The performance by stripes of one file and stripe size, fastest first."""
    curve: Curve | None
    drift: Drift
    forecast: Forecast | None


def profile_of(
    app: str, runs: Sequence[Behaviour], processes: int | None = None, filesystem: str | None = None
) -> Profile:
    """Describe an application by its runs, oldest first, at the number of processes nearest to `processes`.

    The default is the number with most runs (of several, that of the latest run). Runs on another file system are left
    out. The default `filesystem` is the last known one of the runs with this number of processes.
    """
    there = runs if filesystem is None else runs_on(runs, filesystem)
    number = commonest_count(there) if processes is None else nearest_count([r.nprocs for r in there], processes)
    same_count = [r for r in runs if r.nprocs == number]
    known = (run.filesystem for run in reversed(same_count) if run.filesystem)
    mount = next(known, None) if filesystem is None else filesystem
    elsewhere = Counter(r.filesystem for r in same_count if r.filesystem and r.filesystem != mount)
    alike = runs_on(same_count, mount)
    whole = [r for r in alike if not r.partial_flag]
    timed = [r for r in whole if r.perf_by_slowest > 0]
    points = {n: perf for n, perf in sorted(_perf_by(timed, lambda r: r.stripe_count or 0).items()) if n}
    curve = Curve.of({n: perf.median for n, perf in points.items()}) if points else None
    by_layout = _perf_by(timed, lambda r: (r.file_stripe_count or 0, r.stripe_size or 0)).items()
    return Profile(
        app=app,
        filesystem=mount,
        elsewhere=tuple(sorted(elsewhere.items())),
        processes=number,
        process_counts=tuple(sorted(Counter(run.nprocs for run in there).items())),
        unplaced_runs=len(alike) - sum(map(is_placed, alike)),
        runs=len(alike),
        partial_runs=len(alike) - len(whole),
        only_partial=not whole,
        untimed_runs=len(whole) - len(timed),
        first_start_time=alike[0].start_time,
        last_start_time=alike[-1].start_time,
        pattern=pattern_of(whole or alike),
        measures=measures_of(whole or alike),
        points=points,
        layouts=dict(sorted((p for p in by_layout if all(p[0])), key=lambda p: (-p[1].median, p[0]))),
        curve=curve,
        drift=drift_of([r for r in timed if is_placed(r)] if any(map(is_placed, alike)) else timed),
        forecast=forecast_of(timed, curve),
    )


def is_placed(run: Behaviour) -> bool:
    """Whether the file system of a run is known."""
    return bool(run.filesystem)


def runs_on(runs: Sequence[Behaviour], filesystem: str | None) -> list[Behaviour]:
    """The runs on this or an unknown file system."""
    return [run for run in runs if run.filesystem in (None, "", filesystem)]


def nearest_count(counts: Sequence[int], wanted: int) -> int:
    """The nearest count on a logarithmic scale; of two equally near ones, the smaller.

    >>> nearest_count([1, 16, 64], 32)
    16
    """
    return min(counts, key=lambda n: (round(abs(math.log(n / wanted)), 12), n))


def commonest_count(runs: Sequence[Behaviour]) -> int:
    """The most common number of processes in whole runs, or in all runs if all are partial."""
    known = [r for r in runs if not r.partial_flag] or runs
    counts = Counter(run.nprocs for run in reversed(known))  # of equals, that of the latest run
    return counts.most_common(1)[0][0]


def measures_of(runs: Sequence[Behaviour]) -> dict[str, Spread]:
    """The spread of each measure over the runs, by name; measures without values are left out."""
    values = {name: [value for run in runs if (value := read(run)) is not None] for name, read in _MEASURES.items()}
    return {name: spread(each, that_occurred=name.startswith("common_")) for name, each in values.items() if each}


def drift_of(runs: Sequence[Behaviour]) -> Drift:
    """The drift over whole, timed runs, oldest first.

    It compares only runs with the same number of processes and layout, each relative to their median performance: a
    better layout is not a drift.
    """
    third = len(runs) // 3
    early, late = _compare_with_medians(runs[:third], runs[len(runs) - third :])
    if min(len(early), len(late)) < LEAST_RUNS:
        return Drift(early_runs=len(early), late_runs=len(late), ratio=None, p_value=None, verdict="too few runs")
    from scipy.stats import mannwhitneyu

    ratio = float(np.median(late) / np.median(early))
    chance = float(mannwhitneyu(early, late).pvalue)
    verdict: DriftVerdict = "no drift"
    if chance < SURE and abs(ratio - 1) > LEAST_CHANGE:
        verdict = "faster" if ratio > 1 else "slower"
    return Drift(early_runs=len(early), late_runs=len(late), ratio=ratio, p_value=chance, verdict=verdict)


def _compare_with_medians(early: Sequence[Behaviour], late: Sequence[Behaviour]) -> tuple[list[float], list[float]]:
    """Performance relative to the median of similar runs; runs without similar ones at the other end are left out."""
    alike: dict[tuple[int | None, ...], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for end, runs in enumerate((early, late)):
        for run in runs:
            alike[run.nprocs, run.stripe_count, run.file_stripe_count, run.stripe_size][end].append(run.perf_by_slowest)
    relative: tuple[list[float], list[float]] = ([], [])
    for first, last in alike.values():
        if first and last:
            usual = float(np.median(first + last))
            relative[0].extend(value / usual for value in first)
            relative[1].extend(value / usual for value in last)
    return relative


def forecast_of(runs: Sequence[Behaviour], curve: Curve | None) -> Forecast | None:
    """The forecast from timed runs; None without any."""
    if not runs:
        return None
    volume = spread([r.total_bytes for r in runs])
    if curve is None:
        return Forecast(total_bytes=volume, count=None, seconds=spread([r.time_by_slowest for r in runs]).median)
    best = curve.n_perf
    return Forecast(total_bytes=volume, count=best, seconds=volume.median / curve.at(best))


def _perf_by(runs: Sequence[Behaviour], key: Callable[[Behaviour], Key]) -> dict[Key, Spread]:
    groups: dict[Key, list[float]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run.perf_by_slowest)
    return {k: spread(values) for k, values in groups.items()}


def _of(operation: Literal["reads", "writes"], name: str) -> Callable[[Behaviour], float | None]:
    """A function that returns the common or mean size of a run's reads or writes; None without requests."""

    def read(run: Behaviour) -> float | None:
        part: RequestTotals | None = getattr(run, operation)
        if part is None or not part.requests:
            return None
        return getattr(part, name) or None if name == "common_size" else part.request_bytes / part.requests

    return read


_ALWAYS = ("io_procs", "total_bytes", "bytes_read", "bytes_written", "total_files", "run_time", "time_by_slowest")
_MEASURES: dict[str, Callable[[Behaviour], float | None]] = {
    **{name: attrgetter(name) for name in _ALWAYS},
    "perf_by_slowest": lambda run: run.perf_by_slowest or None,
    "common_size": lambda run: run.common_size or None,
    "common_read_size": _of("reads", "common_size"),
    "common_write_size": _of("writes", "common_size"),
    "mean_request_size": lambda run: pattern_of([run]).mean_size,
    "mean_read_size": _of("reads", "mean"),
    "mean_write_size": _of("writes", "mean"),
}
