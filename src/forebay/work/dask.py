"""The workers of a Dask scheduler: connected to, and looked over before they get anything to do."""

from __future__ import annotations

import logging
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from forebay import __version__
from forebay.model.errors import BadInput
from forebay.model.units import format_duration
from forebay.work.crew import Work
from forebay.work.workers import Gone

CONNECT = 10.0
"""Seconds to wait for a scheduler's answer."""
WAIT = 60.0
"""Seconds to wait for the first worker, and for another one when all have gone."""
LOOK = 2.0
"""Seconds between looks at who is there."""
SAME = ("python", "dask", "distributed", "cloudpickle", "numpy", "numba", "forebay")
"""What workers must have in the same version: to understand us, and to get the same bytes as we would."""
_SCHEDULER = ("python", "dask", "distributed")
Told = Callable[[str], None]


@contextmanager
def connected(address: str, told: Told, *, where: str | None = None, wait: float = WAIT) -> Iterator[DaskWorkers]:
    """The workers of the scheduler at `address`, once there are any; `told` is told if that takes a while.

    The address is HOST:PORT, or one as Dask writes it; `where` is what the user calls it; `wait` in seconds.
    """
    where = where or f"dask://{address}"
    client = _client(address, where)
    try:
        workers = DaskWorkers(client, where, wait)
        workers.await_first(told)
        yield workers
    finally:
        client.close(timeout=2)


def _client(address: str, where: str) -> Any:
    try:
        import dask
        import distributed
    except ModuleNotFoundError:
        raise BadInput(where, "needs Dask: pip install 'forebay[scale]'") from None
    quieten()
    make: Any = distributed.Client
    away = f"no Dask scheduler answers there; start one with: dask scheduler --port {address.rpartition(':')[2]}"
    # Dask itself would wait for ever for the first word of one that takes a call and says nothing.
    plain = "://" not in address and dask.config.get("distributed.comm.default-scheme", "tcp") == "tcp"
    if plain and not _greets(address):
        raise BadInput(where, away)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other versions: we look ourselves, and say it in a line
        try:
            return make(address, timeout=CONNECT, set_as_default=False, name="forebay")
        except (OSError, TimeoutError, ValueError):
            raise BadInput(where, away) from None
        except Exception as error:  # one of another version may answer with anything
            raise BadInput(
                where, f"answers, but not as Dask {version('distributed')} does: {_line(error)}; {_INSTALL}"
            ) from None


def _greets(address: str) -> bool:
    """Whether it begins with a message of Dask: 8 bytes for its length, which is small."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT) as door:
            length = b""
            while len(length) < 8 and (more := door.recv(8 - len(length))):
                length += more
    except OSError:
        return False
    return len(length) == 8 and int.from_bytes(length, "little") < 1 << 20


_INSTALL = "install the same versions there as here"


def quieten() -> None:
    """Dask prints what goes wrong; we say it."""
    for name in ("distributed", "distributed.client", "distributed.scheduler", "tornado", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


class DaskWorkers:
    """Connected workers; `where` is what the user calls them by."""

    def __init__(self, client: Any, where: str, wait: float) -> None:
        self.client, self.where = client, where
        self._wait = wait
        self._checked: set[str] = set()
        self._count = 0
        self._looked = -LOOK
        self._seen = time.monotonic()

    def crew(self, work: Work) -> Any:
        from forebay.work.dask_crew import DaskCrew

        return DaskCrew(self, work)

    def await_first(self, told: Told) -> None:
        """Until there is a worker."""
        self._seen = time.monotonic()
        said = False
        while not self.count():
            if not said:
                said = True
                told(f"{self.where}: no workers yet; waiting for the first, for {format_duration(self._wait)} at most")
            time.sleep(LOOK / 4)

    def count(self) -> int:
        """How many there are, as of the last look; whoever is new is looked over. None for too long: `Gone`."""
        now = time.monotonic()
        if now - self._looked >= LOOK or not self._count:
            self._look()
            self._looked = now
        if self._count:
            self._seen = now
        elif now - self._seen > self._wait:
            raise Gone(f"{self.where}: has no workers, after {format_duration(self._wait)}; {self._way_out()}")
        return self._count

    def _way_out(self) -> str:
        if self.where.startswith("slurm:"):
            return "squeue says what the jobs wait for; [workers.slurm] in forebay.toml says what they ask for"
        return f"start some with: dask worker {self.where.removeprefix('dask://')} --nworkers N --nthreads 1"

    def _look(self) -> None:
        try:
            here = set(self.client.nthreads())
            if here - self._checked:
                _check(self.client.get_versions(packages=["forebay", "numba"]), self.where)
        except (OSError, TimeoutError):
            raise Gone(f"{self.where}: the Dask scheduler went away") from None
        self._checked |= here
        self._count = len(here)


def _check(found: dict[str, Any], where: str) -> None:
    """All of the same versions as here?"""
    ours = found["client"]["packages"]
    _compare(where, "the scheduler", found["scheduler"]["packages"], ours, _SCHEDULER)
    for address, theirs in found["workers"].items():
        if theirs is not None:  # it left while it was asked
            _compare(where, f"the worker {address}", theirs["packages"], ours, SAME)


def _compare(where: str, who: str, theirs: dict[str, Any], ours: dict[str, Any], names: tuple[str, ...]) -> None:
    if "forebay" in names and theirs.get("forebay") is None:
        reason = f"lacks the package forebay; there, with its Python: pip install 'forebay[scale]=={__version__}'"
        raise BadInput(where, f"{who} {reason}")
    for name in names:
        one, other = _short(name, theirs.get(name)), _short(name, ours.get(name))
        if one != other:
            raise BadInput(where, f"{who} has {name} {one or 'not at all'}, here it is {other}; {_INSTALL}")


def _short(name: str, found: Any) -> str:
    """Of Python, 3.11 says enough."""
    parts = str(found or "").split(".")
    return ".".join(parts[:2] if name == "python" else parts)
