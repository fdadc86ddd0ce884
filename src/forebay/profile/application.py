"""What an application is like, from its runs: pattern, volumes, bandwidth curve, drift, forecast."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from forebay.history.store.behaviour import Behaviour, RequestTotals
from forebay.model.curve import Curve
from forebay.profile.access_pattern import Pattern, pattern_of
from forebay.profile.drift import Drift, drift_of
from forebay.profile.spread import Spread, spread

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """b(n): bytes per second of the runs on n OSTs."""

    n: int
    perf: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPoint:
    """Bytes per second of the runs whose files had so many stripes of this size."""

    file_stripe_count: int
    stripe_size: int
    perf: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the next run will do: bytes, and I/O seconds on the best number of OSTs that is known.

    Without a curve, `count` is None and `seconds` what the runs took.
    """

    total_bytes: Spread
    count: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An application at one number of processes, on one file system.

    `measures` are columns of the history over `runs` runs. Partial runs are counted and left out,
    unless there are no others (`only_partial`): then pattern and measures rest on them, and there
    is no curve, drift or forecast.
    """

    app: str
    filesystem: str | None
    """Where the file system is mounted; None where no run tells."""
    elsewhere: tuple[tuple[str, int], ...]
    """Other file systems, and how many runs that are known to have been there are left out."""
    processes: int
    process_counts: tuple[tuple[int, int], ...]
    """Every number of processes, and how many runs had it."""
    runs: int
    partial_runs: int
    only_partial: bool
    untimed_runs: int
    """Whole runs without I/O that could be timed; they tell nothing of bandwidth."""
    first_start_time: float
    last_start_time: float
    pattern: Pattern
    measures: dict[str, Spread]
    points: tuple[Point, ...]
    layouts: tuple[LayoutPoint, ...]
    curve: Curve | None
    drift: Drift
    forecast: Forecast | None


def profile_of(
    app: str, runs: Sequence[Behaviour], processes: int | None = None, filesystem: str | None = None
) -> Profile:
    """Of its runs, oldest first, at the number of processes nearest to `processes`.

    Without one, at the number that it ran with most often (of several, that of the latest run). Runs that are known
    to have been on another file system are left out: what a file system does tells nothing of another. Without
    `filesystem`, it is the one of the latest run with as many processes that tells it.
    """
    there = runs if filesystem is None else runs_on(runs, filesystem)
    number = commonest(there) if processes is None else nearest([r.nprocs for r in there], processes)
    with_as_many = [r for r in runs if r.nprocs == number]
    mount = latest_filesystem(with_as_many) if filesystem is None else filesystem
    elsewhere = Counter(r.filesystem for r in with_as_many if r.filesystem and r.filesystem != mount)
    alike = runs_on(with_as_many, mount)
    whole = [r for r in alike if not r.partial_flag]
    timed = [r for r in whole if r.perf_by_slowest > 0]
    points = points_of(timed)
    curve = Curve.of({p.n: p.perf.median for p in points}) if points else None
    return Profile(
        app=app,
        filesystem=mount,
        elsewhere=tuple(sorted(elsewhere.items())),
        processes=number,
        process_counts=_process_counts(runs),
        runs=len(alike),
        partial_runs=len(alike) - len(whole),
        only_partial=not whole,
        untimed_runs=len(whole) - len(timed),
        first_start_time=alike[0].start_time,
        last_start_time=alike[-1].start_time,
        pattern=pattern_of(whole or alike),
        measures=measures_of(whole or alike),
        points=points,
        layouts=layouts_of(timed),
        curve=curve,
        drift=drift_of(timed),
        forecast=forecast_of(timed, curve),
    )


def latest_filesystem(runs: Sequence[Behaviour]) -> str | None:
    return next((run.filesystem for run in reversed(runs) if run.filesystem), None)


def runs_on(runs: Sequence[Behaviour], filesystem: str | None) -> list[Behaviour]:
    """Those that are not known to have been on another file system."""
    return [run for run in runs if run.filesystem in (None, "", filesystem)]


def nearest(counts: Sequence[int], wanted: int) -> int:
    """The nearest number on a logarithmic scale; of two equally near ones the smaller.

    >>> nearest([1, 16, 64], 32)
    16
    """
    return min(counts, key=lambda n: (round(abs(math.log(n / wanted)), 12), n))


def commonest(runs: Sequence[Behaviour]) -> int:
    """The number of processes of most whole runs, or of most runs if all are partial."""
    known = [r for r in runs if not r.partial_flag] or runs
    latest: dict[int, tuple[int, int]] = {}
    for index, run in enumerate(known):
        latest[run.nprocs] = (latest.get(run.nprocs, (0, 0))[0] + 1, index)
    return max(latest, key=lambda n: latest[n])


def measures_of(runs: Sequence[Behaviour]) -> dict[str, Spread]:
    """By column: processes that did I/O, volumes, files, request sizes, times, performance."""
    found: dict[str, Spread | None] = {}
    for name, read in _MEASURES.items():
        values = (read(run) for run in runs)
        found[name] = spread((v for v in values if v is not None), that_occurred=name.startswith("common_"))
    return {name: measured for name, measured in found.items() if measured is not None}


def points_of(runs: Sequence[Behaviour]) -> tuple[Point, ...]:
    """By number of OSTs, ascending; runs that don't tell it are left out."""
    by_count = _by(runs, lambda r: r.stripe_count or 0)
    return tuple(Point(n=n, perf=perf) for n, perf in sorted(by_count.items()) if n)


def layouts_of(runs: Sequence[Behaviour]) -> tuple[LayoutPoint, ...]:
    """By stripes of one file and stripe size, the fastest first."""
    by_layout = _by(runs, lambda r: (r.file_stripe_count or 0, r.stripe_size or 0))
    made = [
        LayoutPoint(file_stripe_count=count, stripe_size=size, perf=perf)
        for (count, size), perf in by_layout.items()
        if count and size
    ]
    return tuple(sorted(made, key=lambda p: (-p.perf.median, p.file_stripe_count, p.stripe_size)))


def forecast_of(runs: Sequence[Behaviour], curve: Curve | None) -> Forecast | None:
    """None if no run could be timed."""
    volume, seconds = spread(r.total_bytes for r in runs), spread(r.time_by_slowest for r in runs)
    if volume is None or seconds is None:
        return None
    if curve is None:
        return Forecast(total_bytes=volume, count=None, seconds=seconds.median)
    best = curve.n_perf
    return Forecast(total_bytes=volume, count=best, seconds=volume.median / curve.at(best))


def _by(runs: Sequence[Behaviour], key: Callable[[Behaviour], Key]) -> dict[Key, Spread]:
    groups: dict[Key, list[float]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run.perf_by_slowest)
    measured = {k: spread(values) for k, values in groups.items()}
    return {k: perf for k, perf in measured.items() if perf is not None}


def _process_counts(runs: Sequence[Behaviour]) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = defaultdict(int)
    for run in runs:
        counts[run.nprocs] += 1
    return tuple(sorted(counts.items()))


def _column(name: str) -> Callable[[Behaviour], float | None]:
    return lambda run: getattr(run, name)


def _mean_size(run: Behaviour) -> float | None:
    return pattern_of([run]).mean_size


def _of(operation: Literal["reads", "writes"], name: str) -> Callable[[Behaviour], float | None]:
    """A size of the run's reads or writes; None where there are none."""

    def read(run: Behaviour) -> float | None:
        part: RequestTotals | None = getattr(run, operation)
        if part is None or not part.requests:
            return None
        return getattr(part, name) or None if name == "common_size" else part.request_bytes / part.requests

    return read


_ALWAYS = ("io_procs", "total_bytes", "bytes_read", "bytes_written", "total_files", "run_time", "time_by_slowest")
_MEASURES: dict[str, Callable[[Behaviour], float | None]] = {
    **{name: _column(name) for name in _ALWAYS},
    "perf_by_slowest": lambda run: run.perf_by_slowest or None,
    "common_size": lambda run: run.common_size or None,
    "common_read_size": _of("reads", "common_size"),
    "common_write_size": _of("writes", "common_size"),
    "mean_request_size": _mean_size,
    "mean_read_size": _of("reads", "mean"),
    "mean_write_size": _of("writes", "mean"),
}
