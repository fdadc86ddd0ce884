"""Starts for jobs that a policy has not reserved, and jobs that can take their bytes early."""

import numpy as np

from forebay.decide.schedule.profile import add, earliest_start, project_ends, reserve, step_at
from forebay.decide.schedule.view import soonest_start
from forebay.model.kernels import Array, kernel


@kernel
def lay_out(view: Array, profile: Array, rows: Array, times: Array) -> None:
    """Set the `times` that are nan to the earliest ones that delay no job before them in `rows`.

    All other times are reserved first. inf if a job never fits.
    """
    project_ends(view, profile)
    for k in range(len(rows)):
        job = view.jobs[np.uint64(rows[k])]
        if not np.isnan(times[k]):
            reserve(profile, job, times[k], job.walltime)
    for k in range(len(rows)):
        job = view.jobs[np.uint64(rows[k])]
        if np.isnan(times[k]):
            times[k] = earliest_start(profile, job, soonest_start(view, job), job.walltime)
            if times[k] < np.inf:
                reserve(profile, job, times[k], job.walltime)


@kernel
def find_early(view: Array, profile: Array, rows: Array, times: Array, early: Array, ahead: float) -> None:
    """Mark the jobs that can take their bytes now and start within `ahead` seconds, without delay for any other job.

    `profile` has all `times` reserved; the bytes of marked jobs are taken from it in the order of `times`.
    """
    now = view.machine[0].now
    for k in np.argsort(times):
        job = view.jobs[np.uint64(rows[k])]
        if job.held or job.bytes == 0 or times[k] <= now or times[k] > now + ahead:
            continue
        last = step_at(profile, times[k])
        is_free = True
        for step in range(last + 1):
            if profile.times[step] < times[k] and profile.bytes[step] < job.bytes:
                is_free = False
        if is_free:
            add(profile, now, times[k], 0, -job.bytes)
            early[k] = True
