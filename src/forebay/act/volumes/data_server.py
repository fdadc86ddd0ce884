"""Serves mounted volumes as the data servers of shared file systems, and restarts servers that end."""

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from forebay.act.command import Child, CommandFailed
from forebay.act.files import open_secret
from forebay.act.volumes.exposure import Exposure, find_free_port
from forebay.act.volumes.volume import Volume
from forebay.model.errors import UserError, why
from forebay.model.grant import SHARED

FOLDER = "data"
"""The folder of the data server in its volume: a file system has more in its top folder, such as lost+found."""
_START = 20.0  # seconds for a server to start
_FAILURES = 3  # in a row before a first start is given up
_SOONEST, _LATEST = 0.1, 5.0  # seconds before a restart: they double each time
_SETTLED = 10.0  # seconds after which a server counts as healthy
_GRACE = 5.0  # seconds for a server to complete running fsyncs
_MOST = 65_536
Log = Callable[[str, str, str], None]
"""Gets the level of a line (`info` or `warning`), the line, and the volume."""


class DataServers:
    """Runs a data server on each shared volume, as the volume's owner, at an address that does not change.

    The kernel ends the servers of an agent that is killed; the next agent starts them again by the same plans. Clients
    wait for that.
    """

    mounted: ClassVar[bool] = True

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.log: Log = lambda _level, _text, _volume: None
        self._keepers: dict[str, _Keeper] = {}

    def plan(self, volume: Volume, hosts: tuple[str, ...]) -> Exposure:
        """Plan a server at a free port. Anybody who has the key may connect."""
        host, port = find_free_port(self.address)
        settings = {"address": f"{host}:{port}", "key": secrets.token_hex(32)}
        return Exposure(name=volume.name, kind=SHARED, source=str(volume.path), hosts=hosts, settings=settings)

    def start(self, plan: Exposure) -> None:
        """Start the server, unless it runs, and wait until it is ready."""
        if not self.serves(plan):
            self.resume(plan).await_ready()

    def resume(self, plan: Exposure) -> "_Keeper":
        """Start the server without waiting."""
        self.stop(plan.name)
        keeper = self._keepers[plan.name] = _Keeper(plan, self.log)
        keeper.start()
        return keeper

    def stop(self, name: str) -> None:
        keeper = self._keepers.pop(name, None)
        if keeper is not None:
            keeper.stop()

    def serves(self, plan: Exposure) -> bool:
        keeper = self._keepers.get(plan.name)
        return keeper is not None and keeper.is_ready

    def close(self) -> None:
        for name in list(self._keepers):
            self.stop(name)


class _Keeper:
    """Keeps the data server of one volume running, in a thread: the kernel ends a server whose thread has ended."""

    def __init__(self, plan: Exposure, log: Log) -> None:
        self._plan, self._log = plan, log
        self._index, self._servers = (plan.settings.get(name, "0") for name in ("index", "servers"))
        self._changed = threading.Condition()
        self._child: Child | None = None
        self._ended = False
        self._failures = 0
        self.is_ready, self._problem = False, "did not start"
        self._thread = threading.Thread(target=self._run, name=f"data server {plan.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def await_ready(self) -> None:
        """Wait until the server is ready. Raise CommandFailed and give up if it does not start."""

        def is_settled() -> bool:
            return self.is_ready or self._failures >= _FAILURES or not self._thread.is_alive()

        with self._changed:
            self._changed.wait_for(is_settled, _START)
            problem = self._problem
            if self.is_ready:
                return
        self.stop()
        raise CommandFailed(f"data server {self._index} of volume {self._plan.name}: {problem}")

    def stop(self) -> None:
        with self._changed:
            self._ended = True
            child = self._child
            self._changed.notify_all()
        if child is not None:
            child.stop(_GRACE)
        self._thread.join(_START)

    def _run(self) -> None:
        pause, lost = _SOONEST, 0.0
        folder = None
        while True:
            began = time.monotonic()
            try:
                status = Path(self._plan.source).stat()
                if folder not in (None, (status.st_dev, status.st_ino)):
                    self._problem = "its volume is no longer mounted"
                    break
                folder = status.st_dev, status.st_ino
                with self._changed:
                    if self._ended:
                        break
                    child = self._child = self._launch(f"{status.st_uid}:{status.st_gid}")
                self._follow(child, lost)
            except (OSError, UserError) as error:
                self._problem = why(error) if isinstance(error, OSError) else str(error)
            lost = lost or time.monotonic()
            if time.monotonic() - began > _SETTLED:
                pause, lost = _SOONEST, time.monotonic()
            with self._changed:
                was_ready, self.is_ready = self.is_ready, False
                self._failures = 0 if was_ready else self._failures + 1
                self._changed.notify_all()
                if self._ended:
                    break
                if was_ready:
                    self._say("warning", f"{self._problem}; it is started again")
                self._changed.wait_for(lambda: self._ended, pause)
            pause = min(2 * pause, _LATEST)
        with self._changed:
            self._changed.notify_all()

    def _launch(self, owner: str) -> Child:
        with open_secret(self._plan.settings["key"]) as key:
            command = (
                *(sys.executable, "-m", "forebay", "forward", "server", "--key", f"/proc/self/fd/{key}"),
                *("--folder", f"{self._plan.source}/{FOLDER}", "--listen", self._plan.settings["address"]),
                *("--index", self._index, "--of", self._servers, "--user", owner),
            )
            return Child(command, descriptors=(key,), is_merged=True)

    def _follow(self, child: Child, lost: float) -> None:
        """Read what the server prints, until it ends; note when it is ready, and why it ended."""
        printed, last = b"", ""
        while more := os.read(child.out, _MOST):
            printed = (printed + more)[-_MOST:]
            if not self.is_ready and b"server ready" in printed:
                with self._changed:
                    self.is_ready = True
                    self._changed.notify_all()
                if lost:
                    self._say("info", f"runs again, after {time.monotonic() - lost:.1f} s")
        lines = [line for line in printed.decode(errors="replace").splitlines() if line and "server ready" not in line]
        last = lines[-1].removeprefix("forebay: ") if lines else ""
        child.wait(_GRACE)
        child.stop(_GRACE)
        code = child.code or 0
        end = f"ended by {_signal_name(-code)}" if code < 0 else f"ended with {code}"
        self._problem = f"{end}: {last}" if last else end

    def _say(self, level: str, text: str) -> None:
        self._log(level, f"data server {self._index} of volume {self._plan.name}: {text}", self._plan.name)


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
