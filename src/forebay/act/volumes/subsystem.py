"""An NVMe-oF subsystem of the kernel's target, through configfs: one namespace, and the hosts that may connect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forebay.act.volumes.volume_lifecycle import ignore_step

CONFIGFS = Path("/sys/kernel/config/nvmet")
PREFIX = "nqn.2025-01.io.forebay:"
"""What every subsystem of Forebay's is called, followed by the volume's name; no other is ever touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsystem:
    """The subsystem of one volume. Each call is harmless when it is done already."""

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
        """Serve the device to the hosts that are allowed: to none, until `allow`."""
        if self.serves(device):
            return
        self._folder(self.path)
        self._set(self.path / "attr_allow_any_host", "0")
        self._folder(self._namespace)
        self._set(self._namespace / "enable", "0")
        self._set(self._namespace / "device_path", str(device))
        self._set(self._namespace / "enable", "1")

    def serves(self, device: Path) -> bool:
        with suppress(FileNotFoundError):
            on = (self._namespace / "enable").read_text().strip() == "1"
            return on and (self._namespace / "device_path").read_text().strip() == str(device)
        return False

    def allow(self, hosts: tuple[str, ...]) -> None:
        """These hosts (NQNs, which the target knows) and no other may connect."""
        for host in hosts:
            self._link(self.path / "allowed_hosts" / host, self.configfs / "hosts" / host)
        for host in self.allowed():
            if host not in hosts:
                self._unlink(self.path / "allowed_hosts" / host)

    def allowed(self) -> tuple[str, ...]:
        """The NQNs of the hosts that may connect."""
        folder = self.path / "allowed_hosts"
        return tuple(sorted(link.name for link in folder.iterdir())) if folder.is_dir() else ()

    def listen(self, port: Path) -> None:
        """Be found at that port (a folder of configfs)."""
        self._link(port / "subsystems" / self.nqn, self.path)

    def silence(self) -> None:
        """Be found at no port, and let no host in."""
        for port in self.ports():
            self._unlink(port / "subsystems" / self.nqn)
        for host in self.allowed():
            self._unlink(self.path / "allowed_hosts" / host)

    def ports(self) -> list[Path]:
        """Where it is found."""
        return [link.parent.parent for link in sorted(self.configfs.glob(f"ports/*/subsystems/{self.nqn}"))]

    def remove(self) -> None:
        """All of it, in the reverse order."""
        self.silence()
        if self._namespace.is_dir():
            self._set(self._namespace / "enable", "0")
            self._namespace.rmdir()
            self.after(f"rmdir {self._namespace}")
        if self.path.is_dir():
            self.path.rmdir()
            self.after(f"rmdir {self.path}")

    def _folder(self, path: Path) -> None:
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
