"""Dask workers in jobs of Slurm, started for one command and ended with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from forebay.model.errors import BadInput
from forebay.work.dask import DaskWorkers, Told, connected, quieten
from forebay.work.workers import SlurmOptions


@contextmanager
def in_jobs(count: int, options: SlurmOptions, check: Callable[[str], None], told: Told) -> Iterator[DaskWorkers]:
    """So many workers, as soon as there is one; the jobs are cancelled at the end.

    `check` gets a job's script before any is submitted, and raises what Slurm says against it: later, nobody would be
    told that a job was refused.
    """
    where = f"slurm:{count}"
    cluster = _cluster(options, where)
    try:
        check(cluster.job_script())
        cluster.scale(n=count)
        with connected(cluster.scheduler_address, told, where=where, wait=options.wait) as workers:
            yield workers
    finally:
        cluster.close(timeout=10)


def _cluster(options: SlurmOptions, where: str) -> Any:
    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ModuleNotFoundError:
        raise BadInput(where, "needs Dask and dask-jobqueue: pip install 'forebay[scale]'") from None
    quieten()
    output = [] if options.logs else ["--output=/dev/null", "--error=/dev/null"]
    try:
        return SLURMCluster(
            queue=options.partition,
            account=options.account,
            walltime=options.time,
            memory=f"{options.memory} B",
            cores=options.cores,
            processes=options.cores,
            interface=options.interface,
            log_directory=options.logs,
            job_extra_directives=[*output, *options.directives],
            job_name="forebay",
            python=sys.executable,
            scheduler_options={"dashboard_address": ":0"},
            silence_logs="critical",
        )
    except (ValueError, OSError, RuntimeError) as error:
        raise BadInput(f"{where}: [workers.slurm]", " ".join(str(error).split())) from None
