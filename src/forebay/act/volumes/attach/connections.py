"""The ways to a volume of another node: NBD through nbdfuse, and NVMe over fabrics through the kernel."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from forebay.act.command import CommandFailed, end_orphan, run
from forebay.act.volumes.mounts import mounted_at
from forebay.model.errors import BadInput, UnknownName

_START = 15.0
"""Seconds after which a device that has not come will not come."""
_TIMEOUT = 30.0
_GRACE = 2.0
"""Seconds for nbdfuse to end once it is unmounted."""


class Way(Protocol):
    """One volume, by one way."""

    @property
    def options(self) -> tuple[str, ...]:
        """For its mount."""

    def connect(self) -> Path:
        """The device, or the file that stands for one."""

    def disconnect(self) -> None:
        """Whatever there is of it; that there is nothing is no error."""


@dataclass(frozen=True, slots=True)
class ByNbd:
    """nbdkit connects with the volume's key, nbdfuse makes a file of that, and a loop device serves the file.

    The kernel's own client knows no such keys, and nbdfuse takes none.
    """

    own: Path
    settings: dict[str, str] = field(repr=False)  # there is a key in it
    options: tuple[str, ...] = ("loop",)

    def connect(self) -> Path:
        for command in ("nbdfuse", "nbdkit"):
            if shutil.which(command) is None:
                raise BadInput(
                    "nbd", f"needs the command {command}, which is not installed (Debian: libnbd-bin nbdkit)"
                )
        if not Path("/dev/fuse").exists():
            raise BadInput("nbd", "needs FUSE, which this kernel lacks: modprobe fuse")
        self._disk.parent.mkdir(0o700, exist_ok=True)
        if mounted_at(self._disk.parent) is None:
            self._write_key()
            self._start()
        _wait(self._is_there, f"{self.settings['address']} port {self.settings['port']}", self._words)
        return self._disk

    def disconnect(self) -> None:
        while mounted_at(self._disk.parent) is not None:
            run(("fusermount3", "-u", "-z", str(self._disk.parent)), timeout=_TIMEOUT)
        end_orphan(self._pid, _GRACE)
        with suppress(FileNotFoundError):
            self._disk.parent.rmdir()

    @property
    def _disk(self) -> Path:
        return self.own / "device" / "disk"

    @property
    def _pid(self) -> Path:
        return self.own / "pid"

    def _start(self) -> None:
        """It goes on after us: the kernel asks it for every block, until it is unmounted."""
        # An agent that starts again serves again, by the same port and key: `retry` waits a minute for that.
        settings = self.settings
        where = (f"hostname={settings['address']}", f"port={settings['port']}", f"export={settings['export']}")
        key = ("tls=require", f"tls-psk={self.own / 'key'}", f"tls-username={settings['user']}")
        served = (
            *("nbdfuse", "-P", str(self._pid)),
            str(self._disk),
            "[",
            "nbdkit",
            "--exit-with-parent",
            "--filter=retry",
            "nbd",
            *where,
            *key,
            "]",
        )
        detached = 'exec setsid --fork "$@" </dev/null >/dev/null 2>"$0"'
        run(("sh", "-c", detached, str(self.own / "words"), *served), timeout=_TIMEOUT)

    def _is_there(self) -> bool:
        with suppress(OSError):
            return mounted_at(self._disk.parent) is not None and self._disk.stat().st_size > 0
        return False

    def _words(self) -> str:
        with suppress(OSError):
            return " ".join((self.own / "words").read_text(errors="replace").split())[:300]
        return ""

    def _write_key(self) -> None:
        with os.fdopen(os.open(self.own / "key", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{self.settings['user']}:{self.settings['key']}\n")


@dataclass(frozen=True, slots=True)
class ByNvme:
    """The kernel connects; the device is found by the subsystem's name, as its number may be any."""

    settings: dict[str, str]
    options: tuple[str, ...] = ()
    subsystems: Path = Path("/sys/class/nvme-subsystem")
    devices: Path = Path("/dev")

    def connect(self) -> Path:
        settings = self.settings
        if self._device() is None:
            where = ("-t", settings["transport"], "-a", settings["address"], "-s", settings["service"])
            run(("nvme", "connect", *where, "-n", settings["nqn"]), timeout=_TIMEOUT)
        _wait(lambda: self._device() is not None, f"{settings['address']} port {settings['service']}", lambda: "")
        found = self._device()
        assert found is not None
        return found

    def disconnect(self) -> None:
        if self._subsystem() is not None:
            run(("nvme", "disconnect", "-n", self.settings["nqn"]), timeout=_TIMEOUT)

    def _subsystem(self) -> Path | None:
        for name in self.subsystems.glob("*/subsysnqn"):
            with suppress(OSError):
                if name.read_text().strip() == self.settings["nqn"]:
                    return name.parent
        return None

    def _device(self) -> Path | None:
        """The first namespace: a volume has one."""
        subsystem = self._subsystem()
        found = sorted(subsystem.glob("nvme*n*")) if subsystem is not None else []
        return self.devices / found[0].name if found and (self.devices / found[0].name).exists() else None


@dataclass(frozen=True, slots=True)
class Nothing:
    """Of a volume that never got as far as to be connected."""

    options: tuple[str, ...] = ()

    def connect(self) -> Path:
        raise BadInput("none", "is no way to reach a volume; it is mounted on its own node")

    def disconnect(self) -> None:
        pass


def way_of(kind: str, own: Path, settings: dict[str, str]) -> Way:
    """`own` is a folder of the volume's, for what must be kept meanwhile."""
    if kind == "nbd":
        return ByNbd(own, settings)
    if kind == "nvmet":
        return ByNvme(settings)
    if kind == "none":
        return Nothing()
    raise UnknownName("way to reach a volume", kind, ("nbd", "nvmet"))


def _wait(there: Callable[[], bool], what: str, words: Callable[[], str]) -> None:
    deadline = time.monotonic() + _START
    while not there():
        said = words()
        if said or time.monotonic() > deadline:
            raise CommandFailed(f"{what}: {said or f'no device within {_START:g} s'}")
        time.sleep(0.01)
