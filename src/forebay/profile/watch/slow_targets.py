"""Finds OSTs that became slower than their own past and than the other OSTs at the same time.

There are two kinds of evidence, and each is a series that must rise (see `change_point`):
- in runs that compare OSTs with each other, the slowness of the OST (see `ost_health`);
- for runs on one OST, how much more seconds per byte they took than comparable runs did on all OSTs. What all runs of
  that time have in common is taken away first: the median of each `BLOCK` runs that follow each other on the file
  system. One application cannot accuse an OST: at least `LEAST_KINDS` kinds of runs must be slow there.

OSTs that were slow from the start have no better past. `ost_health` finds them, in the runs of the period.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forebay.history.run_fields import OstSums
from forebay.history.store.run_columns import Records, WatchedRuns
from forebay.model.arrays import Floats, Ints
from forebay.profile.ost_health import is_comparable, rank_osts
from forebay.profile.watch.change_point import (
    LEAST_AFTER,
    LEAST_BEFORE,
    LEAST_CHANGE,
    MOST,
    Change,
    find_rise,
    select_sure,
)
from forebay.profile.watch.series import Series, join_runs

BLOCK = 100
LEAST_KINDS = 3
_OBSERVED = np.dtype(
    [("run", "i8"), ("filesystem", "i8"), ("ost", "i8"), ("files", "i8"), ("slowness", "f8"), ("start", "f8")]
)
Evidence = Literal["within runs", "between runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowTarget:
    """An OST that is slower than others. `slowdown` is against its own past, None if it has been slow all along;
    `slowness` is against the other OSTs at the same time. `chance` is the share of chance among such reports; None for
    an OST that has been slow all along, which `ost_health` judges."""

    filesystem: str
    ost: int
    slowness: float
    slowdown: float | None
    first_bad_run: int | None
    first_bad_time: float | None
    runs_before: int
    runs_after: int
    chance: float | None
    is_new: bool
    evidence: Evidence
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Track:
    """What runs, oldest first, show of one OST: how slow it was against others (logarithms), and of which kind each run
    is, -1 if that does not matter."""

    filesystem: str
    ost: int
    runs: Ints
    times: Floats
    logs: Floats
    kinds: Ints
    evidence: Evidence


def find_slow_targets(
    runs: WatchedRuns, series: Series, slowness: Records, names: dict[int, str], since: float
) -> tuple[tuple[SlowTarget, ...], int]:
    """The slow OSTs, the slowest first, and how many could be compared with their own past. `slowness` is what runs say
    of their OSTs (see `run_columns.read_slowness`), and `names` are the mount points of file systems."""
    observed = _observe(runs.rows, slowness)
    tracks = [*_track_within_runs(observed, names), *_track_between_runs(runs, series)]
    tested = [t for t in tracks if t.logs.size >= LEAST_BEFORE + LEAST_AFTER and t.times[-1] >= since]
    rises = [(track, rise) for track in tested if (rise := _find_rise(track)) is not None]
    chances = np.array([rise.p_value for _, rise in rises])
    sure, adjusted, limit = select_sure(chances, len(tested))
    by_place: dict[tuple[str, int], SlowTarget] = {}
    for (track, rise), chance, is_sure in zip(rises, adjusted.tolist(), sure.tolist(), strict=True):
        place = track.filesystem, track.ost
        if is_sure and (place not in by_place or chance < (by_place[place].chance or 0.0)):
            by_place[place] = _describe(track, rise, chance, since, limit)
    for target in _find_sick(observed, names, since):
        by_place.setdefault((target.filesystem, target.ost), target)
    ordered = sorted(by_place.values(), key=lambda target: (-target.slowness, target.filesystem, target.ost))
    return tuple(ordered), len({(track.filesystem, track.ost) for track in tested})


def _observe(rows: Records, slowness: Records) -> Records:
    """The comparable slowness of OSTs in known runs, with the start of each run, in its order."""
    slowness, of = join_runs(rows, slowness)
    observed = np.empty(slowness.size, dtype=_OBSERVED)
    for name, column in (("run", "run_id"), ("filesystem", "filesystem_id"), ("ost", "ost"), ("files", "alone_files")):
        observed[name] = slowness[column]
    observed["slowness"] = slowness["slowness"]
    observed["start"] = rows["start_time"][of]
    observed = observed[np.lexsort((observed["ost"], observed["run"], observed["filesystem"]))]
    # A run that used several file systems compares OSTs on each.
    apart = observed.copy()
    run: Ints = apart["run"]
    filesystem: Ints = apart["filesystem"]
    apart["run"] = run * (int(filesystem.max(initial=0)) + 1) + filesystem
    return observed[is_comparable(apart)]


def _track_within_runs(observed: Records, names: dict[int, str]) -> Iterator[_Track]:
    ordered = observed[np.lexsort((observed["run"], observed["start"], observed["ost"], observed["filesystem"]))]
    filesystem: Ints = ordered["filesystem"]
    ost: Ints = ordered["ost"]
    for rows in _split(ordered, (filesystem << 16) + ost):
        slowness: Floats = rows["slowness"]
        yield _Track(
            filesystem=names.get(int(rows["filesystem"][0]), ""),
            ost=int(rows["ost"][0]),
            runs=rows["run"],
            times=rows["start"],
            logs=np.log(slowness),
            kinds=np.full(rows.size, -1),
            evidence="within runs",
        )


def _split(rows: Records, keys: Ints) -> list[Records]:
    """The rows with each key, which are ordered."""
    return np.split(rows, np.flatnonzero(np.diff(keys)) + 1) if rows.size else []


def _track_between_runs(runs: WatchedRuns, series: Series) -> Iterator[_Track]:
    rows = runs.rows
    away = np.full(rows.size, np.nan)
    for members in series:
        if members.size > LEAST_BEFORE:
            newest = series.pace[members[-MOST:]]
            away[members] = series.pace[members] - np.median(newest)
    on_one = np.flatnonzero(np.isfinite(away) & (rows["stripe_count"] == 1) & (rows["stripe_offset"] >= 0))
    for number, mount in enumerate(runs.filesystems):
        there = on_one[rows["filesystem"][on_one] == number]
        osts = rows["stripe_offset"][there]
        if np.unique(osts).size < 4:  # as many as `ost_health` wants to compare
            continue
        logs = away[there] - _common(away[there])
        order = np.argsort(osts, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(osts[order])) + 1):
            yield _Track(
                filesystem=mount,
                ost=int(osts[here[0]]),
                runs=rows["run_id"][there[here]],
                times=rows["start_time"][there[here]],
                logs=logs[here],
                kinds=series.numbers[there[here]],
                evidence="between runs",
            )


def _common(away: Floats) -> Floats:
    """The median of the runs at the time of each run."""
    blocks = np.array_split(away, max(away.size // BLOCK, 1))
    return np.concatenate([np.full(block.size, np.median(block)) for block in blocks])


def _find_rise(track: _Track) -> Change | None:
    rise = find_rise(track.logs)
    if rise is None or _slowness(track, rise) < LEAST_CHANGE:
        return None
    if track.evidence == "between runs":
        after, kinds = track.logs[rise.first :], track.kinds[rise.first :]
        slow = [kind for kind in np.unique(kinds) if np.median(after[kinds == kind]) >= np.log(LEAST_CHANGE)]
        return rise if len(slow) >= LEAST_KINDS else None
    return rise


def _slowness(track: _Track, rise: Change) -> float:
    return float(np.exp(np.median(track.logs[rise.first :])))


def _describe(track: _Track, rise: Change, chance: float, since: float, limit: float) -> SlowTarget:
    earlier = find_rise(track.logs[track.times < since])
    what = (
        "than the other OSTs of the same runs" if track.evidence == "within runs" else "than comparable runs elsewhere"
    )
    slowness = _slowness(track, rise)
    return SlowTarget(
        filesystem=track.filesystem,
        ost=track.ost,
        slowness=slowness,
        slowdown=rise.ratio,
        first_bad_run=int(track.runs[rise.first]),
        first_bad_time=float(track.times[rise.first]),
        runs_before=rise.before,
        runs_after=rise.after,
        chance=chance,
        is_new=earlier is None or earlier.p_value > limit,
        evidence=track.evidence,
        because=f"{slowness:.1f} times the seconds per byte {what}, and {rise.ratio:.1f} times its own before",
    )


def _find_sick(observed: Records, names: dict[int, str], since: float) -> Iterator[SlowTarget]:
    lately = observed[observed["start"] >= since]
    systems = []
    for rows in _split(lately, lately["filesystem"]):
        mount = names.get(int(rows["filesystem"][0]), "")
        numbers: Ints = rows["ost"]
        osts, counts = np.unique(numbers, return_counts=True)
        # Only the numbers are needed: bytes and seconds are those of `forebay history osts`.
        sums = [
            OstSums(filesystem=mount, ost=ost, runs=count, files=0, total_bytes=0, io_time=0.0)
            for ost, count in zip(osts.tolist(), counts.tolist(), strict=True)
        ]
        systems.append((sums, rows))
    for health in rank_osts(systems):
        if health.verdict == "sick" and health.slowness is not None:
            yield SlowTarget(
                filesystem=health.filesystem,
                ost=health.ost,
                slowness=health.slowness,
                slowdown=None,
                first_bad_run=None,
                first_bad_time=None,
                runs_before=0,
                runs_after=health.compared_runs,
                chance=None,
                is_new=False,
                evidence="within runs",
                because=health.because,
            )
