"""The file systems that volumes can have, ext4 and xfs: how they are made, and what they need of a device.

`gross_size` is the smallest device that is known to hold `size` bytes of user data in large files. `make_command` takes
far less than a second, whatever the size. It must not discard blocks: the disk would take back the blocks reserved for
the volume. `options` are mount options for new, zeroed space.
"""

from collections.abc import Callable
from pathlib import Path

from forebay.act.volumes.volume import BadRequest
from forebay.model.errors import UnknownName
from forebay.model.units import format_size

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
