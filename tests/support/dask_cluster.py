"""A real Dask cluster on this machine's loopback: a scheduler in this process, and workers of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forebay.show.workers import hire_workers
from forebay.work.dask import DaskWorkers


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A scheduler with so many workers, each a process with a nanny that starts it again when it dies."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'forebay[scale]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=60
        )
        try:
            yield cluster
        finally:
            cluster.close(timeout=10)


@contextmanager
def hire_dask_workers(name: str) -> Iterator[DaskWorkers]:
    with hire_workers(name) as workers:
        assert isinstance(workers, DaskWorkers)
        yield workers


def address(cluster: Any) -> str:
    """As `--workers` takes it."""
    return "dask://" + cluster.scheduler_address.removeprefix("tcp://")


def processes(cluster: Any) -> list[int]:
    """Those of the workers, without their nannies."""
    return [nanny.process.pid for nanny in cluster.workers.values() if nanny.process is not None]


@contextmanager
def odd_worker(cluster: Any, folder: Path, version: str | None) -> Iterator[None]:
    """One more worker, on a machine where the package forebay has another version, or is not there at all."""
    (folder / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "usual = metadata.version\n"
        "def version(name):\n"
        f"    if name == 'forebay' and {version!r} is None: raise metadata.PackageNotFoundError(name)\n"
        f"    return {version!r} if name == 'forebay' else usual(name)\n"
        "metadata.version = version\n"
    )
    words = ["-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1", "--no-nanny"]
    process = subprocess.Popen(
        [sys.executable, *words, "--no-dashboard", "--local-directory", str(folder), "--death-timeout", "60"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait(60)
