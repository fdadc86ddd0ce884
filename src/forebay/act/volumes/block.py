"""Volumes that have a file system of their own, on an image or a logical volume: so the size is kept."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from forebay.act.volumes import ceiling
from forebay.act.volumes.formats import FileSystemKind, filesystem
from forebay.act.volumes.mounts import Mount, mounted_at, unmount
from forebay.act.volumes.record import Record
from forebay.act.volumes.volume import NotOurs, VolumeFailed
from forebay.act.volumes.volume_lifecycle import VolumeLifecycle
from forebay.model.units import format_size

_SAFE = ("nosuid", "nodev")
"""A user owns the top of the volume, but must get nothing else by it."""


@dataclass(frozen=True, kw_only=True)
class Block(VolumeLifecycle):
    """What images and logical volumes share.

    With `local` the volume is mounted at `root/<name>`; without, it is formatted and handed over the same way and then
    left unmounted, to be exposed to other nodes. It is never mounted here again: others may have written to it.
    """

    enforces: ClassVar[bool] = True

    fs: str = "ext4"
    local: bool = True

    @cached_property
    def filesystem(self) -> FileSystemKind:
        return filesystem(self.fs)

    def _create(self, record: Record) -> None:
        self._allocate(record)
        self._do(*self.filesystem.made_by(record.size, self._source(record)))
        self._mount(record)
        self._check_size(record)
        self._tidy(record)
        self._hand_over(record)
        if not self.local:
            self._unmount(record)

    def _up(self, record: Record) -> None:
        if self.local and not self._mounted(record):
            self._mount(record)
        device = self._number(record)
        if record.ceiling is not None and device:
            ceiling.limit(device, record.ceiling)
            self.after(f"limit {device} to {record.ceiling}")

    def _down(self, record: Record) -> None:
        device = self._number(record)
        if record.ceiling is not None and device:
            ceiling.lift(device)
            self.after(f"lift the limit of {device}")
        self._unmount(record)

    def _unmount(self, record: Record) -> None:
        path = self.path(record.name)
        while self._mounted(record):
            unmount(path, self._do)
        if path.exists():
            path.rmdir()
            self.after(f"rmdir {path}")

    def _mount(self, record: Record) -> None:
        path = self.path(record.name)
        if not path.exists():
            path.mkdir(mode=0)  # nobody writes to it while nothing is mounted there
            self.after(f"mkdir {path}")
        options = ",".join((*_SAFE, *self._options()))
        self._do("mount", "-t", self.fs, "-o", options, self._source(record), path)

    def _mounted(self, record: Record) -> Mount | None:
        """The volume's mount, if it is there; one of somebody else's in its place is an error."""
        mount = mounted_at(self.path(record.name))
        if mount is not None and not self._is_ours(mount, record):
            raise NotOurs(f"{mount.point}: the mount point is in use by something that does not carry Forebay's mark")
        return mount

    def _check_size(self, record: Record) -> None:
        found = os.statvfs(self.path(record.name))
        if (has := found.f_bavail * found.f_frsize) < record.size:
            short = f"{self.fs} left {format_size(has)} of {format_size(record.size)} to the user"
            raise VolumeFailed(f"volume {record.name}: {short}; this kernel sets more aside than is known")

    def _tidy(self, record: Record) -> None:
        """An empty volume is empty; a check of the file system makes the folder again when it needs it."""
        lost = self.path(record.name) / "lost+found"
        if lost.exists():
            lost.rmdir()
            self.after(f"rmdir {lost}")

    def _is_up(self, record: Record) -> bool:
        if not self.local:
            return self._source(record).exists()
        mount = mounted_at(self.path(record.name))
        return mount is not None and self._is_ours(mount, record)

    def _place(self, record: Record) -> Path:
        return self.path(record.name) if self.local else self._source(record)

    def _ceiling(self, record: Record) -> float | None:
        device = self._number(record)
        return ceiling.limited(device) if record.ceiling is not None and device else None

    def _gross(self, size: int) -> int:
        return self.filesystem.gross(size)

    def _options(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def _source(self, record: Record) -> Path:
        """The image or device that holds the file system."""

    @abstractmethod
    def _allocate(self, record: Record) -> None:
        """Set all of the space aside."""

    @abstractmethod
    def _is_ours(self, mount: Mount, record: Record) -> bool:
        """Whether it is this volume that is mounted there."""

    @abstractmethod
    def _number(self, record: Record) -> str:
        """The device as major:minor; empty if there is none."""
