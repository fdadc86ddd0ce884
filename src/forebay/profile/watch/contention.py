"""Finds pairs of jobs that slowed each other down because they used the same OSTs at the same time.

A run is slow if it needs more seconds per byte than its neighbours in its series (see `series`). How often chance makes
a run fall so far behind is counted, not assumed: it is the share of those runs of the whole history that shared nothing
in the period and used no slow OST, and fell as far behind or further. If both runs of a pair were slow, both count
(Fisher: p (1 - ln p) for the product p of their shares); if only one was, its share counts twice, because it might have
been either. A run without neighbours says nothing. Of all pairs that share OSTs, those are reported of which at most
`MOST_CHANCE` are chance, by Benjamini and Hochberg as in `change_point`.

Two runs share OSTs if at least `LEAST_PART` of the slow run's time and of its bytes fall together with the other, which
moved at least `LEAST_TRAFFIC` of these bytes there. No pair is reported if runs on other OSTs of the file system were
slow at the same time, or if the shared OSTs are slow by themselves.
"""

from dataclasses import dataclass

import numpy as np

from forebay.history.store.run_columns import Records, WatchedRuns
from forebay.model.arrays import Bools, Floats, Ints
from forebay.profile.watch.change_point import LEAST_CHANGE, adjust
from forebay.profile.watch.series import Series, join_runs
from forebay.profile.watch.shared_targets import Pairs, SharedTargets, split_target

LEAST_PART = 0.5
LEAST_TRAFFIC = 0.1
LEAST_EXCESS = 2.0
"""Robust standard deviations; a run that is nearer to its usual time is not slow."""
LEAST_COMPARED = 20
"""Runs that show what chance does."""
LEAST_PEERS = 3
LIKELY = 0.05
MOST_CHANCE = 0.2
"""Pairs that are more likely chance are not reported; those above `LIKELY` are called possible."""
_MOST_CHECKED = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRun:
    """One run of a pair. `slowdown` is against its usual seconds per byte; None if too few runs show what is usual."""

    run: int
    job_id: int
    app: str
    user: str
    slowdown: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """Two runs at the same time on the same OSTs, the slower one first. `chance` is the share of chance among such
    reports."""

    first: PairedRun
    second: PairedRun
    both_slow: bool
    filesystem: str
    osts: tuple[int, ...]
    start_time: float
    overlap_seconds: float
    chance: float

    @property
    def certainty(self) -> str:
        """How sure it is, in words."""
        return "very likely" if self.chance <= 0.01 else "likely" if self.is_likely else "possible"

    @property
    def is_likely(self) -> bool:
        return self.chance <= LIKELY


@dataclass(frozen=True, slots=True, kw_only=True)
class Contentions:
    """The pairs, the surest first. `tested` counts pairs that shared OSTs and of which a run has a usual time, and
    `sharing` the runs that shared any. `since` is set if only later runs were looked at, as there were too many.
    `because` says why nothing can be said; "" otherwise."""

    pairs: tuple[Contention, ...] = ()
    tested: int = 0
    sharing: int = 0
    since: float | None = None
    because: str = ""


@dataclass(frozen=True, slots=True)
class _Usual:
    """Of each run: whether it has a usual time, whether it was slow, and how often chance makes one as slow."""

    has: Bools
    slow: Bools
    chance: Floats


def find_contentions(
    runs: WatchedRuns,
    series: Series,
    shares: Records,
    names: dict[int, str],
    slow_targets: set[tuple[str, int]],
    since: float,
) -> Contentions:
    """Look at the runs with `shares` of OSTs (see `run_columns.read_shares`); `names` are the mount points of their
    file systems."""
    rows = runs.rows
    shares, of = _place_shares(rows, shares, since)
    if not shares.size:
        return Contentions(because="no run of the period has recorded which OSTs it used")
    table = SharedTargets(rows["start_time"], rows["end_time"], of, shares)
    has = np.isfinite(series.excess)
    slow = has & (np.nan_to_num(series.excess) >= LEAST_EXCESS) & (np.nan_to_num(series.slowdown) >= LEAST_CHANGE)
    used = np.bincount(of, minlength=rows.size)
    shared, tested, parts = np.zeros(rows.size, dtype=bool), 0.0, []
    for pairs in table.pairs():
        shared[pairs.first] = shared[pairs.second] = True
        tested += _count_tests(rows, pairs, has, used)
        parts.append(_select(pairs, slow[pairs.first] | slow[pairs.second]))
    number, sharing = int(np.ceil(tested)), int(shared.sum())
    shared &= rows["start_time"] >= since
    alone = np.sort(series.excess[has & ~shared & ~_used_slow(rows, of, shares, names, slow_targets)])
    if alone.size < LEAST_COMPARED:
        because = f"{LEAST_COMPARED} runs must show how slow a run can be by chance, but only {alone.size} do"
        return Contentions(tested=number, sharing=sharing, since=table.since, because=because)
    behind = alone.size - np.searchsorted(alone, np.nan_to_num(series.excess, nan=-np.inf), side="left")
    usual = _Usual(has, slow, (behind + 1) / (alone.size + 1))
    totals: Floats = np.bincount(of, weights=shares["total_bytes"], minlength=rows.size).astype(float)
    judged = _judge(runs, series, _merge(parts), usual, totals, number, names)
    reported = [c for c in judged if not _is_excused(runs, series, table, c, slow_targets)]
    return Contentions(pairs=tuple(reported), tested=number, sharing=sharing, since=table.since)


def _place_shares(rows: Records, shares: Records, since: float) -> tuple[Records, Ints]:
    """The shares with bytes of runs with a duration that ended after `since`, and the index of the run of each."""
    shares, of = join_runs(rows, shares)
    moved: Ints = shares["total_bytes"]
    start: Floats = rows["start_time"][of]
    end: Floats = rows["end_time"][of]
    used = (end > start) & (moved > 0) & (end > since)
    return shares[used], of[used]


def _used_slow(
    rows: Records, of: Ints, shares: Records, names: dict[int, str], slow_targets: set[tuple[str, int]]
) -> Bools:
    """Which runs used an OST that is slow by itself."""
    used = np.zeros(rows.size, dtype=bool)
    for number, mount in names.items():
        slow = [ost for place, ost in slow_targets if place == mount]
        used[of[(shares["filesystem_id"] == number) & np.isin(shares["ost"], slow)]] = True
    return used


def _select(pairs: Pairs, mask: Bools) -> Pairs:
    return Pairs(*(getattr(pairs, name)[mask] for name in Pairs.__slots__))


def _overlap(rows: Records, first: Ints, second: Ints) -> Floats:
    start: Floats = rows["start_time"]
    end: Floats = rows["end_time"]
    return np.minimum(end[first], end[second]) - np.maximum(start[first], start[second])


def _fits(rows: Records, run: Ints, overlap: Floats) -> Bools:
    """Whether enough of the run's time overlaps."""
    start: Floats = rows["start_time"]
    end: Floats = rows["end_time"]
    return overlap >= LEAST_PART * (end[run] - start[run])


def _count_tests(rows: Records, pairs: Pairs, has: Bools, used: Ints) -> float:
    """The number of pairs that could be reported. A pair comes once for each OST that it shares, which are at least
    `LEAST_PART` of those of one run."""
    overlap = _overlap(rows, pairs.first, pairs.second)
    can = (has[pairs.first] & _fits(rows, pairs.first, overlap)) | (
        has[pairs.second] & _fits(rows, pairs.second, overlap)
    )
    fewest = np.minimum(used[pairs.first], used[pairs.second])[can]
    return float(np.minimum(1 / (LEAST_PART * fewest), 1).sum())


def _merge(parts: list[Pairs]) -> Pairs:
    """All parts, ordered by pair."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Pairs.__slots__}
    order = np.lexsort((columns["target"], columns["second"], columns["first"]))
    return Pairs(*(column[order] for column in columns.values()))


def _judge(
    runs: WatchedRuns, series: Series, pairs: Pairs, usual: _Usual, totals: Floats, tested: int,
    names: dict[int, str],
) -> list[Contention]:  # fmt: skip
    """The pairs that chance does not explain, the surest first."""
    if not pairs.first.size:
        return []
    rows = runs.rows
    first = np.flatnonzero(np.append(True, (np.diff(pairs.first) != 0) | (np.diff(pairs.second) != 0)))
    first_runs, second_runs = pairs.first[first], pairs.second[first]
    moved = np.add.reduceat(pairs.bytes_of_first, first), np.add.reduceat(pairs.bytes_of_second, first)
    overlap = _overlap(rows, first_runs, second_runs)
    slow = [
        usual.slow[run]
        & _fits(rows, run, overlap)
        & (run_bytes >= LEAST_PART * totals[run])
        & (other_bytes >= LEAST_TRAFFIC * run_bytes)
        for run, run_bytes, other_bytes in ((first_runs, *moved), (second_runs, *moved[::-1]))
    ]
    product = usual.chance[first_runs] * usual.chance[second_runs]
    single = 2 * np.where(slow[0], usual.chance[first_runs], usual.chance[second_runs])
    raw = np.where(slow[0] & slow[1], product * (1 - np.log(product)), np.minimum(single, 1.0))
    able = np.flatnonzero(slow[0] | slow[1])
    adjusted = adjust(raw[able], tested)
    sure = adjusted <= MOST_CHANCE
    contentions = []
    ends = np.append(first[1:], pairs.first.size)
    for number, chance in sorted(zip(able[sure].tolist(), adjusted[sure].tolist(), strict=True), key=lambda p: p[1]):
        places = [split_target(target) for target in pairs.target[first[number] : ends[number]].tolist()]
        both = [_describe(runs, series, int(run[number])) for run in (first_runs, second_runs)]
        both.sort(key=lambda run: -(run.slowdown or 0.0))
        contentions.append(
            Contention(
                first=both[0],
                second=both[1],
                both_slow=bool(slow[0][number] and slow[1][number]),
                filesystem=names.get(places[0][0], ""),
                osts=tuple(sorted(ost for _, ost in places)),
                start_time=float(max(rows["start_time"][first_runs[number]], rows["start_time"][second_runs[number]])),
                overlap_seconds=float(overlap[number]),
                chance=chance,
            )
        )
    return contentions[:_MOST_CHECKED]


def _describe(runs: WatchedRuns, series: Series, at: int) -> PairedRun:
    row, slowdown = runs.rows[at], float(series.slowdown[at])
    return PairedRun(
        run=int(row["run_id"]),
        job_id=int(row["job_id"]),
        app=runs.apps[int(row["app_id"])],
        user=runs.users[int(row["user"])],
        slowdown=slowdown if np.isfinite(slowdown) else None,
    )


def _is_excused(
    runs: WatchedRuns, series: Series, table: SharedTargets, pair: Contention, slow_targets: set[tuple[str, int]]
) -> bool:
    """Whether something else explains the pair: slow OSTs, or a file system that was slow as a whole."""
    if all((pair.filesystem, ost) in slow_targets for ost in pair.osts):
        return True
    rows = runs.rows
    end = pair.start_time + pair.overlap_seconds
    began = slice(0, int(np.searchsorted(rows["start_time"], end)))
    then = np.flatnonzero(
        (rows["end_time"][began] > pair.start_time)
        & np.isfinite(series.excess[began])
        & (rows["filesystem"][began] == runs.filesystems.index(pair.filesystem))
        if pair.filesystem in runs.filesystems
        else np.zeros(0, dtype=bool)
    )
    on_these = np.isin(table.targets & 0xFFFF, pair.osts)
    elsewhere = then[~np.isin(then, table.runs[on_these])]
    return elsewhere.size >= LEAST_PEERS and float(np.median(series.slowdown[elsewhere])) >= LEAST_CHANGE
