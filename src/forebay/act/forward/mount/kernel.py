"""The kernel's side of a mounted file system: decodes its requests and encodes the answers (FUSE, version 7.31 on).

The kernel writes numbers in the machine's byte order; `linux/fuse.h` has the structures. No code here opens a file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple, Protocol

from forebay.act.forward.net.payloads import Space
from forebay.act.forward.net.wire import Bytes

LONGEST = 1 << 20
"""Bytes that the kernel reads or writes at once."""
ROOM = LONGEST + 4096
"""Room for one request: the data of a write, and what precedes it."""
BLOCK = 4096

_HEADER = Struct("=IIQQIIIHH")  # length, operation, number, node, uid, gid, pid, length of extensions, padding
_ANSWER = Struct("=IiQ")
_ATTRIBUTES = Struct("=QQQqqqIIIIIIIIII")
_ENTRY_HEAD = Struct("=QQQQII")
_ATTRIBUTES_HEAD = Struct("=QII")
_OPENED = Struct("=QII")
_TRANSFER = Struct("=QQIIQII")  # a read or a write: handle, offset, size, flags, owner of locks, flags of open, padding
_SETATTR = Struct("=IIQQQqqqIIIIIIII")
_INIT = Struct("=IIII")
_INIT_ANSWER = Struct("=IIIIHHIIHHI28x")
_STATFS = Struct("=QQQQQIIII24x")
_ENTRY = Struct("=QQII")
_ALLOCATE = Struct("=QQQII")
_RELEASE = Struct("=QIIQ")  # also a flush: handle, flags of open, what to release, owner of locks
_LOCK_HEAD = Struct("=QQ")  # handle, owner
_LOCK = Struct("=QQII")  # first and last byte, kind, process
_U32, _U32x2, _U32x4, _U64, _U64x2 = Struct("=I"), Struct("=II"), Struct("=IIII"), Struct("=Q"), Struct("=QQ")
_RENAME2 = Struct("=QII")
_INVALIDATE = Struct("=Qqq")  # node, offset (-1: attributes only), length
_DROP_INODE, _DROP_NAMES = 2, 8

_MAJOR, _MINOR = 7, 39
_OLDEST = 31
_CAN_DROP_NAMES = 44
"""From this version on, the kernel can drop all names at once. To drop a single one waits for programs in its folder,
which may wait for this mount."""
_ASYNC_READ, _ATOMIC_TRUNCATE, _BIG_WRITES, _PARALLEL_FOLDERS = 1 << 0, 1 << 3, 1 << 5, 1 << 18
_MAX_PAGES, _CLEARS_SET_IDS, _MORE_FLAGS = 1 << 22, 1 << 28, 1 << 30
_WISHES = _ASYNC_READ | _ATOMIC_TRUNCATE | _BIG_WRITES | _PARALLEL_FOLDERS | _MAX_PAGES | _CLEARS_SET_IDS | _MORE_FLAGS
_POSIX_LOCKS, _FLOCKS = 1 << 1, 1 << 10
_MAPS_DIRECT = 1 << 4
"""Shared mappings, though programs read and write past the page cache; a flag of the second word, from Linux 6.6 on."""
_DIRECT = 1
"""The kernel passes whole requests on, and caches no bytes that other mounts can change."""
_FROM_CACHE, _CLEAR_ON_WRITE = 1 << 0, 1 << 2
_IS_FLOCK, _RELEASE_FLOCK = 1 << 0, 1 << 1
_MOST_INTERRUPTED = 64
_MODE, _UID, _GID, _SIZE, _ATIME, _MTIME, _HANDLE, _ATIME_NOW, _MTIME_NOW, _CLEAR = (
    1 << bit for bit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 11)
)
_NOBODY, _UNKNOWN = (1 << 32) - 2, (1 << 32) - 1
_HANDLE_GIVEN = 1


class User(NamedTuple):
    """Who has made a system call: the user, the group and the process."""

    uid: int
    gid: int
    pid: int


class Attributes(NamedTuple):
    """What the kernel knows of a file; `node` is its inode number. Times in ns since 1970, sizes in bytes."""

    node: int
    mode: int
    size: int
    allocated: int
    atime: int
    mtime: int
    ctime: int
    links: int
    uid: int
    gid: int
    device: int


class NameAbsent(FileNotFoundError):
    """No such name."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, os.strerror(errno.ENOENT))


class Validity(Protocol):
    """For how many seconds the kernel may keep an answer; asked and answered under `lock`."""

    lock: threading.RLock

    def status_validity(self, attributes: Attributes) -> float: ...
    def name_validity(self, folder: int, name: bytes, node: int) -> float: ...


class Change(NamedTuple):
    """Attributes to change; None keeps one. `now` means the time of the server; `clear` removes set-id bits."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime: int | None = None
    mtime: int | None = None
    atime_now: bool = False
    mtime_now: bool = False
    clear: bool = False
    handle: int | None = None


class FileLock(NamedTuple):
    """An advisory lock on the bytes from `begin` to `end`, both included, as data/locks.py has them."""

    flock: bool
    owner: int
    kind: int
    begin: int
    end: int
    process: int


class FileSystem(Protocol):
    """A file system that can be mounted. Nodes are inode numbers, of which 1 is the root. Errors are OSErrors."""

    @property
    def shares_locks(self) -> bool:
        """Whether locks are to be asked of it; otherwise, the kernel keeps them for this mount alone."""

    def lookup(self, user: User, folder: int, name: bytes) -> Attributes: ...
    def forget(self, node: int, lookups: int) -> None: ...
    def getattr(self, user: User, node: int) -> Attributes: ...
    def setattr(self, user: User, node: int, change: Change) -> Attributes: ...
    def readlink(self, user: User, node: int) -> bytes: ...
    def symlink(self, user: User, folder: int, name: bytes, target: bytes) -> Attributes: ...
    def mknod(self, user: User, folder: int, name: bytes, mode: int, device: int) -> Attributes: ...
    def mkdir(self, user: User, folder: int, name: bytes, mode: int) -> Attributes: ...
    def unlink(self, user: User, folder: int, name: bytes) -> None: ...
    def rmdir(self, user: User, folder: int, name: bytes) -> None: ...
    def rename(self, user: User, folder: int, name: bytes, into: int, new: bytes, flags: int) -> None: ...
    def link(self, user: User, node: int, folder: int, name: bytes) -> Attributes: ...
    def open(self, user: User, node: int, flags: int) -> int: ...
    def create(self, user: User, folder: int, name: bytes, flags: int, mode: int) -> tuple[Attributes, int]: ...
    def read(self, handle: int, room: memoryview, offset: int) -> int: ...
    def write(self, node: int, handle: int, data: memoryview, offset: int, clear: bool) -> int: ...
    def append(self, node: int, handle: int, data: memoryview, clear: bool) -> int: ...
    def allocate(self, handle: int, offset: int, length: int, mode: int) -> None: ...
    def sync(self, handle: int) -> None: ...
    def flush(self, handle: int, owner: int) -> None:
        """A descriptor of an open file is closed: release the POSIX locks of its process."""

    def release(self, handle: int, flock_owner: int | None) -> None:
        """No descriptor of an open file is left; release its `flock`, if it has an owner."""

    def find_lock(self, handle: int, wanted: FileLock) -> FileLock | None:
        """A lock of somebody else that is in the way."""

    def set_lock(self, handle: int, wanted: FileLock) -> bool:
        """Get or release a lock; return False if another one is in the way."""

    def wait_for_lock(self, handle: int, wanted: FileLock, number: int, done: Callable[[int], None]) -> None:
        """Get a lock later, in another thread, and call `done` with 0 or an errno."""

    def interrupt(self, number: int) -> bool:
        """End the wait for a lock that has this number; return whether there is one."""
        ...

    def readdir(self, user: User, node: int) -> Sequence[tuple[bytes, int, int]]: ...
    def sync_folder(self, node: int) -> None: ...
    def getxattr(self, user: User, node: int, name: bytes) -> bytes: ...
    def setxattr(self, user: User, node: int, name: bytes, value: bytes, flags: int) -> None: ...
    def listxattr(self, user: User, node: int) -> Sequence[bytes]: ...
    def removexattr(self, user: User, node: int, name: bytes) -> None: ...
    def statfs(self) -> Space: ...


class _Call(NamedTuple):
    """A request; `body` is what follows its header, `number` that of its answer."""

    user: User
    node: int
    body: memoryview
    number: int


class _Status(NamedTuple):
    """An answer with attributes. With a folder, it is also about a name; `tail` follows."""

    attributes: Attributes | None
    folder: int = 0
    name: bytes = b""
    tail: bytes = b""


_Answer = Bytes | tuple[Bytes, ...] | _Status | None
"""The content of an answer; None if the kernel expects no answer."""
Send = Callable[[Sequence[Bytes]], object]


class Kernel:
    """Answers the kernel's requests through a file system, and passes on what the kernel must drop.

    Names and attributes are valid for `cache` seconds, or as long as `validity` says.
    """

    def __init__(
        self, files: FileSystem, cache: float, ready: Callable[[], None], send: Send, validity: Validity | None = None
    ) -> None:
        self._files, self._ready, self._send, self._validity = files, ready, send, validity
        self._cache, self._drops_names = cache, False
        self._folders: dict[int, tuple[int, list[tuple[bytes, int, int]]]] = {}  # by handle: node, and what it lists
        self._next_folder = 0
        self._interrupted: deque[int] = deque(maxlen=_MOST_INTERRUPTED)
        self._operations: dict[int, Callable[[_Call], _Answer]] = {
            1: self._lookup, 2: self._forget, 3: self._getattr, 4: self._setattr, 5: self._readlink,
            6: self._symlink, 8: self._mknod, 9: self._mkdir, 10: self._unlink, 11: self._rmdir, 12: self._rename,
            13: self._link, 14: self._open, 16: self._write, 17: self._statfs, 18: self._release, 20: self._fsync,
            21: self._setxattr, 22: self._getxattr, 23: self._listxattr, 24: self._removexattr, 25: self._flush,
            26: self._init, 27: self._opendir, 28: self._readdir, 29: self._releasedir, 30: self._fsyncdir,
            31: self._getlk, 32: self._setlk, 33: self._setlkw, 35: self._create, 36: self._interrupt,
            38: self._destroy, 42: self._forget_several, 43: self._fallocate, 45: self._rename2,
        }  # fmt: skip

    def answer(self, request: memoryview, room: memoryview) -> None:
        """Carry out a request, and send the answer, if the kernel expects one.

        `room` has LONGEST bytes for the answer to a read.
        """
        _, operation, number, node, uid, gid, pid, _, _ = _HEADER.unpack_from(request)
        body = request[_HEADER.size :]
        try:
            if operation == _READ:
                handle, offset, size, *_ = _TRANSFER.unpack_from(body)
                count = self._files.read(handle, room[:size], offset)
                self._send((_ANSWER.pack(_ANSWER.size + count, 0, number), room[:count]))
                return
            carry_out = self._operations.get(operation)
            if carry_out is None:
                self._send((_ANSWER.pack(_ANSWER.size, -errno.ENOSYS, number),))
                return
            user = User(_NOBODY if uid == _UNKNOWN else uid, _NOBODY if gid == _UNKNOWN else gid, pid)
            content = carry_out(_Call(user, node, body, number))
        except OSError as error:
            self._send((_ANSWER.pack(_ANSWER.size, -(error.errno or errno.EIO), number),))
            return
        except Exception as error:  # a bug: only this request fails
            print(f"forebay: mount: operation {operation}: {error!r}", file=sys.stderr)
            self._send((_ANSWER.pack(_ANSWER.size, -errno.EIO, number),))
            return
        if isinstance(content, _Status):
            if self._validity is None:
                self._send_content(number, self._pack_status(content))
            else:
                with self._validity.lock:  # no recall comes between asking for the validity and the answer
                    self._send_content(number, self._pack_status(content))
        elif content is not None:
            self._send_content(number, content)

    def _send_content(self, number: int, content: Bytes | tuple[Bytes, ...]) -> None:
        if not isinstance(content, tuple):
            content = (content,)
        self._send((_ANSWER.pack(_ANSWER.size + sum(map(len, content)), 0, number), *content))

    def drop(self, nodes: Iterable[int]) -> None:
        """Let the kernel drop the attributes of these nodes, and all names."""
        size = _ANSWER.size + _INVALIDATE.size
        for node in nodes:
            self._notify(_ANSWER.pack(size, _DROP_INODE, 0) + _INVALIDATE.pack(node, -1, 0))
        if self._drops_names:
            self._notify(_ANSWER.pack(_ANSWER.size, _DROP_NAMES, 0))

    def _notify(self, message: bytes) -> None:
        with suppress(FileNotFoundError):  # the kernel does not know the node
            self._send((message,))

    def _init(self, call: _Call) -> _Answer:
        major, minor, readahead, flags = _INIT.unpack_from(call.body)
        if (major, minor) < (_MAJOR, _OLDEST):
            raise OSError(errno.EPROTO, f"the kernel's FUSE is too old: {major}.{minor}")
        more = _U32.unpack_from(call.body, _INIT.size)[0] & _MAPS_DIRECT if flags & _MORE_FLAGS else 0
        wishes = _WISHES | (_POSIX_LOCKS | _FLOCKS if self._files.shares_locks else 0)
        pages = LONGEST // BLOCK
        self._drops_names = (major, minor) >= (_MAJOR, _CAN_DROP_NAMES)
        self._ready()
        return _INIT_ANSWER.pack(
            _MAJOR, min(minor, _MINOR), readahead, flags & wishes, 64, 48, LONGEST, 1, pages, 0, more
        )

    def _destroy(self, _: _Call) -> _Answer:
        return b""

    # Names

    def _lookup(self, call: _Call) -> _Answer:
        name = _name(call.body)
        try:
            return self._entry(self._files.lookup(call.user, call.node, name), call, name)
        except NameAbsent:
            return _Status(None, call.node, name)

    def _forget(self, call: _Call) -> None:
        self._files.forget(call.node, *_U64.unpack_from(call.body))

    def _forget_several(self, call: _Call) -> None:
        count, _ = _U32x2.unpack_from(call.body)
        for i in range(count):
            self._files.forget(*_U64x2.unpack_from(call.body, 8 + 16 * i))

    def _symlink(self, call: _Call) -> _Answer:
        name, target, *_ = bytes(call.body).split(b"\0")
        return self._entry(self._files.symlink(call.user, call.node, name, target), call, name)

    def _mknod(self, call: _Call) -> _Answer:
        mode, device, _, _ = _U32x4.unpack_from(call.body)
        name = _name(call.body[16:])
        return self._entry(self._files.mknod(call.user, call.node, name, mode, device), call, name)

    def _mkdir(self, call: _Call) -> _Answer:
        mode, _ = _U32x2.unpack_from(call.body)
        name = _name(call.body[8:])
        return self._entry(self._files.mkdir(call.user, call.node, name, stat.S_IMODE(mode)), call, name)

    def _unlink(self, call: _Call) -> _Answer:
        self._files.unlink(call.user, call.node, _name(call.body))
        return b""

    def _rmdir(self, call: _Call) -> _Answer:
        self._files.rmdir(call.user, call.node, _name(call.body))
        return b""

    def _rename(self, call: _Call) -> _Answer:
        (into,) = _U64.unpack_from(call.body)
        return self._move(call, into, 0, call.body[8:])

    def _rename2(self, call: _Call) -> _Answer:
        into, flags, _ = _RENAME2.unpack_from(call.body)
        return self._move(call, into, flags, call.body[16:])

    def _move(self, call: _Call, into: int, flags: int, names: memoryview) -> _Answer:
        name, new, *_ = bytes(names).split(b"\0")
        self._files.rename(call.user, call.node, name, into, new, flags)
        return b""

    def _link(self, call: _Call) -> _Answer:
        (node,) = _U64.unpack_from(call.body)
        name = _name(call.body[8:])
        return self._entry(self._files.link(call.user, node, call.node, name), call, name)

    # Attributes

    def _getattr(self, call: _Call) -> _Answer:
        return _Status(self._files.getattr(call.user, call.node))

    def _setattr(self, call: _Call) -> _Answer:
        (
            valid, _, handle, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _,
        ) = _SETATTR.unpack_from(call.body)  # fmt: skip
        change = Change(
            mode=stat.S_IMODE(mode) if valid & _MODE else None,
            uid=uid if valid & _UID else None,
            gid=gid if valid & _GID else None,
            size=size if valid & _SIZE else None,
            atime=atime * 10**9 + atime_ns if valid & _ATIME and not valid & _ATIME_NOW else None,
            mtime=mtime * 10**9 + mtime_ns if valid & _MTIME and not valid & _MTIME_NOW else None,
            atime_now=bool(valid & _ATIME_NOW),
            mtime_now=bool(valid & _MTIME_NOW),
            clear=bool(valid & _CLEAR),
            handle=handle if valid & _HANDLE else None,
        )
        return _Status(self._files.setattr(call.user, call.node, change))

    def _readlink(self, call: _Call) -> _Answer:
        return self._files.readlink(call.user, call.node)

    def _getxattr(self, call: _Call) -> _Answer:
        size, _ = _U32x2.unpack_from(call.body)
        return _sized(self._files.getxattr(call.user, call.node, _name(call.body[8:])), size)

    def _listxattr(self, call: _Call) -> _Answer:
        size, _ = _U32x2.unpack_from(call.body)
        return _sized(b"".join(name + b"\0" for name in self._files.listxattr(call.user, call.node)), size)

    def _setxattr(self, call: _Call) -> _Answer:
        size, flags = _U32x2.unpack_from(call.body)
        name, _, value = bytes(call.body[8:]).partition(b"\0")
        self._files.setxattr(call.user, call.node, name, value[:size], flags)
        return b""

    def _removexattr(self, call: _Call) -> _Answer:
        self._files.removexattr(call.user, call.node, _name(call.body))
        return b""

    def _statfs(self, _: _Call) -> _Answer:
        space = self._files.statfs()
        blocks = (each // BLOCK for each in (space.total, space.free, space.available))
        return _STATFS.pack(*blocks, space.files, space.free_files, LONGEST, 255, BLOCK, 0)

    # Open files

    def _open(self, call: _Call) -> _Answer:
        flags, _ = _U32x2.unpack_from(call.body)
        return _OPENED.pack(self._files.open(call.user, call.node, flags), _DIRECT, 0)

    def _create(self, call: _Call) -> _Answer:
        flags, mode, _, _ = _U32x4.unpack_from(call.body)
        name = _name(call.body[16:])
        attributes, handle = self._files.create(call.user, call.node, name, flags, stat.S_IMODE(mode))
        return self._entry(attributes, call, name, _OPENED.pack(handle, _DIRECT, 0))

    def _write(self, call: _Call) -> _Answer:
        handle, offset, size, flags, _, opened, _ = _TRANSFER.unpack_from(call.body)
        data, clear = call.body[_TRANSFER.size :][:size], bool(flags & _CLEAR_ON_WRITE)
        if opened & os.O_APPEND and not flags & _FROM_CACHE:  # the kernel's offset is the end that it knows
            return _U32x2.pack(self._files.append(call.node, handle, data, clear), 0)
        return _U32x2.pack(self._files.write(call.node, handle, data, offset, clear), 0)

    def _fallocate(self, call: _Call) -> _Answer:
        handle, offset, length, mode, _ = _ALLOCATE.unpack_from(call.body)
        self._files.allocate(handle, offset, length, mode)
        return b""

    def _fsync(self, call: _Call) -> _Answer:
        self._files.sync(*_U64.unpack_from(call.body))
        return b""

    def _flush(self, call: _Call) -> _Answer:
        handle, _, _, owner = _RELEASE.unpack_from(call.body)
        self._files.flush(handle, owner)
        return b""

    def _release(self, call: _Call) -> _Answer:
        handle, _, what, owner = _RELEASE.unpack_from(call.body)
        self._files.release(handle, owner if what & _RELEASE_FLOCK else None)
        return b""

    # Locks

    def _getlk(self, call: _Call) -> _Answer:
        handle, wanted = _read_lock(call.body)
        held = self._files.find_lock(handle, wanted)
        if held is None:
            return _LOCK.pack(wanted.begin, wanted.end, fcntl.F_UNLCK, 0)
        return _LOCK.pack(held.begin, held.end, held.kind, held.process)

    def _setlk(self, call: _Call) -> _Answer:
        if not self._files.set_lock(*_read_lock(call.body)):
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return b""

    def _setlkw(self, call: _Call) -> _Answer:
        """Wait for the lock in another thread: the one that releases it may need this thread."""
        handle, wanted = _read_lock(call.body)
        if self._files.set_lock(handle, wanted):
            return b""

        def answer(status: int) -> None:
            with suppress(FileNotFoundError):  # the program gave up
                self._send((_ANSWER.pack(_ANSWER.size, -status, call.number),))

        self._files.wait_for_lock(handle, wanted, call.number, answer)
        if call.number in self._interrupted:
            self._files.interrupt(call.number)
        return None

    def _interrupt(self, call: _Call) -> None:
        """A program no longer waits for a request. All but locks are answered soon all the same."""
        (number,) = _U64.unpack_from(call.body)
        self._interrupted.append(number)
        self._files.interrupt(number)

    # Open folders

    def _opendir(self, call: _Call) -> _Answer:
        self._next_folder += 1
        handle = self._next_folder
        self._folders[handle] = call.node, []
        return _OPENED.pack(handle, 0, 0)

    def _readdir(self, call: _Call) -> _Answer:
        """List the folder from an index on; the list is that of the first call, until a program rewinds."""
        handle, offset, size, *_ = _TRANSFER.unpack_from(call.body)
        node, entries = self._folders[handle]
        if not offset:
            entries = [(b".", stat.S_IFDIR, node), (b"..", stat.S_IFDIR, node)]
            entries += self._files.readdir(call.user, node)
            self._folders[handle] = node, entries
        pieces, length = [], 0
        for index in range(offset, len(entries)):
            name, mode, id_ = entries[index]
            padding = -len(name) % 8
            length += _ENTRY.size + len(name) + padding
            if length > size:
                break
            pieces.append(_ENTRY.pack(id_ or _UNKNOWN, index + 1, len(name), stat.S_IFMT(mode) >> 12))
            pieces.append(name + bytes(padding))
        return b"".join(pieces)

    def _releasedir(self, call: _Call) -> _Answer:
        (handle,) = _U64.unpack_from(call.body)
        self._folders.pop(handle, None)
        return b""

    def _fsyncdir(self, call: _Call) -> _Answer:
        self._files.sync_folder(call.node)
        return b""

    # Encoding

    def _entry(self, attributes: Attributes, call: _Call, name: bytes, tail: bytes = b"") -> _Status:
        return _Status(attributes, call.node, name, tail)

    def _pack_status(self, status: _Status) -> bytes:
        """Encode an answer with attributes, and say how long the kernel may keep it."""
        attributes, folder, name, tail = status
        validity, of_name, of_status = self._validity, self._cache, self._cache
        if validity is not None and attributes is not None:
            of_status = max(of_status, validity.status_validity(attributes))
        if not folder:
            assert attributes is not None
            return _ATTRIBUTES_HEAD.pack(*_split(of_status), 0) + _pack_attributes(attributes)
        node = attributes.node if attributes is not None else 0
        if validity is not None and self._drops_names:
            of_name = max(of_name, validity.name_validity(folder, name, node))
        (seconds, ns), (status_seconds, status_ns) = _split(of_name), _split(of_status)
        head = _ENTRY_HEAD.pack(node, 0, seconds, status_seconds, ns, status_ns)
        if attributes is None:
            return head + bytes(_ATTRIBUTES.size)
        return head + _pack_attributes(attributes) + tail


_READ = 15


def _read_lock(body: memoryview) -> tuple[int, FileLock]:
    """The handle of a request for a lock, and the lock; the kinds are numbered as in data/locks.py."""
    handle, owner = _LOCK_HEAD.unpack_from(body)
    begin, end, kind, process = _LOCK.unpack_from(body, _LOCK_HEAD.size)
    flags, _ = _U32x2.unpack_from(body, _LOCK_HEAD.size + _LOCK.size)
    return handle, FileLock(bool(flags & _IS_FLOCK), owner, kind, begin, end, process)


def _name(body: memoryview) -> bytes:
    return bytes(body).partition(b"\0")[0]


def _split(seconds: float) -> tuple[int, int]:
    return int(seconds), int(seconds % 1 * 1e9)


def _pack_attributes(of: Attributes) -> bytes:
    (atime, atime_ns), (mtime, mtime_ns), (ctime, ctime_ns) = (divmod(at, 10**9) for at in of[4:7])
    return _ATTRIBUTES.pack(
        of.node, of.size, -(-of.allocated // 512), atime, mtime, ctime, atime_ns, mtime_ns, ctime_ns,
        of.mode, of.links, of.uid, of.gid, _pack_device(of.device), LONGEST, 0,
    )  # fmt: skip


def _pack_device(device: int) -> int:
    """The number of a device in the kernel's 32 bits.

    >>> _pack_device(os.makedev(8, 257))
    1050625
    """
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF | major << 8 | (minor & ~0xFF) << 12) & 0xFFFFFFFF


def _sized(value: bytes, size: int) -> _Answer:
    """An answer about extended attributes: the length if there is no room, else the value."""
    if not size:
        return _U32x2.pack(len(value), 0)
    if len(value) > size:
        raise OSError(errno.ERANGE, os.strerror(errno.ERANGE))
    return value
