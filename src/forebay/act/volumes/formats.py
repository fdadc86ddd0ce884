"""The file system of a volume: how large it must be for the user to get the requested size, and how to make it fast.

`gross_size` is the smallest device that is known to hold `size` bytes of the user's in large files. `make_command`
takes far less than a second, whatever the size. It must not discard blocks: those reserved for the volume would
return to the disk. `options` are mount options for fresh, zeroed space.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forebay.act.volumes.volume import BadRequest
from forebay.model.errors import UnknownName
from forebay.model.units import format_size

_BLOCK = 4096
_MIB = 1 << 20
_PER_INODE = 16384
_GROUP = 32768
"""Blocks in a group of ext4 with blocks of 4096 bytes."""


class Ext4:
    """No blocks for root, one backup superblock; inode tables and journal are initialized later."""

    name = "ext4"
    options = ("noinit_itable",)

    def gross_size(self, size: int) -> int:
        return _grow(_count_blocks(size), self._overhead) * _BLOCK

    def make_command(self, size: int, device: Path) -> tuple[str, ...]:
        journal = self._journal(self.gross_size(size) // _BLOCK) * _BLOCK // _MIB
        return (
            *("mkfs.ext4", "-q", "-F", "-b", str(_BLOCK), "-I", "256", "-i", str(_PER_INODE), "-m", "0"),
            *("-O", "^resize_inode,sparse_super2", "-J", f"size={journal}"),
            *("-G", "256"),  # groups whose maps are together; the default of 16 scatters those of a large volume widely
            *("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,num_backup_sb=1", str(device)),
        )

    def _journal(self, blocks: int) -> int:
        """Blocks of the journal: a part in 128, from 4 MiB to 256 MiB."""
        return _whole_mib(min(max(blocks // 128, 1024), 65536))

    def _overhead(self, blocks: int) -> int:
        """Blocks that the user does not get."""
        groups = -(-blocks // _GROUP)
        inodes = -(-blocks * _BLOCK // _PER_INODE) // 16 + 2 * groups  # 16 to a block, rounded up in each group
        descriptors = 2 * (1 + -(-groups // 64))  # those of the second superblock, too
        kept = min(blocks // 50, 4096)  # by the kernel, for writes without blocks yet
        return inodes + 2 * groups + descriptors + self._journal(blocks) + kept + 16


class Xfs:
    """Without reflinks and reverse maps, which reserve blocks that scratch space does not need."""

    name = "xfs"
    options = ()
    least = 220 * _MIB
    """With overhead just over 300 MiB; mkfs.xfs makes nothing smaller."""

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
        """Blocks of the log: a part in 1024, from 64 MiB to 1 GiB."""
        return _whole_mib(min(max(size // _BLOCK // 1024, 16384), 262144))

    def _overhead(self, blocks: int) -> int:
        """Blocks besides the log that the user does not get."""
        kept = min(blocks // 20, 8192)  # by the kernel, for itself when the volume is full
        return kept + 1024 + blocks // 800 + 64 * self._groups(blocks)

    def _groups(self, blocks: int) -> int:
        """Allocation groups, each at most 1 TiB."""
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
    """The smallest number of blocks, or nearly, of which `wanted` are left.

    >>> _grow(90, lambda blocks: blocks // 10)
    99
    """
    blocks = wanted
    while (left := blocks - overhead(blocks)) < wanted:
        blocks += wanted - left
    return blocks


def _count_blocks(size: int) -> int:
    """Blocks for `size` bytes in large files, and for the maps of their places."""
    blocks = -(-size // _BLOCK)
    return blocks + blocks // 4096 + 16


def _whole_mib(blocks: int) -> int:
    """
    >>> _whole_mib(1025)
    1280
    """
    return -(-blocks // 256) * 256
