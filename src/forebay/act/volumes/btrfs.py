"""A subvolume a volume, its size kept by the quota of btrfs.

The quota counts what is in the subvolume itself. A user who makes subvolumes inside it on purpose gets past the quota
(the kernel lets anybody make them, and counts each by itself); such a volume is told as not enforced.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from forebay.act.command import CommandFailed
from forebay.act.volumes.directory import OnFiles, entries
from forebay.act.volumes.mounts import filesystem_of, mounted_below
from forebay.act.volumes.record import Record
from forebay.act.volumes.volume import NotOurs
from forebay.model.errors import BadInput

_LONGEST = 3600.0
"""Seconds that it may take to remove all that somebody hid deep inside."""
_TOP = 256
"""The inode number of every subvolume's top folder."""
_FS_INFO, _INO_LOOKUP, _CHILDREN = 0x8400941F, 0xD0009412, 0xD000943D
"""Questions to the kernel: which file system, which subvolume, and how many (at the end of the answer) right below."""


@dataclass(frozen=True, kw_only=True)
class Btrfs(OnFiles):
    """`root/<name>` is a subvolume; `root` is a folder of a btrfs whose quotas are on."""

    kind: ClassVar[str] = "btrfs"
    enforces: ClassVar[bool] = True

    def check(self) -> None:
        self._needs_root()
        self._check_root("btrfs")
        if (found := filesystem_of(self.root)) != "btrfs":
            raise BadInput(str(self.root), f"is on {found or 'no file system'}, not on btrfs")
        if not self._quotas().is_dir():
            raise BadInput(str(self.root), f"its quotas are off; turn them on: btrfs quota enable {self.root}")

    def _create(self, record: Record) -> None:
        path = self.path(record.name)
        self._do("btrfs", "--quiet", "subvolume", "create", path)
        self._do("btrfs", "qgroup", "limit", str(self._gross(record.size)), path)
        self._hand_over(record)

    def _up(self, record: Record) -> None:
        """There is nothing that a restart takes away."""

    def _down(self, record: Record) -> None:
        for mount in mounted_below(self.path(record.name)):
            raise NotOurs(f"{mount.point}: something is mounted there that does not carry Forebay's mark")

    def _clear(self, record: Record) -> None:
        path = self.path(record.name)
        if not os.path.lexists(path):
            return
        if not _is_subvolume(path):
            raise NotOurs(f"{path}: is no subvolume, so it is not Forebay's; it was not touched")
        group = f"0/{_subvolume_id(path)}"
        for inner in self._inside(path):
            self._do("btrfs", "--quiet", "subvolume", "delete", "--commit-after", inner)
        if self._has_inside(path):  # some lie deeper than a path can follow
            self._do("find", path, "-mindepth", "1", "-delete", seconds=_LONGEST)
        self._do("btrfs", "--quiet", "subvolume", "delete", "--commit-after", path)
        with suppress(CommandFailed):  # newer kernels take it away by themselves
            self._do("btrfs", "qgroup", "destroy", group, self.root)

    def _is_up(self, record: Record) -> bool:
        return _is_subvolume(self.path(record.name))

    def _enforced(self, record: Record) -> bool:
        path = self.path(record.name)
        return _is_subvolume(path) and bool(self._count(path, "max_referenced")) and not self._has_inside(path)

    def _gross(self, size: int) -> int:
        """The user's bytes, and the tree that says where they are, which the quota counts too."""
        return (-(-size // 4096) * 4096) + size // 64 + (4 << 20)

    def _bytes_free(self) -> int:
        return super()._bytes_free() - sum(self._unwritten(record) for record in self._records())

    def _held(self, record: Record) -> int:
        return self._gross(record.size) if _is_subvolume(self.path(record.name)) else 0

    def _unwritten(self, record: Record) -> int:
        path = self.path(record.name)
        return max(0, self._held(record) - self._count(path, "referenced")) if _is_subvolume(path) else 0

    def _count(self, path: Path, what: str) -> int:
        """A number of bytes that the kernel keeps of the subvolume; 0 where it keeps none."""
        with suppress(FileNotFoundError):
            return int((self._quotas() / f"0_{_subvolume_id(path)}" / what).read_text())
        return 0

    def _inside(self, path: Path) -> list[Path]:
        """Subvolumes that the user made inside, the innermost first."""
        if not self._has_inside(path):
            return []
        folders = (entry for entry in entries(path) if entry.is_dir(follow_symlinks=False))
        # The kernel's list has no paths that hold for every way to mount the disk, and names can look like its lines.
        return [Path(entry.path) for entry in folders if _is_subvolume(Path(entry.path))][::-1]

    def _has_inside(self, path: Path) -> bool:
        """Asked of the kernel: the command fails for those whose path is too long."""
        try:
            return bool(_asked(path, _CHILDREN, bytes(4096))[4088])
        except OverflowError:  # more than are told at once
            return True

    def _quotas(self) -> Path:
        identity = UUID(bytes=_asked(self.root, _FS_INFO, bytes(1024))[16:32])
        return Path("/sys/fs/btrfs", str(identity), "qgroups")


def _is_subvolume(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return False
        raise
    return found.st_ino == _TOP and path.is_dir()


def _subvolume_id(path: Path) -> int:
    number: int = struct.unpack_from("Q", _asked(path, _INO_LOOKUP, struct.pack("QQ4080x", 0, _TOP)))[0]
    return number


def _asked(path: Path, question: int, argument: bytes) -> bytes:
    answer = bytearray(argument)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, question, answer)
    except OSError as error:
        raise OverflowError if error.errno == errno.EOVERFLOW else error from None
    finally:
        os.close(descriptor)
    return bytes(answer)
