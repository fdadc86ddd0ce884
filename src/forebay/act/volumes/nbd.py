"""Exposes images and devices through nbdkit, encrypted, to clients that have the volume's key.

The grant's hosts get the key; nbdkit does not check their addresses.
"""

import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from forebay.act.command import Child, end_orphan, run
from forebay.act.files import write_synced
from forebay.act.volumes.exposure import Exposure, await_ready, find_free_port
from forebay.act.volumes.mounts import mounted_at
from forebay.act.volumes.volume import Volume
from forebay.act.volumes.volume_lifecycle import ignore_step
from forebay.model.errors import BadInput

_USER = "forebay"
_START = 15.0  # seconds for a server to start, and for a device to appear
_TIMEOUT = 30.0
_GRACE = 2.0  # seconds for a server to end by itself, and for nbdfuse to end after the unmount


@dataclass(frozen=True, slots=True, kw_only=True)
class NbdExposer:
    """Runs one nbdkit per volume. It ends with this process; an agent that restarts exposes again by the same plan.

    The kernel ends nbdkit with the thread that started it, so that thread must live on. nbdkit turns that signal into a
    SIGTERM and ends when its last client leaves. So with clients it outlives a killed agent, and the next agent kills
    it. `folder` holds the keys.
    """

    mounted: ClassVar[bool] = False
    folder: Path
    address: str = "127.0.0.1"
    after: Callable[[str], None] = ignore_step
    _running: dict[str, Child] = field(default_factory=dict, init=False, repr=False)

    def plan(self, volume: Volume, hosts: tuple[str, ...]) -> Exposure:
        host, port = find_free_port(self.address)
        settings = {
            "uri": f"nbds://{_USER}@{host}:{port}/{volume.name}",
            "address": self.address,
            "port": str(port),
            "export": volume.name,
            "user": _USER,
            "key": secrets.token_hex(32),
        }
        plan = Exposure(name=volume.name, kind="nbd", source=str(volume.path), hosts=hosts, settings=settings)
        return replace(plan, ceiling=volume.ceiling)

    def start(self, plan: Exposure) -> None:
        if self.serves(plan):
            return
        key, ready = self._files(plan.name)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_key(key, plan.settings)
        end_orphan(ready)
        ready.unlink(missing_ok=True)
        rate = (f"rate={int(plan.ceiling * 8)}",) if plan.ceiling else ()  # in bits
        command = (
            *("nbdkit", "--foreground", "--pidfile", str(ready)),
            *("--ipaddr", self.address, "--port", plan.settings["port"]),
            *("--tls=require", f"--tls-psk={key}"),
            *("--filter=exportname", *(["--filter=rate"] if rate else []), "file", plan.source),
            *(f"exportname={plan.name}", "exportname-strict=true", *rate),
        )
        child = self._running[plan.name] = Child(command, quiet=True)
        self.after(f"start nbdkit for {plan.name}")

        def find_error() -> str:
            port = plan.settings["port"]
            return "" if child.code is None else f"ended with {child.code}; check whether port {port} is in use"

        try:  # nbdkit writes its process id when it accepts connections
            await_ready("nbdkit", lambda: _read_text(ready), seconds=_START, find_error=find_error)
        except BaseException:
            self._end_child(plan.name)
            raise

    def stop(self, name: str) -> None:
        self._end_child(name)
        key, ready = self._files(name)
        end_orphan(ready)
        for file in (key, ready):
            file.unlink(missing_ok=True)
        self.after(f"stop nbdkit for {name}")

    def serves(self, plan: Exposure) -> bool:
        child = self._running.get(plan.name)
        return child is not None and child.code is None

    def _end_child(self, name: str) -> None:
        child = self._running.pop(name, None)
        if child is not None:
            child.stop(_GRACE)

    def _files(self, name: str) -> tuple[Path, Path]:
        """Return the file with the volume's key, and the file with its server's process id."""
        return self.folder / f"{name}.psk", self.folder / f"{name}.pid"


@dataclass(frozen=True, slots=True)
class NbdConnection:
    """Connects in three steps: nbdkit uses the volume's key, nbdfuse shows it as a file, a loop device serves the file.

    Neither the kernel's client nor nbdfuse can use such keys itself. Each connection needs its own `folder`.
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
        errors = self.folder / "errors"
        if mounted_at(self._disk.parent) is None:
            self._start(errors)
        await_ready(
            f"{self.settings['address']} port {self.settings['port']}",
            self._is_ready,
            seconds=_START,
            find_error=lambda: " ".join(_read_text(errors).split())[:300],
        )
        return self._disk

    def disconnect(self) -> None:
        while mounted_at(self._disk.parent) is not None:
            run(("fusermount3", "-u", "-z", str(self._disk.parent)), timeout=_TIMEOUT)
        end_orphan(self.folder / "pid", _GRACE)
        with suppress(FileNotFoundError):
            self._disk.parent.rmdir()

    @property
    def _disk(self) -> Path:
        return self.folder / "device" / "disk"

    def _start(self, errors: Path) -> None:
        """Start nbdfuse in the background: the kernel reads every block through it until it is unmounted."""
        settings, key = self.settings, self.folder / "key"
        _write_key(key, settings)
        # An agent that restarts serves the same port and key again; `retry` waits a minute for it.
        client = (
            *("nbdkit", "--exit-with-parent", "--filter=retry", "nbd"),
            *(f"hostname={settings['address']}", f"port={settings['port']}", f"export={settings['export']}"),
            *("tls=require", f"tls-psk={key}", f"tls-username={settings['user']}"),
        )
        nbdfuse = ("nbdfuse", "-P", str(self.folder / "pid"), str(self._disk), "[", *client, "]")
        in_background = 'exec setsid --fork "$@" </dev/null >/dev/null 2>"$0"'
        run(("sh", "-c", in_background, str(errors), *nbdfuse), timeout=_TIMEOUT)

    def _is_ready(self) -> bool:
        with suppress(OSError):
            return mounted_at(self._disk.parent) is not None and self._disk.stat().st_size > 0
        return False


def _write_key(file: Path, settings: dict[str, str]) -> None:
    write_synced(file, f"{settings['user']}:{settings['key']}\n", 0o600)


def _read_text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace")
    return ""
