"""Connects to the workers of a Dask scheduler, or starts them in Slurm jobs, and checks their versions."""

from __future__ import annotations

import logging
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from typing import Any

from forebay import __version__
from forebay.model.errors import BadInput
from forebay.model.units import format_duration
from forebay.work.workers import Crew, Gone, Work

CONNECT = 10.0
"""Seconds to wait for a scheduler's answer."""
WAIT = 60.0
"""Seconds to wait for the first worker, and for a new one when all have gone."""
LOOK = 2.0
"""Seconds between two checks of the workers."""
SAME = ("python", "dask", "distributed", "cloudpickle", "numpy", "numba", "forebay")
"""Packages whose versions must be the same on workers, so that messages and results agree."""
_SCHEDULER = ("python", "dask", "distributed")
_INSTALL = "install the same versions on both"
Notify = Callable[[str], None]


@contextmanager
def connect_workers(
    address: str, notify: Notify, *, where: str | None = None, wait: float = WAIT
) -> Iterator[DaskWorkers]:
    """Connect to the scheduler at `address`, and wait up to `wait` seconds for its first worker.

    The address is HOST:PORT, or in Dask's own form; `where` is the user's name for it. `notify` gets a message if no
    worker is there yet.
    """
    where = where or f"dask://{address}"
    client = _connect(address, where)
    try:
        workers = DaskWorkers(client, where, wait)
        workers.await_first(notify)
        yield workers
    finally:
        client.close(timeout=2)


@contextmanager
def start_slurm_workers(
    count: int, options: Mapping[str, Any], check: Callable[[str], None], notify: Notify
) -> Iterator[DaskWorkers]:
    """Start workers in Slurm jobs, and wait for the first; the jobs are cancelled at the end.

    `options` are those of [workers.slurm]: each job requests `memory` bytes and has a worker on each of its `cores`.
    `check` gets the job script before any job is submitted, and raises an error if Slurm refuses it: Dask would not
    report a refused job.
    """
    where = f"slurm:{count}"
    cluster = _slurm_cluster(options, where)
    try:
        check(cluster.job_script())
        cluster.scale(n=count)
        with connect_workers(cluster.scheduler_address, notify, where=where, wait=options["wait"]) as workers:
            yield workers
    finally:
        cluster.close(timeout=10)


def _slurm_cluster(options: Mapping[str, Any], where: str) -> Any:
    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ModuleNotFoundError:
        raise BadInput(where, "needs Dask and dask-jobqueue: pip install 'forebay[scale]'") from None
    _silence_dask()
    output = [] if options["logs"] else ["--output=/dev/null", "--error=/dev/null"]
    try:
        return SLURMCluster(
            queue=options["partition"],
            account=options["account"],
            walltime=options["time"],
            memory=f"{int(options['memory'])} B",
            cores=options["cores"],
            processes=options["cores"],
            interface=options["interface"],
            log_directory=options["logs"],
            job_extra_directives=[*output, *options["directives"]],
            job_name="forebay",
            python=sys.executable,
            scheduler_options={"dashboard_address": ":0"},
            silence_logs="critical",
        )
    except (ValueError, OSError, RuntimeError) as error:
        raise BadInput(f"{where}: [workers.slurm]", " ".join(str(error).split())) from None


def _connect(address: str, where: str) -> Any:
    try:
        import dask
        import distributed
    except ModuleNotFoundError:
        raise BadInput(where, "needs Dask: pip install 'forebay[scale]'") from None
    _silence_dask()
    make_client: Any = distributed.Client
    absent = f"no Dask scheduler answers there; start one with: dask scheduler --port {address.rpartition(':')[2]}"
    # Dask would wait forever for the first message of a server that accepts connections and sends nothing.
    plain = "://" not in address and dask.config.get("distributed.comm.default-scheme", "tcp") == "tcp"
    if plain and not _greets(address):
        raise BadInput(where, absent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about other versions: `_check_versions` reports them in one line
        try:
            return make_client(address, timeout=CONNECT, set_as_default=False, name="forebay")
        except (OSError, TimeoutError, ValueError):
            raise BadInput(where, absent) from None
        except Exception as error:  # a scheduler of another version may answer with anything
            line = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            reason = f"the scheduler answers, but not like Dask {version('distributed')}: {line}; {_INSTALL}"
            raise BadInput(where, reason) from None


def _greets(address: str) -> bool:
    """Whether the server first sends a Dask message, which starts with its length: 8 bytes, a small number."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT) as connection:
            length = b""
            while len(length) < 8 and (received := connection.recv(8 - len(length))):
                length += received
    except OSError:
        return False
    return len(length) == 8 and int.from_bytes(length, "little") < 1 << 20


def _silence_dask() -> None:
    """Stop Dask from printing errors that Forebay reports itself."""
    for name in ("distributed", "distributed.client", "distributed.scheduler", "tornado", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class DaskWorkers:
    """Connected workers; `where` is the user's name for them."""

    def __init__(self, client: Any, where: str, wait: float) -> None:
        self.client, self.where = client, where
        self._wait = wait
        self._checked: set[str] = set()
        self._count = 0
        self._looked = -LOOK
        self._last_seen = time.monotonic()

    def crew(self, work: Work) -> AbstractContextManager[Crew]:
        from forebay.work.dask_crew import DaskCrew

        return DaskCrew(self, work)

    def await_first(self, notify: Notify) -> None:
        self._last_seen = time.monotonic()
        if not self.count():
            notify(f"{self.where}: no workers yet; waiting up to {format_duration(self._wait)} for the first")
        while not self.count():
            time.sleep(LOOK / 4)

    def count(self) -> int:
        """The number of workers at the last check, which checks new ones. Raises `Gone` without any for too long."""
        now = time.monotonic()
        if now - self._looked >= LOOK or not self._count:
            try:
                present = set(self.client.nthreads())
                if present - self._checked:
                    _check_versions(self.client.get_versions(packages=["forebay", "numba"]), self.where)
            except (OSError, TimeoutError):
                raise Gone(f"{self.where}: lost the connection to the Dask scheduler") from None
            self._checked |= present
            self._count, self._looked = len(present), now
        if self._count:
            self._last_seen = now
        elif now - self._last_seen > self._wait:
            way_out = "squeue shows why the jobs wait; [workers.slurm] in forebay.toml sets what they request"
            if not self.where.startswith("slurm:"):
                way_out = f"start some with: dask worker {self.where.removeprefix('dask://')} --nworkers N --nthreads 1"
            raise Gone(f"{self.where}: no workers after {format_duration(self._wait)}; {way_out}")
        return self._count


def _check_versions(versions: Mapping[str, Any], where: str) -> None:
    """Refuse a scheduler or workers whose versions differ from ours."""
    checked: list[tuple[str, Any, tuple[str, ...]]] = [("the scheduler", versions["scheduler"], _SCHEDULER)]
    for address, worker in versions["workers"].items():
        if worker is not None:  # None if it left before answering
            checked.append((f"the worker {address}", worker, SAME))
    for who, peer, names in checked:
        theirs, ours = peer["packages"], versions["client"]["packages"]
        if "forebay" in names and theirs.get("forebay") is None:
            way_out = f"install it with the worker's Python: pip install 'forebay[scale]=={__version__}'"
            raise BadInput(where, f"{who} lacks the package forebay; {way_out}")
        for name in names:
            significant = 2 if name == "python" else None  # 3.11 is enough
            there, here = (".".join((side.get(name) or "").split(".")[:significant]) for side in (theirs, ours))
            if there != here:
                raise BadInput(where, f"{who} has {name} {there or '(none)'}, this machine has {here}; {_INSTALL}")
