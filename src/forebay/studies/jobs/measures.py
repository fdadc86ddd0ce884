"""What a run did to its jobs: waiting, slowdown, use of nodes and bytes, fairness."""

from collections.abc import Mapping

import numpy as np

from forebay.model.arrays import Bools, Floats, Ints
from forebay.model.jobs import Jobs
from forebay.show.rows import Rows

SHORT = 600.0
"""Shorter run times, in seconds, count as this many, so that jobs of seconds do not decide the mean slowdown."""
SIZES = ("one node", "small", "medium", "large")
"""One node; up to a twelfth of the machine; up to a third; more."""


def waits(jobs: Jobs, fates: Rows) -> Floats:
    waited: Floats = fates["start"] - jobs.rows["submit"]
    return waited


def bounded_slowdowns(jobs: Jobs, fates: Rows) -> Floats:
    """Time from submission to end over run time, both of at least 10 minutes.

    >>> from forebay.model.jobs import JOB
    >>> rows, fates = np.zeros(2, JOB), np.zeros(2, [("start", "f8"), ("end", "f8")])
    >>> fates["start"], fates["end"] = [1200, 540], [2400, 600]
    >>> bounded_slowdowns(Jobs(rows=rows, ids=("a", "b")), fates).tolist()
    [2.0, 1.0]
    """
    runtime: Floats = np.maximum(fates["end"] - fates["start"], SHORT)
    slowdowns: Floats = np.maximum((fates["end"] - jobs.rows["submit"]) / runtime, 1.0)
    return slowdowns


def measure_run(jobs: Jobs, fates: Rows, nodes: int, space: int) -> dict[str, float]:
    """The columns of a run that depend on its jobs' fates."""
    waited, slowdowns = waits(jobs, fates), bounded_slowdowns(jobs, fates)
    begin, end = float(jobs.rows["submit"].min()), float(fates["held_until"].max())
    whole = max(end - begin, 1e-9)
    node_seconds = float((jobs.rows["nodes"] * (fates["end"] - fates["start"])).sum())
    byte_seconds = float((jobs.rows["bytes"] * (fates["held_until"] - fates["held_from"])).sum())
    return {
        "count": len(jobs),
        "killed": int(fates["killed"].sum()),
        "mean_wait": float(waited.mean()),
        "median_wait": float(np.median(waited)),
        "p95_wait": float(np.percentile(waited, 95)),
        "max_wait": float(waited.max()),
        "mean_bounded_slowdown": float(slowdowns.mean()),
        "nodes_used": node_seconds / (nodes * whole),
        "bytes_used": byte_seconds / (max(space, 1) * whole),
        "makespan": end - begin,
        "users_fairness": users_fairness(jobs, slowdowns),
    }


def users_fairness(jobs: Jobs, slowdowns: Floats) -> float:
    """Jain's index of the users' mean bounded slowdowns: 1 if all are equal; nan if fewer than two users are known."""
    users: Ints = jobs.rows["user"]
    known = users >= 0
    names = np.unique(users[known])
    if names.size < 2:
        return float("nan")
    means = np.array([slowdowns[users == user].mean() for user in names])
    return float(means.sum() ** 2 / (means.size * (means**2).sum()))


def size_masks(jobs: Jobs, nodes: int) -> Mapping[str, Bools]:
    """Which jobs have each size of SIZES."""
    size: Ints = jobs.rows["nodes"]
    small, medium = nodes / 12, nodes / 3
    single = size == 1
    masks = (
        single,
        ~single & (size <= small),
        ~single & (size > small) & (size <= medium),
        ~single & (size > max(small, medium)),
    )
    return dict(zip(SIZES, masks, strict=True))


def used_over_time(begins: Floats, ends: Floats, amounts: Ints, edges: Floats) -> Floats:
    """The mean amount in use in each interval between `edges`.

    >>> used_over_time(np.array([0.0]), np.array([3.0]), np.array([4]), np.array([0.0, 2.0, 4.0])).tolist()
    [4.0, 2.0]
    """
    times = np.concatenate([begins, ends])
    steps = np.concatenate([amounts, -amounts]).astype(float)
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(steps[order])
    # The integral of the level up to each event, and from there to each edge.
    until = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))]) if times.size else np.zeros(1)
    last = np.searchsorted(times, edges, side="right") - 1
    inside = np.where(last >= 0, until[last] + level[last] * (edges - times[last]), 0.0)
    used: Floats = np.diff(inside) / np.diff(edges)
    return used
