"""Everything that a nightly look at the history finds."""

from collections import defaultdict
from dataclasses import dataclass
from functools import partial

import numpy as np

from forebay.history.store import Connection
from forebay.history.store.run_columns import (
    WatchedRuns,
    name_filesystems,
    read_best_gains,
    read_layouts,
    read_nodes,
    read_shares,
    read_slowness,
    read_watched_runs,
)
from forebay.profile.watch.contention import Contentions, find_contentions
from forebay.profile.watch.losses import Losses, sum_losses
from forebay.profile.watch.regressions import Regressions, find_regressions
from forebay.profile.watch.series import group_runs
from forebay.profile.watch.slow_targets import SlowTarget, find_slow_targets

TREND = 90 * 86400.0
"""Seconds of the past that OSTs are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport:
    """What changed in [since, until), seconds since 1970. `runs` started in it, `earlier_runs` before; `compared_osts`
    could be compared with their own past."""

    since: float
    until: float
    runs: int
    earlier_runs: int
    regressions: Regressions
    targets: tuple[SlowTarget, ...]
    compared_osts: int
    contentions: Contentions
    losses: Losses

    @property
    def has_news(self) -> bool:
        """Whether anything began in the period."""
        slower = any(regression.is_news for regression in self.regressions.all)
        pairs = any(pair.is_likely for pair in self.contentions.pairs)
        return slower or pairs or any(target.is_new for target in self.targets)


def watch_history(connection: Connection, since: float, until: float) -> WatchReport:
    """Compare the runs of the period with what was usual before."""
    runs = read_watched_runs(connection, until)
    series = group_runs(runs.rows)
    names = name_filesystems(connection)
    in_period = int((runs.rows["start_time"] >= since).sum())
    slowness = read_slowness(connection, *_bounds(runs, min(since, until - TREND)))
    targets, compared_osts = find_slow_targets(runs, series, slowness, names, since)
    shares = read_shares(connection, *_bounds(runs, since))
    slow = {(target.filesystem, target.ost) for target in targets}
    on_slow: dict[int, set[int]] = defaultdict(set)
    for system, ost in slow:
        here = (shares["ost"] == ost) & np.isin(shares["filesystem_id"], [n for n in names if names[n] == system])
        for run in shares["run_id"][here].tolist():
            on_slow[run].add(ost)
    gains, nodes = read_best_gains(connection, since, until), read_nodes(connection, since, until)
    return WatchReport(
        since=since,
        until=until,
        runs=in_period,
        earlier_runs=int(runs.rows.size) - in_period,
        regressions=find_regressions(runs, series, since, partial(read_layouts, connection), on_slow),
        targets=targets,
        compared_osts=compared_osts,
        contentions=find_contentions(runs, series, shares, names, slow, since),
        losses=sum_losses(runs, gains, nodes, since),
    )


def _bounds(runs: WatchedRuns, since: float) -> tuple[int, int]:
    """The lowest and the highest number of a run that ended after `since`."""
    numbers = runs.rows["run_id"][runs.rows["end_time"] > since]
    return (int(numbers.min()), int(numbers.max())) if numbers.size else (0, -1)
