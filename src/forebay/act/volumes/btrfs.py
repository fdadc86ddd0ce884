"""Volumes as btrfs subvolumes, whose size a quota enforces.

The quota covers only the subvolume itself. The kernel lets any user create subvolumes inside it and counts each
separately, so a user can exceed the quota that way. Such a volume is not `enforced`.
"""

import errno
import fcntl
import os
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from forebay.act.command import CommandFailed
from forebay.act.files import open_folder
from forebay.act.volumes.directory import walk_entries
from forebay.act.volumes.mounts import filesystem_of
from forebay.act.volumes.volume import NotOurs, Record, Volume
from forebay.act.volumes.volume_lifecycle import Volumes
from forebay.model.errors import BadInput

_LONGEST = 3600.0  # seconds to remove subvolumes that a user nested deeply
_TOP = 256  # the inode number of every subvolume's top folder
_FS_INFO, _INO_LOOKUP, _CHILDREN = 0x8400941F, 0xD0009412, 0xD000943D
"""The ioctls for the file system's id, a subvolume's id, and the number of its children (at the end of the answer)."""


@dataclass(frozen=True, kw_only=True)
class Btrfs(Volumes):
    """Each `root/<name>` is a subvolume; `root` is a folder on btrfs with quotas enabled."""

    kind: ClassVar[str] = "btrfs"

    def check(self) -> None:
        self._check_root("btrfs")
        if (kind := filesystem_of(self.root)) != "btrfs":
            raise BadInput(str(self.root), f"is on {kind or 'no file system'}, not on btrfs; choose another root")
        if not self._quota_folder().is_dir():
            raise BadInput(str(self.root), f"quotas are off; turn them on with btrfs quota enable {self.root}")

    def _create(self, record: Record) -> None:
        path = self.path(record.name)
        self._run("btrfs", "--quiet", "subvolume", "create", path)
        self._run("btrfs", "qgroup", "limit", str(self._gross_size(record.size)), path)
        self._hand_over(record)

    def _delete(self, record: Record) -> None:
        path = self.path(record.name)
        if not os.path.lexists(path):
            return
        if not _is_subvolume(path):
            raise NotOurs(f"{path}: is not a subvolume, so Forebay did not make it and left it unchanged; move it away")
        group = f"0/{_subvolume_id(path)}"
        if self._has_nested(path):  # delete the innermost first
            # Not by `btrfs subvolume list`: its paths depend on the mount, and file names can look like its lines.
            folders = (Path(entry.path) for entry in walk_entries(path) if entry.is_dir(follow_symlinks=False))
            for inner in reversed(list(filter(_is_subvolume, folders))):
                self._run("btrfs", "--quiet", "subvolume", "delete", "--commit-after", inner)
        if self._has_nested(path):  # some are nested too deeply for a path
            self._run("find", path, "-mindepth", "1", "-delete", seconds=_LONGEST)
        self._run("btrfs", "--quiet", "subvolume", "delete", "--commit-after", path)
        with suppress(CommandFailed):  # newer kernels remove it themselves
            self._run("btrfs", "qgroup", "destroy", group, self.root)

    def _is_up(self, record: Record) -> bool:
        return _is_subvolume(self.path(record.name))

    def _describe(self, record: Record) -> Volume:
        volume, path = super()._describe(record), self.path(record.name)
        has_quota = _is_subvolume(path) and self._read_counter(path, "max_referenced") > 0
        return replace(volume, enforced=has_quota and not self._has_nested(path))

    def _gross_size(self, size: int) -> int:
        """Return the user's bytes plus metadata, which the quota counts too."""
        return (-(-size // 4096) * 4096) + size // 64 + (4 << 20)

    def _free_bytes(self) -> int:
        """Return the free bytes, less space that is granted but not written yet."""
        granted = [(self.path(record.name), self._occupied_bytes(record)) for record in self.list_records()]
        unwritten = (size and max(0, size - self._read_counter(path, "referenced")) for path, size in granted)
        return super()._free_bytes() - sum(unwritten)

    def _occupied_bytes(self, record: Record) -> int:
        return self._gross_size(record.size) if _is_subvolume(self.path(record.name)) else 0

    def _read_counter(self, path: Path, what: str) -> int:
        """Read a counter of the subvolume's quota group, in bytes; 0 if it does not exist."""
        with suppress(FileNotFoundError):
            return int((self._quota_folder() / f"0_{_subvolume_id(path)}" / what).read_text())
        return 0

    def _has_nested(self, path: Path) -> bool:
        """Return whether it has subvolumes, by ioctl: the command fails if a path is too long."""
        try:
            return bool(_ioctl(path, _CHILDREN, bytes(4096))[4088])
        except OverflowError:  # too many for one reply
            return True

    def _quota_folder(self) -> Path:
        identity = UUID(bytes=_ioctl(self.root, _FS_INFO, bytes(1024))[16:32])
        return Path("/sys/fs/btrfs", str(identity), "qgroups")


def _is_subvolume(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return False
        raise
    return status.st_ino == _TOP and path.is_dir()


def _subvolume_id(path: Path) -> int:
    number: int = struct.unpack_from("Q", _ioctl(path, _INO_LOOKUP, struct.pack("QQ4080x", 0, _TOP)))[0]
    return number


def _ioctl(path: Path, request: int, argument: bytes) -> bytes:
    answer = bytearray(argument)
    try:
        with open_folder(path) as descriptor:
            fcntl.ioctl(descriptor, request, answer)
    except OSError as error:
        raise OverflowError if error.errno == errno.EOVERFLOW else error from None
    return bytes(answer)
