"""Finds applications that became slower than their own past, and the first bad run of each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.history.store.run_columns import WatchedRuns
from forebay.model.arrays import Floats, Ints
from forebay.profile.watch.change_point import (
    LEAST_AFTER,
    LEAST_BEFORE,
    LEAST_CHANGE,
    MOST,
    Change,
    find_rise,
    select_sure,
)
from forebay.profile.watch.series import Series

ReadLayouts = Callable[[Sequence[int]], Sequence[tuple[int, int]]]
_MOST_OF = 0.5
_FEWEST = 5
_READ = 20  # runs before and after a change, to find their layouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """One kind of runs of an application that became slower. `chance` is the share of chance among such reports."""

    app: str
    user: str
    uid: int
    nprocs: int
    filesystem: str
    first_bad_run: int
    first_bad_time: float
    last_run: int
    runs_before: int
    runs_after: int
    slowdown: float
    """How many times the I/O seconds per byte, by the medians."""
    lost_seconds: float
    """Of I/O in a run, by the medians: what a run before the change needed less."""
    chance: float
    is_new: bool
    """Whether it could not be seen before the period."""
    layout_before: tuple[int, int]
    """Stripes of a file and stripe size of most runs; 0 if unknown."""
    layout_after: tuple[int, int]
    slow_osts: tuple[int, ...] = ()
    """Slow OSTs that explain it: the runs since that used none of them are not slower."""

    @property
    def is_news(self) -> bool:
        """Whether it is new, and no slow OST explains it."""
        return self.is_new and not self.slow_osts


@dataclass(frozen=True, slots=True, kw_only=True)
class Regressions:
    """All of them, by the time that they cost, and the number of kinds of runs that could show one. `slow_filesystems`
    are those on which most kinds of runs became slower: the cause is not in the applications."""

    all: tuple[Regression, ...]
    tested: int
    slow_filesystems: tuple[str, ...]


def find_regressions(
    runs: WatchedRuns, series: Series, since: float, read_layouts: ReadLayouts, on_slow: Mapping[int, set[int]]
) -> Regressions:
    """Look at all kinds of runs with one in the period from `since` on. `read_layouts` gives the stripes of a file and
    the stripe size of runs by their numbers, and `on_slow` are the slow OSTs that runs used."""
    rises: list[tuple[Ints, Change]] = []
    tested: list[int] = []
    for members in series:
        if members.size < LEAST_BEFORE + LEAST_AFTER or runs.rows["start_time"][members[-1]] < since:
            continue
        tested.append(int(runs.rows["filesystem"][members[-1]]))
        rise = find_rise(series.pace[members])
        if rise is not None:
            rises.append((members, rise))
    chances = np.array([rise.p_value for _, rise in rises])
    sure, adjusted, limit = select_sure(chances, len(tested))
    regressions = [
        _describe(runs, series, members, rise, float(share), since, limit, read_layouts, on_slow)
        for (members, rise), share, is_sure in zip(rises, adjusted, sure, strict=True)
        if is_sure
    ]
    slow = []
    for number, mount in enumerate(runs.filesystems):
        slower = sum(regression.filesystem == mount for regression in regressions)
        if tested.count(number) >= _FEWEST and slower >= _MOST_OF * tested.count(number):
            slow.append(mount)
    by_cost = sorted(regressions, key=lambda r: (-r.lost_seconds * r.runs_after * r.nprocs, r.app, r.first_bad_run))
    return Regressions(all=tuple(by_cost), tested=len(tested), slow_filesystems=tuple(slow))


def _describe(
    runs: WatchedRuns,
    series: Series,
    members: Ints,
    rise: Change,
    chance: float,
    since: float,
    limit: float,
    read_layouts: ReadLayouts,
    on_slow: Mapping[int, set[int]],
) -> Regression:
    rows = runs.rows[members]
    start = max(members.size - MOST, 0)
    before, after = rows[start : rise.first], rows[rise.first :]
    start_time: Floats = rows["start_time"]
    in_io: Floats = after["time_by_slowest"]
    earlier = find_rise(series.pace[members[start_time < since]])
    seconds = float(np.median(in_io))
    first, last = after[0], rows[-1]
    used = [on_slow.get(run, set()) for run in after["run_id"].tolist()]
    elsewhere = series.pace[members[rise.first :]][[not osts for osts in used]]
    usual = np.median(series.pace[members[start : rise.first]])
    is_explained = any(used) and (not elsewhere.size or np.median(elsewhere) - usual < np.log(LEAST_CHANGE))
    return Regression(
        app=runs.apps[int(first["app_id"])],
        user=runs.users[int(last["user"])],
        uid=int(last["uid"]),
        nprocs=int(last["nprocs"]),
        filesystem=runs.filesystems[int(last["filesystem"])],
        first_bad_run=int(first["run_id"]),
        first_bad_time=float(first["start_time"]),
        last_run=int(last["run_id"]),
        runs_before=rise.before,
        runs_after=rise.after,
        slowdown=rise.ratio,
        lost_seconds=seconds * (1 - 1 / rise.ratio),
        chance=chance,
        is_new=earlier is None or earlier.p_value > limit,
        layout_before=_commonest_layout(read_layouts(before["run_id"][-_READ:].tolist())),
        layout_after=_commonest_layout(read_layouts(after["run_id"][-_READ:].tolist())),
        slow_osts=tuple(sorted(set().union(*used))) if is_explained else (),
    )


def _commonest_layout(layouts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return Counter(layouts).most_common(1)[0][0] if layouts else (0, 0)
