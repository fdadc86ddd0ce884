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
from typing import NamedTuple, Protocol

from forebay.act.forward.mount import fuse
from forebay.act.forward.mount.file_system import Attributes, Change, FileSystem, NameAbsent, User
from forebay.act.forward.net.wire import Bytes

_MOST_INTERRUPTED = 64


class Validity(Protocol):
    """For how many seconds the kernel may keep an answer; asked and answered under `lock`."""

    lock: threading.RLock

    def status_validity(self, attributes: Attributes) -> float: ...
    def name_validity(self, folder: int, name: bytes, node: int) -> float: ...


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

        `room` has fuse.LONGEST bytes for the answer to a read.
        """
        _, operation, number, node, uid, gid, pid, _, _ = fuse.HEADER.unpack_from(request)
        body = request[fuse.HEADER.size :]
        try:
            if operation == fuse.READ:
                handle, offset, size, *_ = fuse.TRANSFER.unpack_from(body)
                count = self._files.read(handle, room[:size], offset)
                self._send((fuse.ANSWER.pack(fuse.ANSWER.size + count, 0, number), room[:count]))
                return
            carry_out = self._operations.get(operation)
            if carry_out is None:
                self._send((fuse.ANSWER.pack(fuse.ANSWER.size, -errno.ENOSYS, number),))
                return
            user = User(fuse.NOBODY if uid == fuse.UNKNOWN else uid, fuse.NOBODY if gid == fuse.UNKNOWN else gid, pid)
            content = carry_out(_Call(user, node, body, number))
        except OSError as error:
            self._send((fuse.ANSWER.pack(fuse.ANSWER.size, -(error.errno or errno.EIO), number),))
            return
        except Exception as error:  # a bug: only this request fails
            print(f"forebay: mount: operation {operation}: {error!r}", file=sys.stderr)
            self._send((fuse.ANSWER.pack(fuse.ANSWER.size, -errno.EIO, number),))
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
        self._send((fuse.ANSWER.pack(fuse.ANSWER.size + sum(map(len, content)), 0, number), *content))

    def drop(self, nodes: Iterable[int]) -> None:
        """Let the kernel drop the attributes of these nodes, and all names."""
        size = fuse.ANSWER.size + fuse.INVALIDATE.size
        for node in nodes:
            self._notify(fuse.ANSWER.pack(size, fuse.DROP_INODE, 0) + fuse.INVALIDATE.pack(node, -1, 0))
        if self._drops_names:
            self._notify(fuse.ANSWER.pack(fuse.ANSWER.size, fuse.DROP_NAMES, 0))

    def _notify(self, message: bytes) -> None:
        with suppress(FileNotFoundError):  # the kernel does not know the node
            self._send((message,))

    def _init(self, call: _Call) -> _Answer:
        major, minor, readahead, flags = fuse.INIT.unpack_from(call.body)
        if (major, minor) < (fuse.MAJOR, fuse.OLDEST):
            raise OSError(errno.EPROTO, f"the kernel's FUSE is too old: {major}.{minor}")
        more = fuse.U32.unpack_from(call.body, fuse.INIT.size)[0] & fuse.MAPS_DIRECT if flags & fuse.MORE_FLAGS else 0
        wishes = fuse.WISHES | (fuse.POSIX_LOCKS | fuse.FLOCKS if self._files.shares_locks else 0)
        pages = fuse.LONGEST // fuse.BLOCK
        self._drops_names = (major, minor) >= (fuse.MAJOR, fuse.CAN_DROP_NAMES)
        self._ready()
        return fuse.INIT_ANSWER.pack(
            fuse.MAJOR, min(minor, fuse.MINOR), readahead, flags & wishes, 64, 48, fuse.LONGEST, 1, pages, 0, more
        )

    def _destroy(self, _: _Call) -> _Answer:
        return b""

    # Names

    def _lookup(self, call: _Call) -> _Answer:
        name = fuse.read_name(call.body)
        try:
            return self._entry(self._files.lookup(call.user, call.node, name), call, name)
        except NameAbsent:
            return _Status(None, call.node, name)

    def _forget(self, call: _Call) -> None:
        self._files.forget(call.node, *fuse.U64.unpack_from(call.body))

    def _forget_several(self, call: _Call) -> None:
        count, _ = fuse.U32x2.unpack_from(call.body)
        for i in range(count):
            self._files.forget(*fuse.U64x2.unpack_from(call.body, 8 + 16 * i))

    def _symlink(self, call: _Call) -> _Answer:
        name, target, *_ = bytes(call.body).split(b"\0")
        return self._entry(self._files.symlink(call.user, call.node, name, target), call, name)

    def _mknod(self, call: _Call) -> _Answer:
        mode, device, _, _ = fuse.U32x4.unpack_from(call.body)
        name = fuse.read_name(call.body[16:])
        return self._entry(self._files.mknod(call.user, call.node, name, mode, device), call, name)

    def _mkdir(self, call: _Call) -> _Answer:
        mode, _ = fuse.U32x2.unpack_from(call.body)
        name = fuse.read_name(call.body[8:])
        return self._entry(self._files.mkdir(call.user, call.node, name, stat.S_IMODE(mode)), call, name)

    def _unlink(self, call: _Call) -> _Answer:
        self._files.unlink(call.user, call.node, fuse.read_name(call.body))
        return b""

    def _rmdir(self, call: _Call) -> _Answer:
        self._files.rmdir(call.user, call.node, fuse.read_name(call.body))
        return b""

    def _rename(self, call: _Call) -> _Answer:
        (into,) = fuse.U64.unpack_from(call.body)
        return self._move(call, into, 0, call.body[8:])

    def _rename2(self, call: _Call) -> _Answer:
        into, flags, _ = fuse.RENAME2.unpack_from(call.body)
        return self._move(call, into, flags, call.body[16:])

    def _move(self, call: _Call, into: int, flags: int, names: memoryview) -> _Answer:
        name, new, *_ = bytes(names).split(b"\0")
        self._files.rename(call.user, call.node, name, into, new, flags)
        return b""

    def _link(self, call: _Call) -> _Answer:
        (node,) = fuse.U64.unpack_from(call.body)
        name = fuse.read_name(call.body[8:])
        return self._entry(self._files.link(call.user, node, call.node, name), call, name)

    # Attributes

    def _getattr(self, call: _Call) -> _Answer:
        return _Status(self._files.getattr(call.user, call.node))

    def _setattr(self, call: _Call) -> _Answer:
        (
            valid, _, handle, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _,
        ) = fuse.SETATTR.unpack_from(call.body)  # fmt: skip
        change = Change(
            mode=stat.S_IMODE(mode) if valid & fuse.MODE else None,
            uid=uid if valid & fuse.UID else None,
            gid=gid if valid & fuse.GID else None,
            size=size if valid & fuse.SIZE else None,
            atime=atime * 10**9 + atime_ns if valid & fuse.ATIME and not valid & fuse.ATIME_NOW else None,
            mtime=mtime * 10**9 + mtime_ns if valid & fuse.MTIME and not valid & fuse.MTIME_NOW else None,
            atime_now=bool(valid & fuse.ATIME_NOW),
            mtime_now=bool(valid & fuse.MTIME_NOW),
            clear=bool(valid & fuse.CLEAR),
            handle=handle if valid & fuse.HANDLE else None,
        )
        return _Status(self._files.setattr(call.user, call.node, change))

    def _readlink(self, call: _Call) -> _Answer:
        return self._files.readlink(call.user, call.node)

    def _getxattr(self, call: _Call) -> _Answer:
        size, _ = fuse.U32x2.unpack_from(call.body)
        return _fit_value(self._files.getxattr(call.user, call.node, fuse.read_name(call.body[8:])), size)

    def _listxattr(self, call: _Call) -> _Answer:
        size, _ = fuse.U32x2.unpack_from(call.body)
        return _fit_value(b"".join(name + b"\0" for name in self._files.listxattr(call.user, call.node)), size)

    def _setxattr(self, call: _Call) -> _Answer:
        size, flags = fuse.U32x2.unpack_from(call.body)
        name, _, value = bytes(call.body[8:]).partition(b"\0")
        self._files.setxattr(call.user, call.node, name, value[:size], flags)
        return b""

    def _removexattr(self, call: _Call) -> _Answer:
        self._files.removexattr(call.user, call.node, fuse.read_name(call.body))
        return b""

    def _statfs(self, _: _Call) -> _Answer:
        space = self._files.statfs()
        blocks = (each // fuse.BLOCK for each in (space.total, space.free, space.available))
        return fuse.STATFS.pack(*blocks, space.files, space.free_files, fuse.LONGEST, 255, fuse.BLOCK, 0)

    # Open files

    def _open(self, call: _Call) -> _Answer:
        flags, _ = fuse.U32x2.unpack_from(call.body)
        return fuse.OPENED.pack(self._files.open(call.user, call.node, flags), fuse.DIRECT, 0)

    def _create(self, call: _Call) -> _Answer:
        flags, mode, _, _ = fuse.U32x4.unpack_from(call.body)
        name = fuse.read_name(call.body[16:])
        attributes, handle = self._files.create(call.user, call.node, name, flags, stat.S_IMODE(mode))
        return self._entry(attributes, call, name, fuse.OPENED.pack(handle, fuse.DIRECT, 0))

    def _write(self, call: _Call) -> _Answer:
        handle, offset, size, flags, _, opened, _ = fuse.TRANSFER.unpack_from(call.body)
        data, clear = call.body[fuse.TRANSFER.size :][:size], bool(flags & fuse.CLEAR_ON_WRITE)
        if opened & os.O_APPEND and not flags & fuse.FROM_CACHE:  # the kernel's offset is the end that it knows
            return fuse.U32x2.pack(self._files.append(call.node, handle, data, clear), 0)
        return fuse.U32x2.pack(self._files.write(call.node, handle, data, offset, clear), 0)

    def _fallocate(self, call: _Call) -> _Answer:
        handle, offset, length, mode, _ = fuse.ALLOCATE.unpack_from(call.body)
        self._files.allocate(handle, offset, length, mode)
        return b""

    def _fsync(self, call: _Call) -> _Answer:
        self._files.sync(*fuse.U64.unpack_from(call.body))
        return b""

    def _flush(self, call: _Call) -> _Answer:
        handle, _, _, owner = fuse.RELEASE.unpack_from(call.body)
        self._files.flush(handle, owner)
        return b""

    def _release(self, call: _Call) -> _Answer:
        handle, _, what, owner = fuse.RELEASE.unpack_from(call.body)
        self._files.release(handle, owner if what & fuse.RELEASE_FLOCK else None)
        return b""

    # Locks

    def _getlk(self, call: _Call) -> _Answer:
        handle, wanted = fuse.read_lock(call.body)
        held = self._files.find_lock(handle, wanted)
        if held is None:
            return fuse.LOCK.pack(wanted.begin, wanted.end, fcntl.F_UNLCK, 0)
        return fuse.LOCK.pack(held.begin, held.end, held.kind, held.process)

    def _setlk(self, call: _Call) -> _Answer:
        if not self._files.set_lock(*fuse.read_lock(call.body)):
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return b""

    def _setlkw(self, call: _Call) -> _Answer:
        """Wait for the lock in another thread: the one that releases it may need this thread."""
        handle, wanted = fuse.read_lock(call.body)
        if self._files.set_lock(handle, wanted):
            return b""

        def answer(status: int) -> None:
            with suppress(FileNotFoundError):  # the program gave up
                self._send((fuse.ANSWER.pack(fuse.ANSWER.size, -status, call.number),))

        self._files.wait_for_lock(handle, wanted, call.number, answer)
        if call.number in self._interrupted:
            self._files.interrupt(call.number)
        return None

    def _interrupt(self, call: _Call) -> None:
        """A program no longer waits for a request. Only requests for locks need this: others are answered soon."""
        (number,) = fuse.U64.unpack_from(call.body)
        self._interrupted.append(number)
        self._files.interrupt(number)

    # Open folders

    def _opendir(self, call: _Call) -> _Answer:
        self._next_folder += 1
        handle = self._next_folder
        self._folders[handle] = call.node, []
        return fuse.OPENED.pack(handle, 0, 0)

    def _readdir(self, call: _Call) -> _Answer:
        """List the folder from an index on; the list is that of the first call, until a program rewinds."""
        handle, offset, size, *_ = fuse.TRANSFER.unpack_from(call.body)
        node, entries = self._folders[handle]
        if not offset:
            entries = [(b".", stat.S_IFDIR, node), (b"..", stat.S_IFDIR, node)]
            entries += self._files.readdir(call.user, node)
            self._folders[handle] = node, entries
        pieces, length = [], 0
        for index in range(offset, len(entries)):
            name, mode, id_ = entries[index]
            padding = -len(name) % 8
            length += fuse.ENTRY.size + len(name) + padding
            if length > size:
                break
            pieces.append(fuse.ENTRY.pack(id_ or fuse.UNKNOWN, index + 1, len(name), stat.S_IFMT(mode) >> 12))
            pieces.append(name + bytes(padding))
        return b"".join(pieces)

    def _releasedir(self, call: _Call) -> _Answer:
        (handle,) = fuse.U64.unpack_from(call.body)
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
            return fuse.ATTRIBUTES_HEAD.pack(*fuse.split_seconds(of_status), 0) + fuse.pack_attributes(attributes)
        node = attributes.node if attributes is not None else 0
        if validity is not None and self._drops_names:
            of_name = max(of_name, validity.name_validity(folder, name, node))
        (seconds, ns), (status_seconds, status_ns) = fuse.split_seconds(of_name), fuse.split_seconds(of_status)
        head = fuse.ENTRY_HEAD.pack(node, 0, seconds, status_seconds, ns, status_ns)
        if attributes is None:
            return head + bytes(fuse.ATTRIBUTES.size)
        return head + fuse.pack_attributes(attributes) + tail


def _fit_value(value: bytes, size: int) -> _Answer:
    """An answer about extended attributes: the length if there is no room, else the value."""
    if not size:
        return fuse.U32x2.pack(len(value), 0)
    if len(value) > size:
        raise OSError(errno.ERANGE, os.strerror(errno.ERANGE))
    return value
