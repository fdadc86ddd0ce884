"""Requests for storage from the history: what its jobs would have requested."""

from __future__ import annotations

import numpy as np

from forebay.history.store import open_store
from forebay.history.store.jobs import JobVolume, job_volumes
from forebay.history.traces.columns import Columns, describe_left_out
from forebay.model.errors import BadInput
from forebay.model.system import MOST_BYTES


def read(url: str | None) -> Columns:
    """One request for each job, in the order of submission: the larger of what its runs read and wrote, from the first
    start to the last end. Without Slurm's accounting, a job is submitted when it starts."""
    with open_store(url, create=False) as store, store.reading() as connection:
        jobs = list(job_volumes(connection))
        for job in jobs:
            if max(job.read, job.written) > MOST_BYTES:
                raise BadInput(store.where, f"job {job.job_id} moves more than {MOST_BYTES:,} bytes")
    kept = sorted(filter(_needs_space, jobs), key=lambda job: (job.submitted, job.start, job.job_id))
    return Columns(
        ids=np.array([job.job_id for job in kept], dtype=np.int64),
        submitted=np.array([job.submitted for job in kept], dtype=np.float64),
        start=np.array([job.start for job in kept], dtype=np.float64),
        duration=np.array([job.end - job.start for job in kept], dtype=np.float64),
        bytes=np.array([max(job.read, job.written) for job in kept], dtype=np.int64),
        volume=np.array([job.read + job.written for job in kept], dtype=np.float64),
        left_out=describe_left_out({("job", "of no bytes or no time"): len(jobs) - len(kept)}),
    )


def _needs_space(job: JobVolume) -> bool:
    return max(job.read, job.written) > 0 and job.end > job.start
