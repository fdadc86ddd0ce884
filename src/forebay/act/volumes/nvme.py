"""Volumes behind the kernel's NVMe target: a logical volume each, formatted, unmounted, with a subsystem of its own.

Nobody can connect until an exposure allows hosts. The mark of the logical volume is its tag, that of the subsystem the
volume's name in its NQN.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from forebay.act.volumes.exposure import Plan
from forebay.act.volumes.lvm import Lvm
from forebay.act.volumes.record import Record
from forebay.act.volumes.volume import BadRequest, Volume
from forebay.act.volumes.volume_lifecycle import ignore_step
from forebay.model.errors import BadInput

CONFIGFS = Path("/sys/kernel/config/nvmet")
PREFIX = "nqn.2025-01.io.forebay:"
"""The NQN of a subsystem of Forebay's, before the volume's name; no other is ever changed."""
_NQN = re.compile(r"nqn\.\d{4}-\d{2}\.[A-Za-z0-9.:_-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsystem:
    """The subsystem of one volume in configfs: one namespace, and the hosts that can connect. Calls can be repeated."""

    name: str
    configfs: Path = CONFIGFS
    after: Callable[[str], None] = ignore_step

    @property
    def nqn(self) -> str:
        return PREFIX + self.name

    @property
    def path(self) -> Path:
        return self.configfs / "subsystems" / self.nqn

    @property
    def _namespace(self) -> Path:
        return self.path / "namespaces" / "1"

    def make(self, device: Path) -> None:
        """Serve the device to the allowed hosts: to none, until `allow`."""
        if self.serves(device):
            return
        self._make_folder(self.path)
        self._set(self.path / "attr_allow_any_host", "0")
        self._make_folder(self._namespace)
        self._set(self._namespace / "enable", "0")
        self._set(self._namespace / "device_path", str(device))
        self._set(self._namespace / "enable", "1")

    def serves(self, device: Path) -> bool:
        with suppress(FileNotFoundError):
            on = (self._namespace / "enable").read_text().strip() == "1"
            return on and (self._namespace / "device_path").read_text().strip() == str(device)
        return False

    def allow(self, hosts: tuple[str, ...]) -> None:
        """Let these hosts connect (NQNs that the target knows), and no others."""
        for host in hosts:
            self._link(self.path / "allowed_hosts" / host, self.configfs / "hosts" / host)
        for host in self.allowed():
            if host not in hosts:
                self._unlink(self.path / "allowed_hosts" / host)

    def allowed(self) -> tuple[str, ...]:
        """The NQNs of the hosts that can connect."""
        folder = self.path / "allowed_hosts"
        return tuple(sorted(link.name for link in folder.iterdir())) if folder.is_dir() else ()

    def listen(self, port: Path) -> None:
        """Listen at that port (a folder of configfs)."""
        self._link(port / "subsystems" / self.nqn, self.path)

    def unlisten(self) -> None:
        """Listen at no port, and allow no host."""
        for port in self.ports():
            self._unlink(port / "subsystems" / self.nqn)
        for host in self.allowed():
            self._unlink(self.path / "allowed_hosts" / host)

    def ports(self) -> list[Path]:
        """The ports at which it listens."""
        return [link.parent.parent for link in sorted(self.configfs.glob(f"ports/*/subsystems/{self.nqn}"))]

    def remove(self) -> None:
        """Remove all of it, in reverse order."""
        self.unlisten()
        if self._namespace.is_dir():
            self._set(self._namespace / "enable", "0")
            self._namespace.rmdir()
            self.after(f"rmdir {self._namespace}")
        if self.path.is_dir():
            self.path.rmdir()
            self.after(f"rmdir {self.path}")

    def _make_folder(self, path: Path) -> None:
        if not path.is_dir():
            path.mkdir()
            self.after(f"mkdir {path}")

    def _set(self, attribute: Path, value: str) -> None:
        if attribute.read_text().strip() != value:
            attribute.write_text(value)
            self.after(f"{attribute}: {value}")

    def _link(self, link: Path, target: Path) -> None:
        if not link.is_symlink():
            link.symlink_to(target)
            self.after(f"link {link}")

    def _unlink(self, link: Path) -> None:
        link.unlink()
        self.after(f"unlink {link}")


@dataclass(frozen=True, kw_only=True)
class Nvmet(Lvm):
    """A volume's `path` is the device. A client mounts it; its top belongs to the user."""

    kind: ClassVar[str] = "nvmet"

    local: bool = field(default=False, init=False)
    configfs: Path = CONFIGFS

    def check(self) -> None:
        super().check()
        if not (self.configfs / "subsystems").is_dir():
            raise BadInput("nvmet volumes", "need the NVMe target; load it with modprobe nvmet, and mount configfs")

    def _bring_up(self, record: Record) -> None:
        super()._bring_up(record)
        self._subsystem(record).make(self._backing(record))

    def _take_down(self, record: Record) -> None:
        self._subsystem(record).remove()
        super()._take_down(record)

    def _is_up(self, record: Record) -> bool:
        return super()._is_up(record) and self._subsystem(record).serves(self._backing(record))

    def _subsystem(self, record: Record) -> Subsystem:
        return Subsystem(name=record.name, configfs=self.configfs, after=self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeExposer:
    """Puts a volume's subsystem on a port of the target, for the grant's hosts.

    `port` is the number of Forebay's own port in configfs; it is removed with its last subsystem. `folder` holds the
    mark of each host that Forebay added to the target: a file of its name.
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
            raise BadInput("nvmet", "needs the NVMe target; load it with modprobe nvmet nvmet-tcp, and mount configfs")

    def plan(self, volume: Volume, hosts: tuple[str, ...]) -> Plan:
        for host in hosts:
            if not _NQN.fullmatch(host):
                raise BadRequest(f"host {host!r}", "is not a host NQN; see /etc/nvme/hostnqn on the client")
        if not self._subsystem(volume.name).path.is_dir():
            raise BadInput(f"volume {volume.name}", "is of another kind; nvmet exposes volumes of kind nvmet only")
        settings = {
            "nqn": self._subsystem(volume.name).nqn,
            "transport": self.transport,
            "address": self.address,
            "service": str(self.service),
        }
        return Plan(name=volume.name, kind="nvmet", source=str(volume.path), hosts=hosts, settings=settings)

    def start(self, plan: Plan) -> None:
        self._open_port()
        for host in plan.hosts:
            self._add_host(host)
        subsystem = self._subsystem(plan.name)
        subsystem.allow(plan.hosts)
        subsystem.listen(self._port)

    def stop(self, name: str) -> None:
        self._subsystem(name).unlisten()
        for mark in self.folder.glob("*.host"):
            if not any(self.configfs.glob(f"subsystems/*/allowed_hosts/{mark.stem}")):
                self._remove_host(mark.stem)
        if self._port.is_dir() and not any((self._port / "subsystems").iterdir()):
            self._port.rmdir()
        self.after(f"withdraw {name}")

    def _add_host(self, host: str) -> None:
        entry = self.configfs / "hosts" / host
        if not entry.is_dir():
            self._host_mark(host).touch()
            self.after(f"mark the host {host}")
            entry.mkdir()
            self.after(f"mkdir {entry}")

    def _remove_host(self, host: str) -> None:
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
