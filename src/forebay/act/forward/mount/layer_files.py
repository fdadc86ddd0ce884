"""The layer's files for a mounted file system.

When a write returns, the data servers have the bytes, except for new small files in folders that the mount has alone
(creations.py). What the mount has leases on, it keeps (lease_cache.py): it answers from that, and opens such files to
read without asking. The I/O node hears of these opens only if bytes are missing, or before the lease ends. An inode
number is the id of a file in the layer, so requests lead to the right file even if somebody renames a folder above it.
In front of another file system, folders have no ids: then this module keeps their paths.
"""

import errno
import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from forebay.act.forward.clients.requests import Handle, Place
from forebay.act.forward.clients.sync import Client, File
from forebay.act.forward.mount.callers import Callers
from forebay.act.forward.mount.creations import Creations
from forebay.act.forward.mount.extended_attributes import ExtendedAttributes
from forebay.act.forward.mount.file_system import Attributes, Change, FileLock, NameAbsent, User
from forebay.act.forward.mount.layer_locks import LayerLocks
from forebay.act.forward.mount.lease_cache import ABSENT, SMALL, Ticket
from forebay.act.forward.mount.lookahead import Lookahead
from forebay.act.forward.mount.node_paths import NodePaths
from forebay.act.forward.mount.removals import Removals
from forebay.act.forward.mount.reports import Reports
from forebay.act.forward.mount.sole_cache import SoleCache
from forebay.act.forward.mount.sole_folders import SoleFolders
from forebay.act.forward.net.payloads import LEASED_STATUS, ROOT, AttributesRequest, Caller, FileStatus, Space
from forebay.model.layout import Layout

_SET_IDS = stat.S_ISUID | stat.S_ISGID
_NOREPLACE, _EXCHANGE = 1, 2
_EXECUTE = 0x20
_MARGIN = 2.0
"""Seconds before the end of a lease at which the layer learns of files that are open here."""


class LayerFiles:
    """Files of the layer, through one client; those without a recorded owner belong to the user who mounts."""

    def __init__(
        self,
        client: Client,
        find_groups: Callable[[int], tuple[int, ...]] | None = None,
        keeper: Client | None = None,
    ) -> None:
        """`find_groups` returns the supplementary groups of a process; with leases, `keeper` has a connection apart."""
        self._client, self._keeper = client, keeper or client
        self._as = Callers(find_groups).run
        self._numbers = itertools.count(1)
        self._files: dict[int, tuple[int, File]] = {}  # by handle: node and file
        self._open: dict[int, File] = {}  # the file that was opened last, by node
        self._with_set_ids: set[int] = set()
        self._owner = os.getuid(), os.getgid()
        self.cache, self._lookahead = SoleCache(), Lookahead()
        self._users: Counter[int] = Counter()  # of each open file
        self.reports = Reports(self.cache, self._keeper, self._users.__contains__)
        folders = SoleFolders(self.cache, self._keeper, self.reports)
        self._removals = Removals(self.cache, folders, self.reports, self._users.__contains__)
        self._creations = Creations(self.cache, folders, self.reports, self._add_unknown)
        self._unknown: dict[int, File] = {}  # open files that the layer may not know of, by node
        self._known: dict[int, File] = {}  # those that it knows by now
        attributes = ExtendedAttributes(client, self.cache, self._place, self._as)
        self.getxattr, self.setxattr = attributes.getxattr, attributes.setxattr
        self.listxattr, self.removexattr = attributes.listxattr, attributes.removexattr
        self._paths: NodePaths | None = NodePaths() if client.stat("/").by_path else None
        self._locks = LayerLocks(client)
        self._with_lost_locks: set[int] = set()  # handles
        client.locks.on_loss = self._note_lost_locks

    @property
    def shares_locks(self) -> bool:
        """In front of another file system, locks hold among the processes of one mount."""
        return self._paths is None

    # Names

    def lookup(self, user: User, folder: int, name: bytes) -> Attributes:
        node = self.cache.find(folder, name)
        if node == ABSENT:
            raise NameAbsent
        known = self.cache.attributes(node) if node is not None else None
        if known is not None:
            return known
        if self.reports.is_removed(folder, name):
            raise NameAbsent
        if self.reports.is_new(folder, name):
            self.reports.settle(folder)
        place, ticket = self._address(folder, name), self.cache.begin()
        content = SMALL if self._lookahead.expects_read(folder) else 0
        try:
            status = self._as(user, lambda caller: self._client.stat(place, content=content, caller=caller))
        except FileNotFoundError:
            self.cache.keep_absence(ticket, folder, name)
            raise NameAbsent from None
        attributes = self._enter(folder, name, status, ticket)
        if status.has_bytes and status.leased:
            if status.content is not None:
                self.cache.keep_data(ticket, attributes.node, status.content)
            self._lookahead.note_lookup(folder, attributes.node, with_bytes=status.content is not None)
        return attributes

    def forget(self, node: int, lookups: int) -> None:
        if self._paths is not None:
            self._paths.forget(node, lookups)

    def symlink(self, user: User, folder: int, name: bytes, target: bytes) -> Attributes:
        place, ticket = self._place(folder, name), self.cache.begin_name(folder, name)
        made = self._as(user, lambda caller: self._client.symlink(target, place, caller=caller))
        return self._enter_new(folder, name, made, ticket)

    def mknod(self, user: User, folder: int, name: bytes, mode: int, device: int) -> Attributes:
        place, ticket = self._place(folder, name), self.cache.begin_name(folder, name)
        made = self._as(user, lambda caller: self._client.mknod(place, mode, device, caller=caller), mode)
        return self._enter_new(folder, name, made, ticket)

    def mkdir(self, user: User, folder: int, name: bytes, mode: int) -> Attributes:
        place, ticket = self._place(folder, name), self.cache.begin_name(folder, name)
        made = self._as(user, lambda caller: self._client.mkdir(place, mode, caller=caller))
        attributes = self._enter_new(folder, name, made, ticket)
        if made.leased & LEASED_STATUS:
            self.cache.keep_empty(ticket, attributes.node)
        return attributes

    def unlink(self, user: User, folder: int, name: bytes) -> None:
        if self._removals.remove(user, folder, name):
            return
        node, ticket = self.cache.find(folder, name), self.cache.begin_name(folder, name)
        left = self._as(user, lambda caller: self._client.unlink(self._place(folder, name), caller=caller))
        self._end_removal(ticket, folder, name, node, left)

    def rmdir(self, user: User, folder: int, name: bytes) -> None:
        self._settle_inside(folder, name)
        node, ticket = self.cache.find(folder, name), self.cache.begin_name(folder, name)
        left = self._as(user, lambda caller: self._client.rmdir(self._place(folder, name), caller=caller))
        self._end_removal(ticket, folder, name, node, left)

    def rename(self, user: User, folder: int, name: bytes, into: int, new: bytes, flags: int) -> None:
        if flags & ~(_NOREPLACE | _EXCHANGE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        place, to = self._place(folder, name), self._place(into, new)
        self._settle_inside(into, new)
        exchange, keep = bool(flags & _EXCHANGE), bool(flags & _NOREPLACE)
        nodes = self.cache.find(folder, name), self.cache.find(into, new)
        self.cache.begin_name(folder, name)
        self.cache.begin_name(into, new)
        self._as(user, lambda caller: self._client.rename(place, to, exchange=exchange, keep=keep, caller=caller))
        self.cache.begin_name(folder, name)
        self.cache.begin_name(into, new)
        for node in nodes:
            if node:
                self.cache.note_changed(node)
        if self._paths is not None:
            self._paths.rename((folder, name), (into, new))

    def link(self, user: User, node: int, folder: int, name: bytes) -> Attributes:
        place, to = self._place(node), self._place(folder, name)
        ticket = self.cache.begin_name(folder, name)
        self.cache.note_changed(node)
        status = self._as(user, lambda caller: self._client.link(place, to, caller=caller))
        self.cache.note_changed(node)
        return self._enter_new(folder, name, status, ticket)

    def readdir(self, user: User, node: int) -> Sequence[tuple[bytes, int, int]]:
        entries = self._as(user, lambda caller: self._client.readdir(self._place(node), caller=caller))
        return [(os.fsencode(entry.name), entry.mode, entry.file) for entry in entries]

    # Attributes

    def getattr(self, user: User, node: int) -> Attributes:
        known = self.cache.attributes(node)
        if known is not None:
            return known
        ticket = self.cache.begin()
        status = self._as(user, lambda caller: self._client.stat(self._where(node), caller=caller))
        return self._attributes(node, status, ticket)

    def setattr(self, user: User, node: int, change: Change) -> Attributes:
        ticket = self.cache.change(node, keep_names=True)
        if change.size is not None:
            self._truncate(user, node, change.size, change)
            ticket = self.cache.change(node)
        rest = change._replace(size=None, handle=None, clear=change.clear and change.size is None)
        if change.size is not None and rest == Change():
            return self.getattr(user, node)

        def set_attributes(caller: Caller) -> FileStatus:
            content = AttributesRequest(
                mode=rest.mode, uid=rest.uid, gid=rest.gid, atime=rest.atime, mtime=rest.mtime,
                atime_now=rest.atime_now, mtime_now=rest.mtime_now, clear=rest.clear, caller=caller,
            )  # fmt: skip
            return self._client.set_attributes(self._where(node), content)

        attributes = self._attributes(node, self._as(user, set_attributes, rest.mode or 0), ticket)
        self.cache.note_changed(node, keep_attributes=True)
        return attributes

    def readlink(self, user: User, node: int) -> bytes:
        target = self._as(user, lambda caller: self._client.stat(self._place(node), caller=caller)).target
        if target is None:
            raise OSError(errno.EINVAL, "not a symbolic link")
        return target

    def statfs(self) -> Space:
        self.reports.settle_all()
        return self._client.statfs()

    # Open files

    def create(self, user: User, folder: int, name: bytes, flags: int, mode: int) -> tuple[Attributes, int]:
        created = self._creations.create(user, folder, name, flags, mode)
        if created is not None:
            return created
        place, flags = self._place(folder, name), flags | os.O_CREAT
        ticket = self.cache.begin_name(folder, name)
        file, status = self._as(user, lambda caller: self._client.open_status(place, flags, mode, caller=caller), mode)
        if not status.created:
            ticket = self.cache.change(status.file or 0)
            status = self._client.stat(file.handle)
        attributes = self._enter_new(folder, name, status, ticket)
        return attributes, self._add(attributes.node, file)

    def open(self, user: User, node: int, flags: int) -> int:
        flags &= ~(os.O_CREAT | os.O_EXCL)
        if not flags & (os.O_ACCMODE | os.O_TRUNC | _EXECUTE):
            with self.cache.lock:
                layout = self.cache.layout(node, _MARGIN)
                if layout is not None:
                    return self._add_unknown(node, layout, 1)
        where = self._place(node)
        file, status = self._as(user, lambda caller: self._client.open_status(where, flags, caller=caller))
        if flags & os.O_TRUNC:
            self.cache.change(node)
        self._note_set_ids(node, status.mode)
        return self._add(node, file)

    def read(self, handle: int, room: memoryview, offset: int) -> int:
        node, file = self._check_locks(handle)
        known = self.cache.data(node)
        if known is None:
            self.reports.settle(node)
        self._lookahead.note_read(node)
        ticket = self.cache.begin()
        if known is None and node in self._unknown:
            known = self._client.attach_and_read(file.handle, SMALL)
            self._unknown.pop(node, None)
            if known is not None:
                self.cache.keep_data(ticket, node, known)
        if known is not None:
            part = known[offset : offset + len(room)]
            room[: len(part)] = part
            return len(part)
        count = file.preadinto(room, offset)
        if not offset and count <= SMALL:
            self.cache.keep_data(ticket, node, bytes(room[:count]))
        return count

    def write(self, node: int, handle: int, data: memoryview, offset: int, clear: bool) -> int:
        if self._creations.write(node, data, offset):
            return len(data)
        file = self._file(handle)
        writing, status = self.cache.begin_write(node), None
        try:
            if self._clear_set_ids(node, clear):
                writing = writing._replace(attributes=None)
            if writing.attributes is None:
                return file.pwrite(data, offset)
            status = file.write_small(data, offset)
            return len(data)
        finally:
            self.cache.end_write(node, writing, data, offset, status)

    def append(self, node: int, handle: int, data: memoryview, clear: bool) -> int:
        """Write at the end of the file, wherever it is when other mounts append to it."""
        file = self._file(handle)
        writing = self.cache.begin_write(node)
        try:
            self._clear_set_ids(node, clear)
            if self._paths is None:
                file.append(data)
            else:
                file.append_at_end(data)
            return len(data)
        finally:
            self.cache.end_write(node, writing, data, 0, None)

    def allocate(self, handle: int, offset: int, length: int, mode: int) -> None:
        file = self._file(handle)
        try:
            file.allocate(offset, length, mode)
        finally:
            self.cache.change(self._files[handle][0])

    def sync(self, handle: int) -> None:
        self.reports.sync()
        self._file(handle).fsync()

    def sync_folder(self, node: int) -> None:  # noqa: ARG002  (the server syncs all names at once)
        self.reports.sync()
        self._client.sync_names()

    def flush(self, handle: int, owner: int) -> None:
        if self._paths is None:
            self._locks.close(self._files[handle][1], owner, flock=False)

    def release(self, handle: int, flock_owner: int | None = None) -> None:
        node, file = self._files[handle]
        if flock_owner is not None:
            self._locks.close(file, flock_owner, flock=True)
        del self._files[handle]
        self._with_lost_locks.discard(handle)
        if self._open.get(node) is file:
            del self._open[node]
        self._users[node] -= 1
        if not self._users[node]:
            del self._users[node]
            self._unknown.pop(node, None)
            known = self._known.pop(node, None)
            if known is not None:
                known.close()
        file.close()

    # Locks

    def find_lock(self, handle: int, wanted: FileLock) -> FileLock | None:
        return self._locks.find(self._file(handle), wanted)

    def set_lock(self, handle: int, wanted: FileLock) -> bool:
        return self._locks.set(self._file(handle), wanted)

    def wait_for_lock(self, handle: int, wanted: FileLock, number: int, done: Callable[[int], None]) -> None:
        self._locks.wait(self._file(handle), wanted, number, done)

    def interrupt(self, number: int) -> bool:
        return self._locks.interrupt(number)

    def _note_lost_locks(self, files: set[int]) -> None:
        """Programs may believe that they still have locks on these files: fail what they do until they close them."""
        self._with_lost_locks.update(handle for handle, (_, file) in list(self._files.items()) if file.id in files)

    # Leases

    def give_up(self, nodes: Sequence[int]) -> None:
        """Drop what is kept of these nodes; the layer learns first what has changed, and what is open here."""
        self.cache.share(nodes)
        for node in nodes:
            self.reports.settle(node)
        self.cache.end(nodes)
        for node in nodes:
            self._make_known(node)

    def give_up_all(self) -> list[int]:
        """Drop all that is kept, and return the nodes; the layer learns first what has changed."""
        nodes = self.reports.end_leases()
        for node in tuple(self._unknown):
            self._make_known(node)
        return nodes

    def keep_house(self) -> None:
        """Tell I/O nodes which files are closed, and which are open though the lease ends soon; call this often."""
        self._client.close_left_files()
        reads = self._lookahead.take_reads()
        if reads:
            with suppress(OSError):  # only access times depend on it
                self._keeper.note_reads(reads)
        for node in tuple(self._unknown):
            if self.cache.layout(node, _MARGIN) is None:
                self._make_known(node)

    def _make_known(self, node: int) -> None:
        """Let the layer know that a file is open here, on a connection that waits for no other request."""
        self.reports.settle(node)
        file = self._unknown.pop(node, None)
        if file is not None:
            with suppress(OSError):  # the next read reports the error
                self._keeper.attach(file.handle)
                self._known[node] = self._keeper.use_handle(file.handle)

    def _end_removal(self, ticket: Ticket, folder: int, name: bytes, node: int | None, left: FileStatus | None) -> None:
        self.cache.keep_absence(ticket, folder, name)
        self.cache.end_change(ticket, folder, name, None if left is None else self._as_attributes(folder, left))
        if node:
            self.cache.note_changed(node)

    # Steps

    def _file(self, handle: int) -> File:
        """An open file, once the layer knows it; raises OSError if the locks on it have been lost."""
        node, file = self._check_locks(handle)
        self.reports.settle(node)
        return file

    def _check_locks(self, handle: int) -> tuple[int, File]:
        """The node and the file of a handle, unless the locks on it have been lost."""
        self._client.locks.check()
        if self._with_lost_locks and handle in self._with_lost_locks:
            raise OSError(errno.EIO, "the locks on this file were lost; open it again")
        return self._files[handle]

    def _clear_set_ids(self, node: int, clear: bool) -> bool:
        """Clear set-id bits before a write, if the kernel asks for it; return whether there were any."""
        if not clear or node not in self._with_set_ids:
            return False
        changed = self._client.set_attributes(self._where(node), AttributesRequest(clear=True, mtime_now=True))
        self._note_set_ids(node, changed.mode)
        return True

    def _truncate(self, user: User, node: int, size: int, change: Change) -> None:
        known = self._files.get(change.handle or 0)
        if known is not None:
            self._file(change.handle or 0).truncate(size, clear=change.clear)
            return
        where = self._place(node)
        with self._as(user, lambda caller: self._client.open_status(where, os.O_WRONLY, caller=caller))[0] as file:
            file.truncate(size, clear=change.clear)

    def _settle_inside(self, folder: int, name: bytes) -> None:
        """Let the layer know what has changed in the folder with this name, which must be empty for a request."""
        inside = self.cache.find(folder, name)
        if inside is None:
            self.reports.settle_all()
        elif inside:
            self.cache.share((inside,))
            self.reports.settle(inside)

    def _place(self, node: int, name: bytes = b"") -> Place:
        """Where a request finds a node, or a name in it, once the layer knows what has changed there."""
        self.reports.settle(node)
        return self._address(node, name)

    def _address(self, node: int, name: bytes) -> Place:
        return Place(node, name) if self._paths is None else Place(ROOT, self._paths.path(node, name))

    def _where(self, node: int) -> Place | Handle:
        """An open file has no path any more if it was removed."""
        if self._paths is not None and node in self._open:
            return self._open[node].handle
        return self._place(node)

    def _add(self, node: int, file: File) -> int:
        number = next(self._numbers)
        self._files[number] = node, file
        self._users[node] += 1
        self._open[node] = file
        return number

    def _add_unknown(self, node: int, layout: Layout, reads: int) -> int:
        """Open a file that the mount has a lease on, without the layer; callers have the lock of the cache."""
        file = self._client.use_handle(Handle(file=node, layout=layout, reads=reads))
        if not reads or node not in self._unknown:
            self._unknown[node] = file
        return self._add(node, file)

    def _enter_new(self, folder: int, name: bytes, status: FileStatus, ticket: Ticket) -> Attributes:
        """Attributes of a file that this mount has given this name."""
        attributes = self._enter(folder, name, status, ticket)
        above = None if status.folder is None else self._as_attributes(folder, status.folder)
        self.cache.end_change(ticket, folder, name, above)
        return attributes

    def _enter(self, folder: int, name: bytes, status: FileStatus, ticket: Ticket) -> Attributes:
        """Attributes of a file that the kernel now knows by this name."""
        node = status.file or 0
        if self._paths is not None:
            self._paths.add(node, folder, name)
        return self._attributes(node, status, ticket, folder, name)

    def _attributes(
        self, node: int, status: FileStatus, ticket: Ticket, folder: int = 0, name: bytes = b""
    ) -> Attributes:
        self._note_set_ids(node, status.mode)
        attributes = self._as_attributes(node, status)
        self.cache.keep(ticket, status, attributes, folder, name)
        return attributes

    def _as_attributes(self, node: int, status: FileStatus) -> Attributes:
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
