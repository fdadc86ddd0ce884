"""The parts of a disk (block groups) into which ext4 puts new files.

A new file's inode comes from the block group of its folder. Without a journal, ext4 does not use an inode again for a
minute or more after its removal, and looks at all of these in the group before it finds another one: milliseconds,
where programs create and remove many files. So the folders of objects are in as many groups as possible.
"""

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS, as most machines number them; others refuse them."""
_TOP_OF_HIERARCHIES = 0x20000
_JOURNALS = Path("/proc/fs/jbd2")


def spread_folders(folder: int) -> None:
    """Have ext4 put the folders that are made in this one into different groups (`chattr +T`), if it has no journal.

    With a journal, this would only write more of them. Other file systems refuse it, which does no harm.
    """
    if _has_journal(os.fstat(folder).st_dev):
        return
    with suppress(OSError):
        flags = int.from_bytes(fcntl.ioctl(folder, _GET_FLAGS, bytes(4)), sys.byteorder)
        fcntl.ioctl(folder, _SET_FLAGS, (flags | _TOP_OF_HIERARCHIES).to_bytes(4, sys.byteorder))


def _has_journal(device: int) -> bool:
    """Whether an ext4 on this device has a journal."""
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    return any(_JOURNALS.glob(f"{name}-*"))
