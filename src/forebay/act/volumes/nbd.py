"""Exposing an image or device by nbdkit: encrypted, and only to whoever has the key, which is another for each volume.

The hosts of the grant get the key; from where they connect is not looked at.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from forebay.act.command import Child, CommandFailed, end_orphan
from forebay.act.volumes.exposure import Plan
from forebay.act.volumes.record import write_synced
from forebay.act.volumes.volume import Volume
from forebay.act.volumes.volume_lifecycle import ignore_step
from forebay.model.errors import BadInput

_USER = "forebay"
_START = 10.0
"""Seconds after which a server that does not answer is given up."""
_GRACE = 2.0
"""Seconds that a server has to end by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nbd:
    """One nbdkit a volume, which ends with this process: an agent that starts again exposes again, by the same plan.

    The system ends it with the thread that started it, so that must be one that lasts. But nbdkit wants no more than a
    SIGTERM then (it sets that itself, over what we ask for), and ends when its last client leaves: one with clients
    outlives an agent that was killed, and is ended by the next one. `folder` holds the keys.
    """

    folder: Path
    address: str = "127.0.0.1"
    after: Callable[[str], None] = ignore_step
    _running: dict[str, Child] = field(default_factory=dict, init=False, repr=False)

    def check(self) -> None:
        if not any(Path(folder, "nbdkit").exists() for folder in os.get_exec_path()):
            raise BadInput("nbd", "needs the command nbdkit, which is not installed")

    def plan(self, made: Volume, hosts: tuple[str, ...]) -> Plan:
        port = _free_port(self.address)
        settings = {
            "uri": f"nbds://{_USER}@{_in_uri(self.address)}:{port}/{made.name}",
            "address": self.address,
            "port": str(port),
            "export": made.name,
            "user": _USER,
            "key": secrets.token_hex(32),
        }
        source = str(made.path)
        return Plan(name=made.name, kind="nbd", source=source, hosts=hosts, ceiling=made.ceiling, settings=settings)

    def start(self, plan: Plan) -> None:
        if self.serves(plan):
            return
        self._write_key(plan)
        end_orphan(self._ready_file(plan.name))
        self._ready_file(plan.name).unlink(missing_ok=True)
        child = Child(self._command(plan), quiet=True)
        self._running[plan.name] = child
        self.after(f"start nbdkit for {plan.name}")
        try:
            self._wait(plan, child)
        except BaseException:
            self._end(plan.name)
            raise

    def stop(self, name: str) -> None:
        self._end(name)
        end_orphan(self._ready_file(name))
        for file in (self._key_file(name), self._ready_file(name)):
            file.unlink(missing_ok=True)
        self.after(f"stop nbdkit for {name}")

    def serves(self, plan: Plan) -> bool:
        child = self._running.get(plan.name)
        return child is not None and child.code is None

    def _end(self, name: str) -> None:
        child = self._running.pop(name, None)
        if child is not None:
            child.stop(_GRACE)

    def _command(self, plan: Plan) -> tuple[str, ...]:
        rate = ("--filter=rate",) if plan.ceiling else ()
        return (
            *("nbdkit", "--foreground", "--pidfile", str(self._ready_file(plan.name))),
            *("--ipaddr", self.address, "--port", plan.settings["port"]),
            *("--tls=require", f"--tls-psk={self._key_file(plan.name)}"),
            *("--filter=exportname", *rate, "file", plan.source),
            *(f"exportname={plan.name}", "exportname-strict=true"),
            *((f"rate={int(plan.ceiling * 8)}",) if plan.ceiling else ()),  # in bits
        )

    def _wait(self, plan: Plan, child: Child) -> None:
        """Until it takes connections; it writes its number then."""
        deadline = time.monotonic() + _START
        while not _has_text(self._ready_file(plan.name)):
            if child.code is not None:
                raise CommandFailed(f"nbdkit ended with {child.code}; is port {plan.settings['port']} taken?")
            if time.monotonic() > deadline:
                raise CommandFailed(f"nbdkit: not ready within {_START:g} s")
            time.sleep(0.002)

    def _write_key(self, plan: Plan) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_synced(self._key_file(plan.name), f"{plan.settings['user']}:{plan.settings['key']}\n", 0o600)

    def _key_file(self, name: str) -> Path:
        return self.folder / f"{name}.psk"

    def _ready_file(self, name: str) -> Path:
        return self.folder / f"{name}.pid"


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as door:
        door.bind((address, 0))
        port: int = door.getsockname()[1]
    return port


def _in_uri(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _has_text(file: Path) -> bool:
    with suppress(FileNotFoundError):
        return bool(file.read_text())
    return False
