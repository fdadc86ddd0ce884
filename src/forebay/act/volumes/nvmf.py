"""Exposing a volume of kind `nvmet`: its subsystem is put on a port of the kernel's target, for the grant's hosts."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forebay.act.volumes.exposure import Plan
from forebay.act.volumes.subsystem import CONFIGFS, Subsystem
from forebay.act.volumes.volume import BadRequest, Volume
from forebay.act.volumes.volume_lifecycle import ignore_step
from forebay.model.errors import BadInput

_NQN = re.compile(r"nqn\.\d{4}-\d{2}\.[A-Za-z0-9.:_-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvmf:
    """`port` is the number of Forebay's own port in configfs; it goes when nothing is found at it any more.

    `folder` holds the mark of each host that Forebay made known to the target: a file of its name.
    """

    folder: Path
    address: str = "127.0.0.1"
    service: int = 4420
    transport: str = "tcp"
    port: int = 7716
    configfs: Path = CONFIGFS
    after: Callable[[str], None] = ignore_step

    def check(self) -> None:
        if not (self.configfs / "ports").is_dir():
            raise BadInput("nvmet", "needs the NVMe target: modprobe nvmet nvmet-tcp, and configfs mounted")

    def plan(self, made: Volume, hosts: tuple[str, ...]) -> Plan:
        for host in hosts:
            if not _NQN.fullmatch(host):
                raise BadRequest(f"host {host!r}", "is no host NQN; see /etc/nvme/hostnqn on the client")
        if not self._subsystem(made.name).path.is_dir():
            raise BadInput(f"volume {made.name}", "is of another kind; nvmet exposes those of kind nvmet")
        settings = {
            "nqn": self._subsystem(made.name).nqn,
            "transport": self.transport,
            "address": self.address,
            "service": str(self.service),
        }
        return Plan(name=made.name, kind="nvmet", source=str(made.path), hosts=hosts, settings=settings)

    def start(self, plan: Plan) -> None:
        self._open_port()
        for host in plan.hosts:
            self._know(host)
        subsystem = self._subsystem(plan.name)
        subsystem.allow(plan.hosts)
        subsystem.listen(self._port)

    def stop(self, name: str) -> None:
        self._subsystem(name).silence()
        for mark in self.folder.glob("*.host"):
            if not any(self.configfs.glob(f"subsystems/*/allowed_hosts/{mark.stem}")):
                self._unknow(mark.stem)
        if self._port.is_dir() and not any((self._port / "subsystems").iterdir()):
            self._port.rmdir()
        self.after(f"withdraw {name}")

    def _know(self, host: str) -> None:
        entry = self.configfs / "hosts" / host
        if not entry.is_dir():
            self._host_mark(host).touch()
            self.after(f"mark the host {host}")
            entry.mkdir()
            self.after(f"mkdir {entry}")

    def _unknow(self, host: str) -> None:
        with suppress(FileNotFoundError):
            (self.configfs / "hosts" / host).rmdir()
        self._host_mark(host).unlink(missing_ok=True)

    def _host_mark(self, host: str) -> Path:
        return self.folder / f"{host}.host"

    def serves(self, plan: Plan) -> bool:
        subsystem = self._subsystem(plan.name)
        return self._port in subsystem.ports() and subsystem.allowed() == tuple(sorted(plan.hosts))

    def _open_port(self) -> None:
        if not self._port.is_dir():
            self._port.mkdir()
            self.after(f"mkdir {self._port}")
        family = "ipv6" if ":" in self.address else "ipv4"
        wanted = {"trtype": self.transport, "adrfam": family, "traddr": self.address, "trsvcid": str(self.service)}
        for attribute, value in wanted.items():
            file = self._port / f"addr_{attribute}"
            if file.read_text().strip() != value:
                file.write_text(value)
                self.after(f"{file}: {value}")

    @property
    def _port(self) -> Path:
        return self.configfs / "ports" / str(self.port)

    def _subsystem(self, name: str) -> Subsystem:
        return Subsystem(name=name, configfs=self.configfs, after=self.after)
