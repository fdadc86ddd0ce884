"""Who loses most node hours to I/O, and which change would save most.

A run loses the seconds of its slowest process in I/O (at most its run time) on all its nodes. The number of nodes is
Slurm's, if it was ingested; for other jobs it is the number of processes divided by the median number of processes on
a node of known jobs. Without any known job, one node is one process, and the unit is process hours.

A change saves 1 - 1 / gain of the lost time of each run, with the predicted gain of the run's most costly finding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from forebay.history.store.run_columns import WatchedRuns
from forebay.model.arrays import Floats, Ints

Unit = Literal["node hours", "process hours"]
MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Hours of one user or application: all, those in I/O, and those that remedies would save."""

    name: str
    runs: int
    hours: float
    lost_hours: float
    gain_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A finding of an application: the runs in which it costs most, their lost hours, and what a remedy would save."""

    app: str
    code: str
    runs: int
    lost_hours: float
    gain_hours: float
    latest_run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The top entries of each kind, by hours lost or saved.

    `diagnosed` of the `runs` have findings with a predicted gain.
    """

    unit: Unit
    runs: int
    diagnosed: int
    hours: float
    lost_hours: float
    users: tuple[Loss, ...]
    apps: tuple[Loss, ...]
    remedies: tuple[Remedy, ...]


def sum_losses(
    runs: WatchedRuns, gains: Mapping[int, tuple[str, float]], nodes_of: Mapping[int, int], since: float
) -> Losses:
    """Sum up the runs that started from `since` on; `gains` are codes and predicted gains by run, `nodes_of` nodes."""
    rows = runs.rows[runs.rows["start_time"] >= since]
    nodes = np.array([nodes_of.get(run, 0) for run in rows["run_id"].tolist()], dtype=float)
    known = nodes > 0
    processes: npt.NDArray[np.int32] = rows["nprocs"]
    seconds: Floats = rows["run_time"]
    in_io: Floats = rows["time_by_slowest"]
    per_node = float(np.median(processes[known] / nodes[known])) if known.any() else 1.0
    nodes = np.where(known, nodes, np.ceil(processes / max(per_node, 1.0)))
    hours = nodes * seconds / 3600
    lost = nodes * np.minimum(in_io, seconds) / 3600
    gain = np.array([gains.get(run, ("", 1.0))[1] for run in rows["run_id"].tolist()])
    saved = lost * (1 - 1 / np.maximum(gain, 1.0)) if rows.size else lost
    users = [runs.users[n] or "unknown" for n in range(len(runs.users))]
    every = hours, lost, saved
    return Losses(
        unit="node hours" if known.any() else "process hours",
        runs=int(rows.size),
        diagnosed=int((gain > 1).sum()) if rows.size else 0,
        hours=float(hours.sum()),
        lost_hours=float(lost.sum()),
        users=_sum_by(rows["user"], dict(enumerate(users)), every),
        apps=_sum_by(rows["app_id"], runs.apps, every),
        remedies=_sum_remedies(runs, rows["app_id"], rows["run_id"], lost, saved, gains),
    )


def _sum_by(of: Ints, names: Mapping[int, str], measures: tuple[Floats, Floats, Floats]) -> tuple[Loss, ...]:
    ids, group = np.unique(of, return_inverse=True)
    counts = np.bincount(group, minlength=ids.size)
    sums = [np.bincount(group, weights=measure, minlength=ids.size).tolist() for measure in measures]
    losses = [
        Loss(name=names[i], runs=count, hours=hours, lost_hours=lost, gain_hours=gain)
        for i, count, hours, lost, gain in zip(ids.tolist(), counts.tolist(), *sums, strict=True)
    ]
    return tuple(sorted(losses, key=lambda loss: (-loss.lost_hours, loss.name))[:MOST])


def _sum_remedies(
    runs: WatchedRuns, apps: Ints, ids: Ints, lost: Floats, saved: Floats, gains: Mapping[int, tuple[str, float]]
) -> tuple[Remedy, ...]:
    sums: dict[tuple[int, str], list[float]] = {}
    for i in np.flatnonzero(saved > 0).tolist():
        run = int(ids[i])
        of = sums.setdefault((int(apps[i]), gains[run][0]), [0, 0.0, 0.0, 0])
        of[0] += 1
        of[1] += float(lost[i])
        of[2] += float(saved[i])
        of[3] = max(of[3], run)
    remedies = [
        Remedy(app=runs.apps[app], code=code, runs=int(n), lost_hours=lost_hours, gain_hours=gain, latest_run=int(run))
        for (app, code), (n, lost_hours, gain, run) in sums.items()
    ]
    return tuple(sorted(remedies, key=lambda r: (-r.gain_hours, r.app, r.code))[:MOST])
