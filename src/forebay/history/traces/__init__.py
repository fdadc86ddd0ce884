"""Reads requests for storage from job traces: StorAlloc's IOJobs, Theta's Darshan CSV, SWF, or the history."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from forebay.history.traces import cache, swf, theta
from forebay.history.traces.columns import make_requests
from forebay.model.errors import BadInput
from forebay.model.space_requests import Requests
from forebay.model.system import MOST_BYTES
from forebay.model.units import plural

_KINDS = {".yml": "storalloc", ".yaml": "storalloc", ".csv": "theta", ".swf": "swf"}


def read_requests(paths: Sequence[Path], *, swf_volume: str | None = None) -> Requests:
    """Read the requests of a trace: one `.yml`, `.swf` or `.csv` file, or the two `.csv` files of Theta; also gzipped.

    SWF has no volumes, so `swf_volume` gives them: "memory" (the default) is the memory that a job used, "2 GB" a size
    per processor. Jobs without bytes are left out. The result is stored in the user's cache.
    """
    kinds = {_KINDS.get(Path(path.name.lower().removesuffix(".gz")).suffix, "") for path in paths}
    kind = kinds.pop() if len(kinds) == 1 else ""
    names = " and ".join(map(str, paths)) or "requests"
    if not kind:
        raise BadInput(names, f"file names must end in {', '.join(_KINDS)}, optionally followed by .gz")
    if len(paths) > (2 if kind == "theta" else 1):
        raise BadInput(names, "are too many files; give one, or the two .csv files of Theta")
    per_processor = swf.volume_per_processor(swf_volume) if kind == "swf" else None
    key = cache.cache_key(paths, f"{kind} {per_processor}")
    requests = cache.load_entry(key)
    if requests is None:
        if kind == "theta":
            requests = theta.read(paths)
        elif kind == "swf":
            requests = swf.read(paths[0], per_processor)
        else:
            from forebay.history.traces import storalloc  # PyYAML may be missing

            requests = storalloc.read(paths[0])
        cache.save_entry(key, requests)
    return _name_origin(requests, " and ".join(path.name for path in paths), str(paths[0]))


def requests_of_history(url: str | None) -> Requests:
    """The requests that the jobs of the history at `url` (the default one if None) would have made, in order.

    A job moves the bytes of its runs, from the first start to the last end. Without Slurm's accounting, its submission
    is its start.
    """
    from forebay.history.store import open_store  # SQLAlchemy is slow to import
    from forebay.history.store.jobs import job_volumes

    with open_store(url, create=False) as store, store.open_reader() as connection:
        jobs = job_volumes(connection)
        for job in jobs:
            if max(job.read, job.written) > MOST_BYTES:
                raise BadInput(store.where, f"job {job.job_id} moves more than {MOST_BYTES:,} bytes")
    used = [job for job in jobs if max(job.read, job.written) > 0 and job.end > job.start]
    used.sort(key=lambda job: (job.submitted, job.start, job.job_id))
    requests = make_requests(
        np.array([job.job_id for job in used], dtype=np.int64),
        [(job.submitted, job.start, job.end) for job in used],
        [(job.read, job.written) for job in used],
        {("job", "without bytes or run time"): len(jobs) - len(used)},
    )
    return _name_origin(requests, "the history", "the history")


def _name_origin(requests: Requests, source: str, where: str) -> Requests:
    left_out = f" (left out: {requests.left_out})" if requests.left_out else ""
    if not len(requests):
        raise BadInput(where, f"has no requests{left_out}")
    return replace(requests, origin=f"{plural(len(requests), 'request')} from {source}{left_out}")
