"""The layer's files for a mounted file system.

Nothing is cached here: when a write returns, the data servers have the bytes, and a read asks the servers. An inode
number is the id of a file in the layer, so requests lead to the right file even if somebody renames a folder above it.
In front of another file system, folders have no ids: then this module keeps their paths.

A request names the user who makes it. Looking up a user's supplementary groups takes longer than most requests, so
they follow only if a server refuses a request without them.
"""

import errno
import itertools
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from forebay.act.filesystems.forebay_mount import LAYOUT, format_layout, parse_layout
from forebay.act.forward.clients.operations import Handle, Place
from forebay.act.forward.clients.sync import Client, File
from forebay.act.forward.mount.kernel import Attributes, Change, User
from forebay.act.forward.net.payloads import ROOT, AttributesRequest, Caller, FileStatus, Space

_SET_IDS = stat.S_ISUID | stat.S_ISGID
_NOREPLACE, _EXCHANGE = 1, 2
_LAYOUT = LAYOUT.encode()
_REFUSALS = (errno.EACCES, errno.EPERM)
T = TypeVar("T")


class LayerFiles:
    """Files of the layer, through one client; those without a recorded owner belong to the user who mounts."""

    def __init__(self, client: Client, find_groups: Callable[[int], tuple[int, ...]] | None = None) -> None:
        """`find_groups` returns the supplementary groups of a process."""
        self._client = client
        self._find_groups = find_groups or groups_of
        self._numbers = itertools.count(1)
        self._files: dict[int, tuple[int, File]] = {}  # by handle: node and file
        self._open: dict[int, File] = {}  # the file that was opened last, by node
        self._with_set_ids: set[int] = set()
        self._owner = os.getuid(), os.getgid()
        self._paths: _Paths | None = _Paths() if client.stat("/").by_path else None

    # Names

    def lookup(self, user: User, folder: int, name: bytes) -> Attributes:
        place = self._place(folder, name)
        return self._enter(folder, name, self._as(user, lambda caller: self._client.stat(place, caller=caller)))

    def forget(self, node: int, lookups: int) -> None:
        if self._paths is not None:
            self._paths.forget(node, lookups)

    def symlink(self, user: User, folder: int, name: bytes, target: bytes) -> Attributes:
        place = self._place(folder, name)
        made = self._as(user, lambda caller: self._client.symlink(target, place, caller=caller))
        return self._enter(folder, name, made)

    def mknod(self, user: User, folder: int, name: bytes, mode: int, device: int) -> Attributes:
        place = self._place(folder, name)
        made = self._as(user, lambda caller: self._client.mknod(place, mode, device, caller=caller), mode)
        return self._enter(folder, name, made)

    def mkdir(self, user: User, folder: int, name: bytes, mode: int) -> Attributes:
        place = self._place(folder, name)
        made = self._as(user, lambda caller: self._client.mkdir(place, mode, caller=caller))
        return self._enter(folder, name, made)

    def unlink(self, user: User, folder: int, name: bytes) -> None:
        self._as(user, lambda caller: self._client.unlink(self._place(folder, name), caller=caller))

    def rmdir(self, user: User, folder: int, name: bytes) -> None:
        self._as(user, lambda caller: self._client.rmdir(self._place(folder, name), caller=caller))

    def rename(self, user: User, folder: int, name: bytes, into: int, new: bytes, flags: int) -> None:
        if flags & ~(_NOREPLACE | _EXCHANGE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        place, to = self._place(folder, name), self._place(into, new)
        exchange, keep = bool(flags & _EXCHANGE), bool(flags & _NOREPLACE)
        self._as(user, lambda caller: self._client.rename(place, to, exchange=exchange, keep=keep, caller=caller))
        if self._paths is not None:
            self._paths.rename((folder, name), (into, new))

    def link(self, user: User, node: int, folder: int, name: bytes) -> Attributes:
        place, to = self._place(node), self._place(folder, name)
        return self._enter(folder, name, self._as(user, lambda caller: self._client.link(place, to, caller=caller)))

    def readdir(self, user: User, node: int) -> Sequence[tuple[bytes, int, int]]:
        entries = self._as(user, lambda caller: self._client.readdir(self._place(node), caller=caller))
        return [(os.fsencode(entry.name), entry.mode, entry.file) for entry in entries]

    # Attributes

    def getattr(self, user: User, node: int) -> Attributes:
        return self._attributes(
            node, self._as(user, lambda caller: self._client.stat(self._where(node), caller=caller))
        )

    def setattr(self, user: User, node: int, change: Change) -> Attributes:
        if change.size is not None:
            self._truncate(user, node, change.size, change)
        rest = change._replace(size=None, handle=None, clear=change.clear and change.size is None)
        if change.size is not None and rest == Change():
            return self.getattr(user, node)

        def set_attributes(caller: Caller) -> FileStatus:
            content = AttributesRequest(
                mode=rest.mode, uid=rest.uid, gid=rest.gid, atime=rest.atime, mtime=rest.mtime,
                atime_now=rest.atime_now, mtime_now=rest.mtime_now, clear=rest.clear, caller=caller,
            )  # fmt: skip
            return self._client.set_attributes(self._where(node), content)

        return self._attributes(node, self._as(user, set_attributes, rest.mode or 0))

    def readlink(self, user: User, node: int) -> bytes:
        target = self._as(user, lambda caller: self._client.stat(self._place(node), caller=caller)).target
        if target is None:
            raise OSError(errno.EINVAL, "not a symbolic link")
        return target

    def getxattr(self, user: User, node: int, name: bytes) -> bytes:
        place = self._place(node)
        if name == _LAYOUT:
            return format_layout(self._client.layout(place)).encode()
        if not name.startswith(b"user."):  # the kernel asks for some of these for each write or execution
            raise OSError(errno.ENODATA if name.startswith(b"security.") else errno.EOPNOTSUPP, "no such attribute")
        return self._as(user, lambda caller: self._client.getxattr(place, name, caller=caller))

    def setxattr(self, user: User, node: int, name: bytes, value: bytes, flags: int) -> None:
        place = self._place(node)
        if name != _LAYOUT:
            self._as(user, lambda caller: self._client.setxattr(place, name, value, flags, caller=caller))
            return
        try:
            layout = parse_layout(value.decode("utf-8", "replace"))
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error)) from None
        self._as(user, lambda caller: self._client.set_layout(place, layout, caller=caller))

    def listxattr(self, user: User, node: int) -> Sequence[bytes]:
        """All names but the layout's: programs must not copy it with other attributes."""
        return self._as(user, lambda caller: self._client.listxattr(self._place(node), caller=caller))

    def removexattr(self, user: User, node: int, name: bytes) -> None:
        if name == _LAYOUT:
            raise OSError(errno.EPERM, "the layout cannot be removed")
        self._as(user, lambda caller: self._client.setxattr(self._place(node), name, None, caller=caller))

    def statfs(self) -> Space:
        return self._client.statfs()

    # Open files

    def create(self, user: User, folder: int, name: bytes, flags: int, mode: int) -> tuple[Attributes, int]:
        place, flags = self._place(folder, name), flags | os.O_CREAT
        file, status = self._as(user, lambda caller: self._client.open_status(place, flags, mode, caller=caller), mode)
        if not status.created:
            status = self._client.stat(file.handle)
        attributes = self._enter(folder, name, status)
        return attributes, self._add(attributes.node, file)

    def open(self, user: User, node: int, flags: int) -> int:
        flags &= ~(os.O_CREAT | os.O_EXCL)
        where = self._place(node)
        file, status = self._as(user, lambda caller: self._client.open_status(where, flags, caller=caller))
        self._note_set_ids(node, status.mode)
        return self._add(node, file)

    def read(self, handle: int, room: memoryview, offset: int) -> int:
        return self._files[handle][1].preadinto(room, offset)

    def write(self, node: int, handle: int, data: memoryview, offset: int, clear: bool) -> int:
        if clear and node in self._with_set_ids:
            status = self._client.set_attributes(self._where(node), AttributesRequest(clear=True, mtime_now=True))
            self._note_set_ids(node, status.mode)
        return self._files[handle][1].pwrite(data, offset)

    def allocate(self, handle: int, offset: int, length: int, mode: int) -> None:
        self._files[handle][1].allocate(offset, length, mode)

    def sync(self, handle: int) -> None:
        self._files[handle][1].fsync()

    def sync_folder(self, node: int) -> None:  # noqa: ARG002  (the server syncs all names at once)
        self._client.sync_names()

    def release(self, handle: int) -> None:
        node, file = self._files.pop(handle)
        if self._open.get(node) is file:
            del self._open[node]
        file.close()

    # Steps

    def _as(self, user: User, work: Callable[[Caller], T], mode: int = 0) -> T:
        """Do `work` for a user; if it is refused, again with the user's supplementary groups.

        With S_ISGID in the `mode`, the groups matter at once: the server clears it for others than members.
        """
        if not mode & stat.S_ISGID or not user.uid:
            try:
                return work(Caller(user.uid, user.gid))
            except OSError as error:
                if error.errno not in _REFUSALS or not user.uid:
                    raise
                refusal = error
        else:
            refusal = None
        groups = self._find_groups(user.pid)
        if refusal is not None and not groups:
            raise refusal
        return work(Caller(user.uid, user.gid, groups))

    def _truncate(self, user: User, node: int, size: int, change: Change) -> None:
        known = self._files.get(change.handle or 0)
        if known is not None:
            known[1].truncate(size, clear=change.clear)
            return
        where = self._place(node)
        with self._as(user, lambda caller: self._client.open_status(where, os.O_WRONLY, caller=caller))[0] as file:
            file.truncate(size, clear=change.clear)

    def _place(self, node: int, name: bytes = b"") -> Place:
        return Place(node, name) if self._paths is None else Place(ROOT, self._paths.path(node, name))

    def _where(self, node: int) -> Place | Handle:
        """An open file has no path any more if it was removed."""
        if self._paths is not None and node in self._open:
            return self._open[node].handle
        return self._place(node)

    def _add(self, node: int, file: File) -> int:
        number = next(self._numbers)
        self._files[number] = node, file
        self._open[node] = file
        return number

    def _enter(self, folder: int, name: bytes, status: FileStatus) -> Attributes:
        """Attributes of a file that the kernel now knows by this name."""
        node = status.file or 0
        if self._paths is not None:
            self._paths.add(node, folder, name)
        return self._attributes(node, status)

    def _attributes(self, node: int, status: FileStatus) -> Attributes:
        self._note_set_ids(node, status.mode)
        uid, gid = status.uid, status.gid
        return Attributes(
            node, status.mode, status.size, status.allocated, status.atime, status.mtime, status.ctime, status.links,
            self._owner[0] if uid is None else uid, self._owner[1] if gid is None else gid, status.device,
        )  # fmt: skip

    def _note_set_ids(self, node: int, mode: int) -> None:
        if mode & _SET_IDS and stat.S_ISREG(mode):
            self._with_set_ids.add(node)
        elif node in self._with_set_ids:
            self._with_set_ids.discard(node)


class _Paths:
    """The paths of the nodes that the kernel knows."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[int, bytes]] = {}  # by node: folder and name
        self._lookups: dict[int, int] = {}

    def path(self, node: int, name: bytes = b"") -> bytes:
        names = [name] if name else []
        while node != ROOT:
            try:
                node, above = self._names[node]
            except KeyError:
                raise OSError(errno.ESTALE, "the file has no known path") from None
            names.append(above)
        return b"/".join(reversed(names))

    def add(self, node: int, folder: int, name: bytes) -> None:
        self._names[node] = folder, name
        self._lookups[node] = self._lookups.get(node, 0) + 1

    def forget(self, node: int, lookups: int) -> None:
        if node in self._lookups:
            self._lookups[node] -= lookups
            if self._lookups[node] <= 0:
                del self._lookups[node]
                self._names.pop(node, None)

    def rename(self, old: tuple[int, bytes], new: tuple[int, bytes]) -> None:
        for node, place in list(self._names.items()):
            if place == old:
                self._names[node] = new
            elif place == new:  # replaced, or exchanged: the next lookup tells
                del self._names[node]


def groups_of(pid: int) -> tuple[int, ...]:
    """The supplementary groups of a process; () if it has ended.

    >>> groups_of(os.getpid()) == tuple(sorted(os.getgroups()))
    True
    """
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Groups:"):
                return tuple(map(int, line.split()[1:]))
    return ()
