"""Volumes that each have their own file system, on an image or a logical volume, which enforces the size."""

import os
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from forebay.act.volumes.bandwidth_limit import limit_device, read_limit
from forebay.act.volumes.formats import Format, find_format
from forebay.act.volumes.mounts import Mount, mounted_at
from forebay.act.volumes.unmounting import unmount
from forebay.act.volumes.volume import Record, Volume, VolumeFailed
from forebay.act.volumes.volume_lifecycle import Volumes, foreign_mount
from forebay.model.units import format_size

_SAFE = ("nosuid", "nodev")  # a user owns the top of the volume, and must not gain other rights through it


@dataclass(frozen=True, kw_only=True)
class BlockVolumes(Volumes):
    """The base of images and logical volumes.

    A `local` volume is mounted at `root/<name>`. Any other volume is formatted the same way and then unmounted, to be
    exposed to other nodes. It is never mounted here again: other nodes may have written to it.
    """

    fs: str = "ext4"
    local: bool = True

    @cached_property
    def format(self) -> Format:
        return find_format(self.fs)

    def _create(self, record: Record) -> None:
        self._allocate_space(record)
        self._run(*self.format.make_command(record.size, self._backing_path(record)))
        self._mount(record)
        path = self.path(record.name)
        status = os.statvfs(path)
        if (available := status.f_bavail * status.f_frsize) < record.size:
            short = f"{self.fs} leaves the user {format_size(available)} of {format_size(record.size)}"
            raise VolumeFailed(f"volume {record.name}: {short}: this kernel reserves too much; try another `fs`")
        if (lost := path / "lost+found").exists():  # fsck creates it again if necessary
            lost.rmdir()
            self.after(f"rmdir {lost}")
        self._hand_over(record)
        if not self.local:
            self._unmount(record)

    def _bring_up(self, record: Record) -> None:
        if self.local and not self._own_mount(record):
            self._mount(record)
        if record.ceiling is not None and (device := self._device_number(record)):
            limit_device(device, record.ceiling)
            self.after(f"limit {device} to {record.ceiling}")

    def _take_down(self, record: Record) -> None:
        if record.ceiling is not None and (device := self._device_number(record)):
            limit_device(device, None)  # another device will get this number
            self.after(f"lift the limit of {device}")
        self._unmount(record)

    def _unmount(self, record: Record) -> None:
        path = self.path(record.name)
        while self._own_mount(record):
            unmount(path, self._run)
        if path.exists():
            path.rmdir()
            self.after(f"rmdir {path}")

    def _mount(self, record: Record, *options: str) -> None:
        path = self.path(record.name)
        if not path.exists():
            path.mkdir(mode=0)  # nobody can write to it while nothing is mounted there
            self.after(f"mkdir {path}")
        self._run("mount", "-t", self.fs, "-o", ",".join((*_SAFE, *options)), self._backing_path(record), path)

    def _own_mount(self, record: Record) -> Mount | None:
        """Return the volume's mount, or None. Raise NotOurs if something else is mounted in its place."""
        mount = mounted_at(self.path(record.name))
        if mount is not None and not self._is_ours(mount, record):
            raise foreign_mount(mount)
        return mount

    def _is_up(self, record: Record) -> bool:
        if not self.local:
            return self._backing_path(record).exists()
        mount = mounted_at(self.path(record.name))
        return mount is not None and self._is_ours(mount, record)

    def _describe(self, record: Record) -> Volume:
        volume, device = super()._describe(record), self._device_number(record)
        is_limited = volume.state == "whole" and record.ceiling is not None
        ceiling = read_limit(device) if is_limited and device else None
        path = volume.path if self.local else self._backing_path(record)
        return replace(volume, path=path, device=self._device(record), ceiling=ceiling)

    def _gross_size(self, size: int) -> int:
        return self.format.gross_size(size)

    @abstractmethod
    def _backing_path(self, record: Record) -> Path:
        """Return the image or device that holds the file system."""

    @abstractmethod
    def _allocate_space(self, record: Record) -> None:
        """Reserve all of the space."""

    @abstractmethod
    def _is_ours(self, mount: Mount, record: Record) -> bool:
        """Return whether this volume is mounted there."""

    @abstractmethod
    def _device_number(self, record: Record) -> str:
        """Return the device as major:minor, or "" if the volume has none."""

    @abstractmethod
    def _device(self, record: Record) -> str:
        """Return the device's path, or "" if the volume has none."""
