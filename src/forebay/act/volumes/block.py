"""Volumes that each have their own file system, on an image or a logical volume, which enforces the size."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from forebay.act.volumes.mounts import Mount, mounted_at
from forebay.act.volumes.unmounting import unmount
from forebay.act.volumes.volume import BadRequest, Record, Volume, VolumeFailed
from forebay.act.volumes.volume_lifecycle import Volumes, foreign_mount
from forebay.model.errors import UnknownName
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


# Ceilings on the bandwidth of block devices, through control groups of version 1 or 2.
#
# Version 1 limits each group separately, so the ceiling is set in every group. Groups that are created later have no
# limit, except for writes through the page cache, which the kernel does. Version 2 cannot limit the root group, so the
# ceiling is set in each group at the top and holds for all groups below it.

_GROUPS = Path("/sys/fs/cgroup")
_V1 = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")


def limit_device(device: str, rate: int | None, groups: Path = _GROUPS) -> None:
    """Limit reads and writes on the device (major:minor) to `rate` bytes/s each, if the kernel can. None: no limit."""
    limit = "max" if rate is None else rate
    for file in _limit_files(groups):
        with suppress(OSError):  # the group has just been removed, or the kernel cannot limit the device
            file.write_text(f"{device} {rate or 0}" if file.name in _V1 else f"{device} rbps={limit} wbps={limit}")


def read_limit(device: str, groups: Path = _GROUPS) -> float | None:
    """Return the ceiling in bytes per second, or None."""
    for file in _limit_files(groups):
        with suppress(OSError):
            for line in file.read_text().splitlines():
                number, *limits = line.replace("rbps=", "").split()
                if number == device and limits[0].isdigit():
                    return float(limits[0])
    return None


def _limit_files(groups: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(groups / "blkio"):
        yield from (Path(folder, name) for name in _V1 if name in names)
    yield from sorted(groups.glob("*/io.max"))


# File systems. `gross_size` is the smallest device that is known to hold `size` bytes of user data in large files.
# `make_command` takes far less than a second, whatever the size. It must not discard blocks: the disk would take back
# the blocks reserved for the volume. `options` are mount options for new, zeroed space.

_BLOCK = 4096
_MIB = 1 << 20
_PER_INODE = 16384
_GROUP = 32768  # blocks in a group of ext4 with blocks of 4096 bytes


class Ext4:
    """Reserves no blocks for root, has one backup superblock, and initializes inode tables and journal later."""

    name = "ext4"
    options = ("noinit_itable",)

    def gross_size(self, size: int) -> int:
        return _grow(_count_blocks(size), self._overhead) * _BLOCK

    def make_command(self, size: int, device: Path) -> tuple[str, ...]:
        journal = self._journal(self.gross_size(size) // _BLOCK) * _BLOCK // _MIB
        return (
            *("mkfs.ext4", "-q", "-F", "-b", str(_BLOCK), "-I", "256", "-i", str(_PER_INODE), "-m", "0"),
            *("-O", "^resize_inode,sparse_super2", "-J", f"size={journal}"),
            *("-G", "256"),  # groups that keep their maps together; the default, 16, scatters maps of large volumes
            *("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,num_backup_sb=1", str(device)),
        )

    def _journal(self, blocks: int) -> int:
        """Return the journal's blocks: 1/128 of the device, from 4 MiB to 256 MiB."""
        return _whole_mib(min(max(blocks // 128, 1024), 65536))

    def _overhead(self, blocks: int) -> int:
        """Return the blocks that the user cannot write."""
        groups = -(-blocks // _GROUP)
        inodes = -(-blocks * _BLOCK // _PER_INODE) // 16 + 2 * groups  # 16 to a block, rounded up in each group
        descriptors = 2 * (1 + -(-groups // 64))  # of both superblocks
        reserved = min(blocks // 50, 4096)  # by the kernel, for delayed allocation
        return inodes + 2 * groups + descriptors + self._journal(blocks) + reserved + 16


class Xfs:
    """Has no reflinks and reverse maps, which reserve blocks that scratch space does not need."""

    name = "xfs"
    options = ()
    least = 220 * _MIB
    """With overhead just over 300 MiB, the minimum of mkfs.xfs."""

    def gross_size(self, size: int) -> int:
        if size < self.least:
            reason = f"{format_size(size)} is too small; the minimum is {format_size(self.least)}"
            raise BadRequest("xfs volume", reason)
        return _grow(_count_blocks(size), lambda blocks: self._log(size) + self._overhead(blocks)) * _BLOCK

    def make_command(self, size: int, device: Path) -> tuple[str, ...]:
        groups = self._groups(self.gross_size(size) // _BLOCK)
        data = ("-b", f"size={_BLOCK}", "-d", f"agcount={groups}", "-l", f"size={self._log(size) * _BLOCK}")
        return "mkfs.xfs", "-q", "-f", "-K", *data, "-m", "reflink=0,rmapbt=0", str(device)

    def _log(self, size: int) -> int:
        """Return the log's blocks: 1/1024 of the size, from 64 MiB to 1 GiB."""
        return _whole_mib(min(max(size // _BLOCK // 1024, 16384), 262144))

    def _overhead(self, blocks: int) -> int:
        """Return the blocks besides the log that the user cannot write."""
        reserved = min(blocks // 20, 8192)  # by the kernel, for metadata when the volume is full
        return reserved + 1024 + blocks // 800 + 64 * self._groups(blocks)

    def _groups(self, blocks: int) -> int:
        """Return the number of allocation groups, each of at most 1 TiB."""
        return max(4, blocks // (200 << 20) + 1)


Format = Ext4 | Xfs
_FORMATS: dict[str, Format] = {"ext4": Ext4(), "xfs": Xfs()}


def find_format(name: str) -> Format:
    """
    >>> find_format("ext4").gross_size(10**9) / 10**9 < 1.06
    True
    """
    if name not in _FORMATS:
        raise UnknownName("file system", name, _FORMATS)
    return _FORMATS[name]


def _grow(wanted: int, overhead: Callable[[int], int]) -> int:
    """Return about the smallest number of blocks that leaves `wanted` blocks after overhead.

    >>> _grow(90, lambda blocks: blocks // 10)
    99
    """
    blocks = wanted
    while (left := blocks - overhead(blocks)) < wanted:
        blocks += wanted - left
    return blocks


def _count_blocks(size: int) -> int:
    """Return the blocks for `size` bytes in large files, with their extent maps."""
    blocks = -(-size // _BLOCK)
    return blocks + blocks // 4096 + 16


def _whole_mib(blocks: int) -> int:
    """
    >>> _whole_mib(1025)
    1280
    """
    return -(-blocks // 256) * 256
