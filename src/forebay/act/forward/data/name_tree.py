"""The tree of names: adds, moves and removes nodes."""

import errno
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from forebay.act.forward.data import permissions
from forebay.act.forward.data.name_database import FRESH, PER_NAME, REMOVED, NameStore, Node
from forebay.act.forward.data.name_lookup import NamePlaces, Place, caller_of
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.open_files import OpenFileTable
from forebay.act.forward.data.permissions import LAYER, READ, SEARCH, WRITE, check_access, system_error
from forebay.act.forward.data.sole_leases import SoleLeases
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import (
    LEASED_ALONE,
    LEASED_NAMES,
    LEASED_STATUS,
    MOST_SERVERS,
    ROOT,
    SERVER_BITS,
    Caller,
    FileStatus,
    ForgetList,
    Payload,
    read_layout,
)
from forebay.act.forward.striping import settle_layout
from forebay.model.layout import Layout


class NameTree(NamePlaces):
    """The tree of names of a layer with `servers` servers, for the requests that `Names` answers."""

    def __init__(
        self,
        store: NameStore,
        servers: int,
        default: Layout,
        *,
        new_id: Callable[[], int] | None = None,
        clock: Callable[[], int] = time.time_ns,
        leases: SoleLeases | None = None,
        index: int = 0,
        objects: Objects | None = None,
        sharded: bool = False,
        known_at: float = 0.0,
    ) -> None:
        """`objects` are those of this server, which is number `index`.

        Until `known_at`, I/O nodes may have files open of which they will tell.

        If the layer is `sharded`, other servers keep the names of some folders.
        """
        super().__init__(store, index, leases or SoleLeases())
        self._servers, self._clock = servers, clock
        self._new_id = new_id or (partial(_new_id, index) if sharded or index else partial(secrets.randbits, 63))
        self._sharded, self._turns = sharded and servers > 1, count(1)
        self._arriving: dict[int, set[int]] = {}  # by folder: files that other servers say are open
        self.close, self.descriptors_to_sync = store.close, store.descriptors_to_sync
        self.needs_checkpoint, self.checkpoint = store.needs_checkpoint, store.checkpoint
        self.empty_log = store.empty_log
        self._open_files = OpenFileTable(known_at)
        self._objects = objects
        self._added: OrderedDict[int, None] = OrderedDict()  # files that mounts had created
        self._answers: OrderedDict[int, tuple[int, Payload | None]] = OrderedDict()  # by key, the latest last
        if not index and store.read(ROOT) is None:
            with store:
                store.add(self._new_node(ROOT, stat.S_IFDIR | 0o755, default, owner=(None, None)))

    def _lease(self, caller: Caller, node: Node, place: Place | None = None) -> int:
        """What the mount of the caller may keep from now on: the bits of `FileStatus.leased`."""
        if not caller.holder:
            return 0
        leased = 0
        if self._leases.grant(caller.holder, node.id, self._open_files.writers(node.id)):
            leased = LEASED_STATUS
        if place is not None and place.name and self._leases.grant(caller.holder, place.folder.id):
            leased |= LEASED_NAMES
            if node.links == 1 and not node.is_folder and self._enclose(caller, place.folder.id, node.id):
                leased |= LEASED_ALONE
        return leased

    def _enclose(self, caller: Caller, folder: int, file: int) -> bool:
        """Let a mount that has a folder alone have a file in it alone, if nobody else can be using it."""
        return not self._open_files.may_be_open(file) and self._leases.enclose(caller.holder, folder, file)

    def _status_of_new(self, caller: Caller, node: Node, place: Place, *, created: bool = False) -> FileStatus:
        status = status_of(node, created=created, leased=self._lease(caller, node, place))
        if status.leased & LEASED_NAMES:
            status.folder = self._status_of_folder(caller, place.folder.id)
        return status

    def _status_of_folder(self, caller: Caller, folder: int) -> FileStatus | None:
        """The status of a folder whose names have changed, if the mount of the caller may keep it."""
        if not self._leases.grant(caller.holder, folder):
            return None
        return status_of(self._by_id(folder), leased=LEASED_STATUS)

    def _add_size(self, status: FileStatus, node: Node, content: int = 0, *, counts: bool = False) -> FileStatus:
        """Complete the status of a file whose bytes are all in an object of this server.

        Add the bytes if there are at most `content` and the caller may read them; if this `counts`, as a read.
        """
        is_here = node.has_bytes and node.in_one_object and node.first_server % self._servers == self._index
        if is_here and self._objects is not None:
            status.add_objects(self._objects.size(node.id, content if status.access & READ else 0, counts))
        return status

    def _new_node(
        self,
        id_: int,
        mode: int,
        layout: Layout,
        *,
        owner: tuple[int | None, int | None],
        key: int = 0,
        parent: int = 0,
        device: int = 0,
        target: bytes | None = None,
    ) -> Node:
        now = self._clock()
        return Node(
            id_, mode, *owner, 2 if stat.S_ISDIR(mode) else 1, now, now, now, 0, 0,
            layout.count, layout.size, layout.start, key, parent, device, target,
        )  # fmt: skip

    def _created_before(self, node: Node, request: payloads.CreateRequest) -> Node:
        """The node, if an earlier attempt of the same request has created it; raises EEXIST otherwise."""
        if request.again and request.key and node.key == request.key:
            return node
        raise system_error(errno.EEXIST)

    def _create(
        self,
        place: Place,
        request: payloads.CreateRequest,
        mode: int,
        *,
        device: int = 0,
        target: bytes | None = None,
    ) -> Node:
        """Add a node and its name; without a layout in the request, it gets its folder's."""
        caller, folder = caller_of(request), place.folder
        check_access(caller, folder, WRITE | SEARCH)
        if folder.links < 1:
            raise system_error(errno.ENOENT)
        if folder.away == FRESH:
            self._settle_contents(folder, place.name, request, stat.S_ISDIR(mode))
        self._leases.claim(caller.holder, (folder.id,))
        mode, gid = permissions.creation_mode(caller, folder, mode)
        owner = (None, gid if mode & stat.S_ISGID else None) if caller is LAYER else (caller.uid, gid)
        wished = folder.layout if request.layout is None else read_layout(request.layout)
        parent = folder.id if stat.S_ISDIR(mode) else 0
        above, away = (folder.id, 0) if self._index else (parent, FRESH if parent and self._sharded else 0)
        self._store.claim(PER_NAME)
        with self._store:
            while True:
                id_ = self._new_id()
                layout = wished if parent else settle_layout(wished, self._servers, id_, request.full)
                node = self._new_node(
                    id_, mode, layout, owner=owner, key=request.key, parent=above, device=device, target=target
                )._replace(away=away)
                try:
                    self._store.add(node)
                    break
                except FileExistsError:
                    continue
            self._store.put_name(folder.id, place.name, node.id)
            if parent:
                self._store.set(folder.id, links=folder.links + 1)
            self._touch(folder.id, node.ctime)
        return node

    def _settle_contents(self, folder: Node, name: bytes, request: payloads.CreateRequest, is_folder: bool) -> None:
        """Decide where the names in a new folder are, as the first one comes: with folders among them, at server 0.

        Otherwise, the servers that the I/O node can reach and that have space take turns.
        """
        candidates = [i for i in range(self._servers) if i not in request.full and i not in request.missing] or [0]
        server = candidates[next(self._turns) % len(candidates)]
        if is_folder or self._store.has_names(folder.id):
            server = 0
        if server:
            self._leases.claim(0, ())  # leases of an earlier run, which are not known here
        self._store.change(lambda: self._store.set(folder.id, away=server))
        if server:
            raise self._refer(folder._replace(away=server), (name,))

    def _touch(self, folder: int, now: int) -> None:
        """Set the times of a folder whose names have changed."""
        self._store.set(folder, mtime=now, ctime=now, stamp=0)

    def _drop_link(self, node: Node, now: int) -> ForgetList:
        """Take one link from a node that is not a folder; the last one ends it, unless somebody has it open."""
        nothing = ForgetList(forget=[])
        if node.links > 1:
            self._store.set(node.id, links=node.links - 1, ctime=now)
            return nothing
        if not node.has_bytes:
            self._store.remove(node.id)
            return nothing
        is_open = self._open_files.may_be_open(node.id)
        self._store.set(node.id, links=0 if is_open else REMOVED, ctime=now)
        return nothing if is_open else ForgetList(forget=[(node.id, node.object_fields)])

    def _remove_link(self, folder: int, name: bytes, node: Node) -> ForgetList:
        """Remove a name of a node that is not a folder."""
        now = self._clock()
        self._store.remove_name(folder, name)
        self._touch(folder, now)
        return self._drop_link(node, now)

    def _mark_removed(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._store.set(node.id, links=REMOVED)

    def _forget_unnamed(self, closed: Iterable[int]) -> ForgetList:
        """Of files that nobody has open any more, those that have no name; soon after a start, this is unknown."""
        if not self._open_files.is_complete():
            return ForgetList(forget=[])
        nodes = [node for node in map(self._store.read, closed) if node is not None and node.links == 0]
        if nodes:
            self._store.change(lambda: self._mark_removed(nodes))
        return ForgetList(forget=[(node.id, node.object_fields) for node in nodes])

    def _check_ancestors(self, source: Place, target: Place, *, exchange: bool) -> None:
        """Raise OSError if a folder would become its own ancestor, or replace one of its ancestors."""
        for inner, outer, number in ((target, source, errno.EINVAL), (source, target, errno.ENOTEMPTY)):
            if outer.node is None or not outer.node.is_folder:
                continue
            folder: Node | None = inner.folder
            while folder is not None and folder.id != ROOT:
                if folder.id == outer.node.id:
                    raise system_error(errno.EINVAL if exchange else number)
                folder = self._store.read(folder.parent)

    def _check_replaceable(self, node: Node, target: Node) -> None:
        if node.is_folder:
            self._check_empty(target)
        elif target.is_folder:
            raise system_error(errno.EISDIR)

    def _check_empty(self, node: Node | None) -> Node:
        """Return the node, which must be an empty folder; raises OSError otherwise."""
        if node is None:
            raise system_error(errno.ENOENT)
        if not node.is_folder:
            raise system_error(errno.ENOTDIR)
        if self._store.has_names(node.id):
            raise system_error(errno.ENOTEMPTY)
        return node

    def _move(self, source: Place, target: Place) -> ForgetList:
        node, replaced = source.node, target.node
        assert node is not None
        forget = ForgetList(forget=[])
        now = self._clock()
        if replaced is not None and replaced.is_folder:
            self._store.remove(replaced.id)
            self._count_folders(target.folder.id, -1)
        elif replaced is not None:
            forget = self._drop_link(replaced, now)
        self._store.remove_name(source.folder.id, source.name)
        self._store.put_name(target.folder.id, target.name, node.id)
        self._settle(node, source.folder, target.folder, now)
        self._touch(source.folder.id, now)
        self._touch(target.folder.id, now)
        return forget

    def _exchange(self, source: Place, target: Place) -> ForgetList:
        assert source.node is not None
        assert target.node is not None
        now = self._clock()
        self._store.put_name(source.folder.id, source.name, target.node.id)
        self._store.put_name(target.folder.id, target.name, source.node.id)
        self._settle(source.node, source.folder, target.folder, now)
        self._settle(target.node, target.folder, source.folder, now)
        self._touch(source.folder.id, now)
        self._touch(target.folder.id, now)
        return ForgetList(forget=[])

    def _settle(self, node: Node, before: Node, after: Node, now: int) -> None:
        """Note that a node has moved from one folder to another, or to another name in the same one."""
        if node.is_folder and before.id != after.id:
            self._store.set(node.id, parent=after.id, ctime=now)
            self._count_folders(before.id, -1)
            self._count_folders(after.id, 1)
        else:
            self._store.set(node.id, ctime=now)

    def _count_folders(self, folder: int, change: int) -> None:
        node = self._by_id(folder)
        self._store.set(folder, links=node.links + change)


def _new_id(index: int) -> int:
    """A random id; that of a file shows on which server it has been created."""
    return secrets.randbits(63) & ~(MOST_SERVERS - 1 << SERVER_BITS) | index << SERVER_BITS


def status_of(node: Node, *, created: bool = False, access: int = READ | WRITE, leased: int = 0) -> FileStatus:
    return FileStatus(
        file=node.id, layout_fields=node.layout_fields, mode=node.mode, mtime=node.mtime, atime=node.atime,
        ctime=node.ctime, stamp=node.stamp, read_stamp=node.read_stamp, uid=node.uid, gid=node.gid,
        spread=not node.in_one_object,
        links=max(node.links, 0), device=node.device, target=node.target, created=created, access=access,
        size=len(node.target or b""), leased=leased,
    )  # fmt: skip
