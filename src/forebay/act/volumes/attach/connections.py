"""How a node connects to a volume of another: NBD through nbdfuse, or NVMe over fabrics through the kernel."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from forebay.act.command import CommandFailed, end_orphan, run
from forebay.act.volumes.mounts import mounted_at
from forebay.act.volumes.record import write_synced
from forebay.model.errors import BadInput, UnknownName

_START = 15.0
"""Seconds to wait for a device to appear."""
_TIMEOUT = 30.0
_GRACE = 2.0
"""Seconds for nbdfuse to end after it is unmounted."""


class Connection(Protocol):
    """The connection to one volume."""

    options: ClassVar[tuple[str, ...]]
    """Options for its mount."""

    def connect(self) -> Path:
        """The device, or the file that stands for one."""

    def disconnect(self) -> None:
        """Disconnect, if there is a connection."""


@dataclass(frozen=True, slots=True)
class NbdConnection:
    """nbdkit connects with the volume's key, nbdfuse makes a file of that, and a loop device serves the file.

    The kernel's own client cannot use such keys, nor can nbdfuse. `folder` is the volume's own.
    """

    options: ClassVar[tuple[str, ...]] = ("loop",)
    folder: Path
    settings: dict[str, str] = field(repr=False)  # contains a key

    def connect(self) -> Path:
        for command in ("nbdfuse", "nbdkit"):
            if shutil.which(command) is None:
                raise BadInput("nbd", f"command {command} is not installed (Debian: libnbd-bin nbdkit)")
        if not Path("/dev/fuse").exists():
            raise BadInput("nbd", "this kernel has no FUSE; load it with modprobe fuse")
        self._disk.parent.mkdir(0o700, exist_ok=True)
        if mounted_at(self._disk.parent) is None:
            write_synced(self.folder / "key", f"{self.settings['user']}:{self.settings['key']}\n", 0o600)
            self._start()
        _await_device(self._is_ready, self.settings["address"], self.settings["port"], self._read_errors)
        return self._disk

    def disconnect(self) -> None:
        while mounted_at(self._disk.parent) is not None:
            run(("fusermount3", "-u", "-z", str(self._disk.parent)), timeout=_TIMEOUT)
        end_orphan(self._pid_file, _GRACE)
        with suppress(FileNotFoundError):
            self._disk.parent.rmdir()

    @property
    def _disk(self) -> Path:
        return self.folder / "device" / "disk"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    @property
    def _error_file(self) -> Path:
        return self.folder / "words"

    def _start(self) -> None:
        """Start nbdfuse in the background: the kernel reads every block through it until it is unmounted."""
        # An agent that restarts serves the same port and key again: `retry` waits a minute for that.
        settings = self.settings
        where = (f"hostname={settings['address']}", f"port={settings['port']}", f"export={settings['export']}")
        key = ("tls=require", f"tls-psk={self.folder / 'key'}", f"tls-username={settings['user']}")
        client = ("nbdkit", "--exit-with-parent", "--filter=retry", "nbd", *where, *key)
        nbdfuse = ("nbdfuse", "-P", str(self._pid_file), str(self._disk), "[", *client, "]")
        in_background = 'exec setsid --fork "$@" </dev/null >/dev/null 2>"$0"'
        run(("sh", "-c", in_background, str(self._error_file), *nbdfuse), timeout=_TIMEOUT)

    def _is_ready(self) -> bool:
        with suppress(OSError):
            return mounted_at(self._disk.parent) is not None and self._disk.stat().st_size > 0
        return False

    def _read_errors(self) -> str:
        with suppress(OSError):
            return " ".join(self._error_file.read_text(errors="replace").split())[:300]
        return ""


@dataclass(frozen=True, slots=True)
class NvmeConnection:
    """The kernel connects; the device is found by the name of its subsystem, as its number can be any."""

    options: ClassVar[tuple[str, ...]] = ()
    settings: dict[str, str]
    subsystems: Path = Path("/sys/class/nvme-subsystem")
    devices: Path = Path("/dev")

    def connect(self) -> Path:
        settings = self.settings
        if self._find_device() is None:
            where = ("-t", settings["transport"], "-a", settings["address"], "-s", settings["service"])
            run(("nvme", "connect", *where, "-n", settings["nqn"]), timeout=_TIMEOUT)
        _await_device(lambda: self._find_device() is not None, settings["address"], settings["service"])
        device = self._find_device()
        assert device is not None
        return device

    def disconnect(self) -> None:
        if self._find_subsystem() is not None:
            run(("nvme", "disconnect", "-n", self.settings["nqn"]), timeout=_TIMEOUT)

    def _find_subsystem(self) -> Path | None:
        for name in self.subsystems.glob("*/subsysnqn"):
            with suppress(OSError):
                if name.read_text().strip() == self.settings["nqn"]:
                    return name.parent
        return None

    def _find_device(self) -> Path | None:
        """The first namespace: a volume has only one."""
        subsystem = self._find_subsystem()
        namespaces = sorted(subsystem.glob("nvme*n*")) if subsystem is not None else []
        device = self.devices / namespaces[0].name if namespaces else None
        return device if device is not None and device.exists() else None


@dataclass(frozen=True, slots=True)
class NoConnection:
    """Of a volume that was never connected."""

    options: ClassVar[tuple[str, ...]] = ()

    def connect(self) -> Path:
        raise BadInput("none", "the volume is mounted on its own node, and other nodes cannot connect to it")

    def disconnect(self) -> None:
        pass


def open_connection(kind: str, folder: Path, settings: dict[str, str]) -> Connection:
    """The connection of a kind; `folder` is the volume's own, for what it must keep meanwhile."""
    if kind == "nbd":
        return NbdConnection(folder, settings)
    if kind == "nvmet":
        return NvmeConnection(settings)
    if kind == "none":
        return NoConnection()
    raise UnknownName("kind of connection", kind, ("nbd", "nvmet"))


def _await_device(
    is_ready: Callable[[], bool], address: str, port: str, read_errors: Callable[[], str] = lambda: ""
) -> None:
    deadline = time.monotonic() + _START
    while not is_ready():
        errors = read_errors()
        if errors or time.monotonic() > deadline:
            raise CommandFailed(f"{address} port {port}: {errors or f'no device within {_START:g} s'}")
        time.sleep(0.01)
