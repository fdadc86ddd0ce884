"""Volumes with a file system of their own, on an image or a logical volume, which enforces the size."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from forebay.act.volumes.ceiling import limit_device, read_limit, unlimit_device
from forebay.act.volumes.formats import Format, find_format
from forebay.act.volumes.mounts import Mount, mounted_at, unmount
from forebay.act.volumes.record import Record
from forebay.act.volumes.volume import NotOurs, VolumeFailed
from forebay.act.volumes.volume_lifecycle import Volumes
from forebay.model.units import format_size

_SAFE = ("nosuid", "nodev")
"""A user owns the top of the volume, and must gain nothing else by that."""


@dataclass(frozen=True, kw_only=True)
class BlockVolumes(Volumes):
    """What images and logical volumes share.

    With `local` the volume is mounted at `root/<name>`. Without, it is formatted the same way and then left unmounted,
    to be exposed to other nodes. It is never mounted here again: others may have written to it.
    """

    enforces: ClassVar[bool] = True

    fs: str = "ext4"
    local: bool = True

    @cached_property
    def format(self) -> Format:
        return find_format(self.fs)

    def _create(self, record: Record) -> None:
        self._allocate_space(record)
        self._run(*self.format.make_command(record.size, self._backing(record)))
        self._mount(record)
        self._check_size(record)
        self._remove_lost_and_found(record)
        self._hand_over(record)
        if not self.local:
            self._unmount(record)

    def _bring_up(self, record: Record) -> None:
        if self.local and not self._own_mount(record):
            self._mount(record)
        device = self._device_number(record)
        if record.ceiling is not None and device:
            limit_device(device, record.ceiling)
            self.after(f"limit {device} to {record.ceiling}")

    def _take_down(self, record: Record) -> None:
        device = self._device_number(record)
        if record.ceiling is not None and device:
            unlimit_device(device)
            self.after(f"lift the limit of {device}")
        self._unmount(record)

    def _unmount(self, record: Record) -> None:
        path = self.path(record.name)
        while self._own_mount(record):
            unmount(path, self._run)
        if path.exists():
            path.rmdir()
            self.after(f"rmdir {path}")

    def _mount(self, record: Record) -> None:
        path = self.path(record.name)
        if not path.exists():
            path.mkdir(mode=0)  # nobody can write to it while nothing is mounted there
            self.after(f"mkdir {path}")
        options = ",".join((*_SAFE, *self._mount_options()))
        self._run("mount", "-t", self.fs, "-o", options, self._backing(record), path)

    def _own_mount(self, record: Record) -> Mount | None:
        """The volume's mount, if it is mounted; raises NotOurs for another mount in its place."""
        mount = mounted_at(self.path(record.name))
        if mount is not None and not self._is_ours(mount, record):
            raise NotOurs(f"{mount.point}: something without Forebay's mark is mounted there; unmount it first")
        return mount

    def _check_size(self, record: Record) -> None:
        status = os.statvfs(self.path(record.name))
        if (available := status.f_bavail * status.f_frsize) < record.size:
            short = f"{self.fs} leaves {format_size(available)} of {format_size(record.size)} to the user"
            raise VolumeFailed(f"volume {record.name}: {short}: this kernel reserves more than expected")

    def _remove_lost_and_found(self, record: Record) -> None:
        """An empty volume is empty; a check of the file system creates the folder again if it needs it."""
        lost = self.path(record.name) / "lost+found"
        if lost.exists():
            lost.rmdir()
            self.after(f"rmdir {lost}")

    def _is_up(self, record: Record) -> bool:
        if not self.local:
            return self._backing(record).exists()
        mount = mounted_at(self.path(record.name))
        return mount is not None and self._is_ours(mount, record)

    def _location(self, record: Record) -> Path:
        return self.path(record.name) if self.local else self._backing(record)

    def _ceiling(self, record: Record) -> float | None:
        device = self._device_number(record)
        return read_limit(device) if record.ceiling is not None and device else None

    def _gross_size(self, size: int) -> int:
        return self.format.gross_size(size)

    def _mount_options(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def _backing(self, record: Record) -> Path:
        """The image or device that holds the file system."""

    @abstractmethod
    def _allocate_space(self, record: Record) -> None:
        """Reserve all of the space."""

    @abstractmethod
    def _is_ours(self, mount: Mount, record: Record) -> bool:
        """Whether the mount is that of this volume."""

    @abstractmethod
    def _device_number(self, record: Record) -> str:
        """The device as major:minor; empty if there is none."""
