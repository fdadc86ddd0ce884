"""The structures and flags of the kernel's FUSE protocol, as in `linux/fuse.h`, and how single ones are packed.

Numbers are in the machine's byte order.
"""

import os
from struct import Struct

from forebay.act.forward.mount.file_system import Attributes, FileLock

LONGEST = 1 << 20
"""Bytes that the kernel reads or writes at once."""
ROOM = LONGEST + 4096
"""Room for one request: the data of a write, and what precedes it."""
BLOCK = 4096
READ = 15
"""The number of the operation that reads."""

HEADER = Struct("=IIQQIIIHH")  # length, operation, number, node, uid, gid, pid, length of extensions, padding
ANSWER = Struct("=IiQ")
ATTRIBUTES = Struct("=QQQqqqIIIIIIIIII")
ENTRY_HEAD = Struct("=QQQQII")
ATTRIBUTES_HEAD = Struct("=QII")
OPENED = Struct("=QII")
TRANSFER = Struct("=QQIIQII")  # a read or a write: handle, offset, size, flags, owner of locks, flags of open, padding
SETATTR = Struct("=IIQQQqqqIIIIIIII")
INIT = Struct("=IIII")
INIT_ANSWER = Struct("=IIIIHHIIHHI28x")
STATFS = Struct("=QQQQQIIII24x")
ENTRY = Struct("=QQII")
ALLOCATE = Struct("=QQQII")
RELEASE = Struct("=QIIQ")  # also a flush: handle, flags of open, what to release, owner of locks
LOCK_HEAD = Struct("=QQ")  # handle, owner
LOCK = Struct("=QQII")  # first and last byte, kind, process
U32, U32x2, U32x4, U64, U64x2 = Struct("=I"), Struct("=II"), Struct("=IIII"), Struct("=Q"), Struct("=QQ")
RENAME2 = Struct("=QII")
INVALIDATE = Struct("=Qqq")  # node, offset (-1: attributes only), length
DROP_INODE, DROP_NAMES = 2, 8

MAJOR, MINOR = 7, 39
OLDEST = 31
CAN_DROP_NAMES = 44
"""From this version on, the kernel can drop all names at once. To drop a single one waits for programs in its folder,
which may wait for this mount."""
ASYNC_READ, ATOMIC_TRUNCATE, BIG_WRITES, PARALLEL_FOLDERS = 1 << 0, 1 << 3, 1 << 5, 1 << 18
MAX_PAGES, CLEARS_SET_IDS, MORE_FLAGS = 1 << 22, 1 << 28, 1 << 30
WISHES = ASYNC_READ | ATOMIC_TRUNCATE | BIG_WRITES | PARALLEL_FOLDERS | MAX_PAGES | CLEARS_SET_IDS | MORE_FLAGS
POSIX_LOCKS, FLOCKS = 1 << 1, 1 << 10
MAPS_DIRECT = 1 << 4
"""Shared mappings, though programs read and write past the page cache; a flag of the second word, from Linux 6.6 on."""
DIRECT = 1
"""The kernel passes whole requests on, and caches no bytes that other mounts can change."""
FROM_CACHE, CLEAR_ON_WRITE = 1 << 0, 1 << 2
IS_FLOCK, RELEASE_FLOCK = 1 << 0, 1 << 1
MODE, UID, GID, SIZE, ATIME, MTIME, HANDLE, ATIME_NOW, MTIME_NOW, CLEAR = (
    1 << bit for bit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 11)
)
NOBODY, UNKNOWN = (1 << 32) - 2, (1 << 32) - 1


def read_lock(body: memoryview) -> tuple[int, FileLock]:
    """The handle of a request for a lock, and the lock; the kinds are numbered as in data/lock_table.py."""
    handle, owner = LOCK_HEAD.unpack_from(body)
    begin, end, kind, process = LOCK.unpack_from(body, LOCK_HEAD.size)
    flags, _ = U32x2.unpack_from(body, LOCK_HEAD.size + LOCK.size)
    return handle, FileLock(bool(flags & IS_FLOCK), owner, kind, begin, end, process)


def read_name(body: memoryview) -> bytes:
    return bytes(body).partition(b"\0")[0]


def split_seconds(seconds: float) -> tuple[int, int]:
    return int(seconds), int(seconds % 1 * 1e9)


def pack_attributes(of: Attributes) -> bytes:
    (atime, atime_ns), (mtime, mtime_ns), (ctime, ctime_ns) = (divmod(at, 10**9) for at in of[4:7])
    return ATTRIBUTES.pack(
        of.node, of.size, -(-of.allocated // 512), atime, mtime, ctime, atime_ns, mtime_ns, ctime_ns,
        of.mode, of.links, of.uid, of.gid, pack_device(of.device), LONGEST, 0,
    )  # fmt: skip


def pack_device(device: int) -> int:
    """The number of a device in the kernel's 32 bits.

    >>> pack_device(os.makedev(8, 257))
    1050625
    """
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF | major << 8 | (minor & ~0xFF) << 12) & 0xFFFFFFFF
