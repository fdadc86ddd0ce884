"""Volumes behind the kernel's NVMe target: each is a formatted, unmounted logical volume with its own subsystem.

No host can connect until an exposure allows it. The logical volume is marked by its tag, the subsystem by the volume's
name in its NQN.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from forebay.act.command import run
from forebay.act.volumes.exposure import Exposure, await_ready
from forebay.act.volumes.lvm import Lvm
from forebay.act.volumes.volume import BadRequest, Record, Volume
from forebay.act.volumes.volume_lifecycle import ignore_step
from forebay.model.errors import BadInput

CONFIGFS = Path("/sys/kernel/config/nvmet")
PREFIX = "nqn.2025-01.io.forebay:"
"""The NQN of Forebay's subsystems, before the volume's name. Forebay never changes other subsystems."""
_NQN = re.compile(r"nqn\.\d{4}-\d{2}\.[A-Za-z0-9.:_-]{1,200}")
_START, _TIMEOUT = 15.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeTarget:
    """The kernel's target in configfs, with one subsystem and namespace per volume. Repeated calls are harmless."""

    configfs: Path = CONFIGFS
    after: Callable[[str], None] = ignore_step

    def subsystem(self, name: str) -> Path:
        return self.configfs / "subsystems" / f"{PREFIX}{name}"

    def add_device(self, name: str, device: Path) -> None:
        """Create the volume's subsystem for the device. No host can connect yet."""
        if self.has_device(name, device):
            return
        self._make_folder(self.subsystem(name))
        self._set(self.subsystem(name) / "attr_allow_any_host", "0")
        namespace = self._namespace(name)
        self._make_folder(namespace)
        for attribute, value in (("enable", "0"), ("device_path", str(device)), ("enable", "1")):
            self._set(namespace / attribute, value)

    def has_device(self, name: str, device: Path) -> bool:
        with suppress(FileNotFoundError):
            on, path = ((self._namespace(name) / file).read_text().strip() for file in ("enable", "device_path"))
            return on == "1" and path == str(device)
        return False

    def allowed_hosts(self, name: str) -> tuple[str, ...]:
        """List the NQNs of the hosts that can connect."""
        folder = self.subsystem(name) / "allowed_hosts"
        return tuple(sorted(link.name for link in folder.iterdir())) if folder.is_dir() else ()

    def ports(self, name: str) -> list[Path]:
        """List the ports (folders of configfs) on which the volume's subsystem listens."""
        return [link.parent.parent for link in sorted(self.configfs.glob(f"ports/*/subsystems/{PREFIX}{name}"))]

    def close(self, name: str) -> None:
        """Stop listening on all ports, and allow no host."""
        for port in self.ports(name):
            self._unlink(port / "subsystems" / f"{PREFIX}{name}")
        for host in self.allowed_hosts(name):
            self._unlink(self.subsystem(name) / "allowed_hosts" / host)

    def remove_device(self, name: str) -> None:
        """Close the volume's subsystem and remove it."""
        self.close(name)
        if (namespace := self._namespace(name)).is_dir():
            self._set(namespace / "enable", "0")
        for path in (namespace, self.subsystem(name)):
            if path.is_dir():
                path.rmdir()
                self.after(f"rmdir {path}")

    def _namespace(self, name: str) -> Path:
        return self.subsystem(name) / "namespaces" / "1"

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
    """A volume's `path` is its device. A client mounts it; the top folder belongs to the user."""

    kind: ClassVar[str] = "nvmet"

    local: bool = field(default=False, init=False)
    configfs: Path = CONFIGFS

    def check(self) -> None:
        super().check()
        if not (self.configfs / "subsystems").is_dir():
            raise BadInput("nvmet volumes", "need the NVMe target; load it with modprobe nvmet and mount configfs")

    def _bring_up(self, record: Record) -> None:
        super()._bring_up(record)
        self._target.add_device(record.name, self._backing_path(record))

    def _take_down(self, record: Record) -> None:
        self._target.remove_device(record.name)
        super()._take_down(record)

    def _is_up(self, record: Record) -> bool:
        return super()._is_up(record) and self._target.has_device(record.name, self._backing_path(record))

    @property
    def _target(self) -> NvmeTarget:
        return NvmeTarget(configfs=self.configfs, after=self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeExposer(NvmeTarget):
    """Links a volume's subsystem to a port of the target, for the grant's hosts.

    `port` is the number of Forebay's port in configfs, which is removed with its last subsystem. `folder` holds a file
    for each host that Forebay added to the target, as a mark.
    """

    mounted: ClassVar[bool] = False
    folder: Path
    address: str = "127.0.0.1"
    service: int = 4420
    transport: str = "tcp"
    port: int = 7716

    def plan(self, volume: Volume, hosts: tuple[str, ...]) -> Exposure:
        for host in hosts:
            if not _NQN.fullmatch(host):
                raise BadRequest(f"host {host!r}", "is not a host NQN; see /etc/nvme/hostnqn on the client")
        subsystem = self.subsystem(volume.name)
        if not subsystem.is_dir():
            raise BadInput(f"volume {volume.name}", "has another kind; nvmet exposes only volumes of kind nvmet")
        where = {"transport": self.transport, "address": self.address, "service": str(self.service)}
        settings = {"nqn": subsystem.name, **where}
        return Exposure(name=volume.name, kind="nvmet", source=str(volume.path), hosts=hosts, settings=settings)

    def start(self, plan: Exposure) -> None:
        self._make_folder(self._port)
        family = "ipv6" if ":" in self.address else "ipv4"
        address = {"trtype": self.transport, "adrfam": family, "traddr": self.address, "trsvcid": str(self.service)}
        for attribute, value in address.items():
            self._set(self._port / f"addr_{attribute}", value)
        subsystem = self.subsystem(plan.name)
        for host in plan.hosts:
            entry = self.configfs / "hosts" / host
            if not entry.is_dir():
                (self.folder / f"{host}.host").touch()
                self.after(f"mark the host {host}")
                self._make_folder(entry)
            self._link(subsystem / "allowed_hosts" / host, entry)
        for host in {*self.allowed_hosts(plan.name)} - {*plan.hosts}:
            self._unlink(subsystem / "allowed_hosts" / host)
        self._link(self._port / "subsystems" / subsystem.name, subsystem)

    def stop(self, name: str) -> None:
        self.close(name)
        for mark in self.folder.glob("*.host"):
            if not any(self.configfs.glob(f"subsystems/*/allowed_hosts/{mark.stem}")):
                with suppress(FileNotFoundError):
                    (self.configfs / "hosts" / mark.stem).rmdir()
                mark.unlink(missing_ok=True)
        if self._port.is_dir() and not any((self._port / "subsystems").iterdir()):
            self._port.rmdir()
        self.after(f"withdraw {name}")

    def serves(self, plan: Exposure) -> bool:
        return self._port in self.ports(plan.name) and self.allowed_hosts(plan.name) == tuple(sorted(plan.hosts))

    @property
    def _port(self) -> Path:
        return self.configfs / "ports" / str(self.port)


@dataclass(frozen=True, slots=True)
class NvmeConnection:
    """Connects through the kernel. Finds the device by its subsystem's name, as its number can vary."""

    options: ClassVar[tuple[str, ...]] = ()
    settings: dict[str, str]
    subsystems: Path = Path("/sys/class/nvme-subsystem")
    devices: Path = Path("/dev")

    def connect(self) -> Path:
        settings = self.settings
        if self._find_device() is None:
            where = ("-t", settings["transport"], "-a", settings["address"], "-s", settings["service"])
            run(("nvme", "connect", *where, "-n", settings["nqn"]), timeout=_TIMEOUT)
        return await_ready(f"{settings['address']} port {settings['service']}", self._find_device, seconds=_START)

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
        """Return the device of the first namespace: a volume has only one."""
        if (subsystem := self._find_subsystem()) is None:
            return None
        devices = (self.devices / namespace.name for namespace in sorted(subsystem.glob("nvme*n*"))[:1])
        return next((device for device in devices if device.exists()), None)
