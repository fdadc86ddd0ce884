"""Exposes an image or device through nbdkit: encrypted, and only to clients with the volume's key.

The hosts of the grant get the key; their addresses are not checked.
"""

from __future__ import annotations

import os
import secrets
import shutil
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
"""Seconds to wait for a server to start."""
_GRACE = 2.0
"""Seconds for a server to end by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NbdExposer:
    """One nbdkit a volume, which ends with this process: an agent that restarts exposes again by the same plan.

    The system ends it with the thread that started it, so that thread must last. nbdkit itself reduces that signal to
    a SIGTERM, and ends when its last client leaves: with clients it outlives an agent that was killed, and the next
    agent ends it. `folder` holds the keys.
    """

    folder: Path
    address: str = "127.0.0.1"
    after: Callable[[str], None] = ignore_step
    _running: dict[str, Child] = field(default_factory=dict, init=False, repr=False)

    def check(self) -> None:
        if shutil.which("nbdkit", os.F_OK) is None:
            raise BadInput("nbd", "command nbdkit is not installed")

    def plan(self, volume: Volume, hosts: tuple[str, ...]) -> Plan:
        port = _find_free_port(self.address)
        host = f"[{self.address}]" if ":" in self.address else self.address
        settings = {
            "uri": f"nbds://{_USER}@{host}:{port}/{volume.name}",
            "address": self.address,
            "port": str(port),
            "export": volume.name,
            "user": _USER,
            "key": secrets.token_hex(32),
        }
        source = str(volume.path)
        return Plan(name=volume.name, kind="nbd", source=source, hosts=hosts, ceiling=volume.ceiling, settings=settings)

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
            self._await_ready(plan, child)
        except BaseException:
            self._end_child(plan.name)
            raise

    def stop(self, name: str) -> None:
        self._end_child(name)
        end_orphan(self._ready_file(name))
        for file in (self._key_file(name), self._ready_file(name)):
            file.unlink(missing_ok=True)
        self.after(f"stop nbdkit for {name}")

    def serves(self, plan: Plan) -> bool:
        child = self._running.get(plan.name)
        return child is not None and child.code is None

    def _end_child(self, name: str) -> None:
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

    def _await_ready(self, plan: Plan, child: Child) -> None:
        """Wait until it accepts connections; then it writes its process id."""
        deadline = time.monotonic() + _START
        while not _has_text(self._ready_file(plan.name)):
            if child.code is not None:
                raise CommandFailed(
                    f"nbdkit ended with {child.code}; check whether port {plan.settings['port']} is in use"
                )
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


def _find_free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
    return port


def _has_text(file: Path) -> bool:
    with suppress(FileNotFoundError):
        return bool(file.read_text())
    return False
