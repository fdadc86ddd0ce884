"""The names of files: answers the requests that I/O nodes send to the server of the names.

Each request is checked against the owner and the mode of what it concerns, for the user whom the I/O node names.
"""

import errno
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from copy import copy
from typing import NamedTuple

from forebay.act.forward.data import permissions
from forebay.act.forward.data.leases import Leases
from forebay.act.forward.data.name_store import REMOVED, NameStore, Node
from forebay.act.forward.data.open_files import OpenFileTable
from forebay.act.forward.data.paths import split_path
from forebay.act.forward.data.permissions import LAYER, READ, SEARCH, WRITE, check_access, system_error
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import (
    LEASED_NAMES,
    LEASED_STATUS,
    ROOT,
    AttributeValues,
    Caller,
    FileStatus,
    ForgetList,
    Payload,
    layout_fields,
    read_layout,
)
from forebay.act.forward.net.wire import Kind, Message
from forebay.act.forward.striping import settle_layout
from forebay.model.layout import Layout

_PAGE = 32768
_MOST_REMEMBERED = 1 << 14
_MOST_LINKS = 65000
_MOST_ATTRIBUTE_BYTES = 64 << 10
_USER = b"user."
_HAVE_ATTRIBUTES = (stat.S_IFREG, stat.S_IFDIR)


class _Place(NamedTuple):
    """Where a request leads: a folder, a name in it, and what has this name. Without a name, the node itself."""

    folder: Node
    name: bytes
    node: Node | None


class Names:
    """The tree of names, for a layer with `servers` servers; the root has the layout `default`.

    The method `do_open` answers messages of Kind.OPEN, and so on. All errors are OSErrors with the errno that a program
    should see. A request with `again` may have been carried out before; then it succeeds if its result already exists.
    A request whose change must wait for the end of leases raises Conflict; it has changed nothing, and can be repeated.
    """

    def __init__(
        self,
        store: NameStore,
        servers: int,
        default: Layout,
        *,
        new_id: Callable[[], int] = lambda: secrets.randbits(63),
        clock: Callable[[], int] = time.time_ns,
        leases: Leases | None = None,
    ) -> None:
        self._store, self._servers, self._new_id, self._clock = store, servers, new_id, clock
        self.close, self.descriptors_to_sync = store.close, store.descriptors_to_sync
        self.needs_checkpoint, self.checkpoint = store.needs_checkpoint, store.checkpoint
        self._open_files = OpenFileTable()
        self._leases = leases or Leases()
        self._answers: OrderedDict[int, tuple[int, Payload | None]] = OrderedDict()
        if store.read(ROOT) is None:
            with store:
                store.add(self._new_node(ROOT, stat.S_IFDIR | 0o755, default, owner=(None, None)))

    def answer(self, message: Message, node: str = "") -> Payload | None:
        """Carry out a request of an I/O node; if its key is known, repeat the first answer instead.

        A restart forgets the answers; then `again` helps.
        """
        request = payloads.read_request(message.kind, message.payload)
        key = request.key if isinstance(request, payloads.OnceRequest) else 0
        known = self._answers.get(key) if key else None
        if known is not None and known[0] == message.kind:
            answer = _without_lease(known[1])
        else:
            answer = getattr(self, f"do_{Kind(message.kind).name.lower()}")(message, request)
            if key:
                self._answers[key] = message.kind, answer
                if len(self._answers) > _MOST_REMEMBERED:
                    self._answers.popitem(last=False)
        if message.kind in (Kind.OPEN, Kind.ATTACH) and isinstance(answer, FileStatus):
            caller = request.caller if isinstance(request, payloads.PathRequest) else None
            self._open_files.open(node, answer.file or 0, _writer(message, request, caller or LAYER))
        return answer

    # Which files are open

    def close_files(self, node: str, files: Iterable[tuple[int, int]]) -> ForgetList:
        """Note which opens of an I/O node have ended; return the files whose objects nobody needs any more."""
        return self._forget_unnamed(self._open_files.close(node, files))

    def replace_files(self, node: str, files: Iterable[tuple[int, int]]) -> ForgetList:
        """Note all files that an I/O node has open, as `close_files`."""
        return self._forget_unnamed(self._open_files.replace(node, files))

    # Files

    def do_open(self, message: Message, request: payloads.OpenRequest) -> FileStatus:
        place = self._locate(request)
        caller, node = _caller(request), place.node
        if node is None:
            if not request.create:
                raise system_error(errno.ENOENT)
            node = self._create(place, request, stat.S_IFREG | request.mode & 0o7777)
            return _status(node, created=True, leased=self._lease(caller, node, place))
        if request.create and request.exclusive:
            if request.again and request.key and node.key == request.key:
                return _status(node, created=True)
            raise system_error(errno.EEXIST)
        if node.is_folder:
            raise system_error(errno.EISDIR)
        if not node.has_bytes:
            raise system_error(errno.ELOOP if stat.S_ISLNK(node.mode) else errno.ENXIO)
        check_access(caller, node, request.access | (WRITE if request.truncate else 0))
        if _writer(message, request, caller) is not None:
            self._leases.claim(caller.holder, (node.id,))
        return _status(node, access=request.access, leased=self._lease(caller, node, place))

    def do_attach(self, message: Message, request: payloads.PathRequest) -> FileStatus:
        """Open a file that the client has had open before; with offset 1, it will not write."""
        node = self._by_id(message.file)
        if not node.has_bytes:
            raise system_error(errno.ESTALE)
        caller = _caller(request)
        if _writer(message, request, caller) is not None:
            self._leases.claim(caller.holder, (node.id,))
        owns = permissions.is_owner(caller, node)
        return _status(node, access=READ | WRITE if owns else permissions.granted(caller, node))

    def do_stat(self, message: Message, request: payloads.PathRequest) -> FileStatus:
        caller = _caller(request)
        if message.file:
            node = self._by_id(message.file)
            return _status(node, leased=self._lease(caller, node))
        place = self._locate(request)
        if place.node is None:
            raise system_error(errno.ENOENT)
        return _status(place.node, leased=self._lease(caller, place.node, place))

    def do_make(self, _: Message, request: payloads.MakeRequest) -> FileStatus:
        """Create a file, a symbolic link, a pipe, a socket or a device."""
        place = self._locate(request)
        if place.node is not None:
            return _status(self._created_before(place.node, request))
        node = self._create(place, request, request.mode, device=request.device, target=request.target)
        return _status(node, leased=self._lease(_caller(request), node, place))

    def do_link(self, _: Message, request: payloads.LinkRequest) -> FileStatus:
        node, place = self._existing(request), self._locate_second(request)
        if place.node is not None:
            if request.again and place.node.id == node.id:
                return _status(node)
            raise system_error(errno.EEXIST)
        if node.is_folder:
            raise system_error(errno.EPERM)
        check_access(_caller(request), place.folder, WRITE | SEARCH)
        if node.links < 1:
            raise system_error(errno.ENOENT)
        if node.links >= _MOST_LINKS:
            raise system_error(errno.EMLINK)
        self._leases.claim(_caller(request).holder, (node.id, place.folder.id))
        with self._store:
            now = self._clock()
            self._store.put_name(place.folder.id, place.name, node.id)
            self._store.set(node.id, links=node.links + 1, ctime=now)
            self._touch(place.folder.id, now)
        return _status(node._replace(links=node.links + 1, ctime=now))

    def do_unlink(self, _: Message, request: payloads.OnceRequest) -> ForgetList:
        """Remove the name. The caller must then have the servers remove the objects, and call `forget`."""
        place = self._locate(request)
        if place.node is None and request.again:
            return ForgetList(forget=[])
        if place.node is None:
            raise system_error(errno.ENOENT)
        permissions.check_removal(_caller(request), place.folder, [place.node])
        if place.node.is_folder:
            raise system_error(errno.EISDIR)
        self._leases.claim(_caller(request).holder, (place.folder.id, place.node.id))
        with self._store:
            now = self._clock()
            self._store.remove_name(place.folder.id, place.name)
            self._touch(place.folder.id, now)
            return self._drop_link(place.node, now)

    def do_pending(self, _: Message, __: None) -> ForgetList:
        return self.list_pending()

    def list_pending(self, *, known: bool = False) -> ForgetList:
        """The files without a name that nobody has open, and whose objects may still exist.

        If only `known`, without those of which nobody has said yet that their objects can be removed.
        """
        unnamed = [
            node
            for node in self._store.unnamed(_MOST_REMEMBERED)
            if node.links == REMOVED or not (known or self._open_files.is_open(node.id))
        ]
        fresh = [node for node in unnamed if node.links != REMOVED]
        if fresh:
            with self._store:
                for node in fresh:
                    self._store.set(node.id, links=REMOVED)
        return ForgetList(forget=[(node.id, node.layout_fields) for node in unnamed])

    def do_forgotten(self, message: Message, _: None) -> None:
        self.forget(*payloads.listed_nodes(message))

    def forget(self, *files: int) -> None:
        """Forget files without a name, now that all servers have removed their objects."""
        nodes = [node for node in map(self._store.read, files) if node is not None and node.links < 1]
        if nodes:
            with self._store:
                for node in nodes:
                    self._store.remove(node.id)

    # Folders

    def do_mkdir(self, _: Message, request: payloads.MkdirRequest) -> FileStatus:
        """Create a folder; without a layout it gets its parent's."""
        place = self._locate(request)
        if place.node is not None:
            if not place.node.is_folder:
                raise system_error(errno.EEXIST)
            return _status(self._created_before(place.node, request))
        node = self._create(place, request, stat.S_IFDIR | request.mode & 0o7777)
        return _status(node, leased=self._lease(_caller(request), node, place))

    def do_rmdir(self, _: Message, request: payloads.OnceRequest) -> None:
        place = self._locate(request)
        folder, node = place.folder, place.node
        if node is None and request.again:
            return
        if node is not None and node.id == ROOT:
            raise system_error(errno.EBUSY)
        if node is not None:
            permissions.check_removal(_caller(request), folder, [node])
        node = self._check_empty(node)
        self._leases.claim(_caller(request).holder, (folder.id, node.id))
        with self._store:
            now = self._clock()
            self._store.remove_name(folder.id, place.name)
            self._store.remove(node.id)
            self._store.set(folder.id, links=folder.links - 1)
            self._touch(folder.id, now)

    def do_readdir(self, _: Message, request: payloads.ListRequest) -> payloads.ListPage:
        folder = self._existing(request)
        if not folder.is_folder:
            raise system_error(errno.ENOTDIR)
        check_access(_caller(request), folder, READ)
        return self.list_names(folder.id, request.after)

    def list_names(self, folder: int, after: bytes = b"", most: int = _PAGE) -> payloads.ListPage:
        """List the names that follow `after`."""
        page = self._store.list_names(folder, after, most + 1)
        return payloads.ListPage(entries=page[:most], more=len(page) > most)

    def do_layout(self, _: Message, request: payloads.LayoutRequest) -> payloads.LayoutAnswer:
        """Return a layout, or set the one for a folder's new files; existing files keep theirs."""
        node = self._existing(request)
        if request.layout is None:
            return payloads.LayoutAnswer(layout=node.layout_fields)
        layout = read_layout(request.layout)
        if not node.is_folder:
            raise system_error(errno.ENOTDIR)
        permissions.check_owner(_caller(request), node)
        self._leases.claim(_caller(request).holder, (node.id,))
        with self._store:
            self._store.set(
                node.id,
                stripes=layout.count,
                stripe_size=layout.size,
                first_server=layout.start,
                ctime=self._clock(),
            )
        return payloads.LayoutAnswer(layout=layout_fields(layout))

    # Names of anything

    def do_rename(self, _: Message, request: payloads.RenameRequest) -> ForgetList:
        """Rename a file or folder; a file with the new name is unlinked, an empty folder is removed."""
        caller = _caller(request)
        source, target = self._locate(request), self._locate_second(request)
        nothing = ForgetList(forget=[])
        if source.node is None:
            if target.node is not None and request.again:
                return nothing
            raise system_error(errno.ENOENT)
        if target.node is not None and request.keep:
            raise system_error(errno.EEXIST)
        if target.node is None and request.exchange:
            raise system_error(errno.ENOENT)
        if ROOT in (source.node.id, target.node.id if target.node is not None else 0):
            raise system_error(errno.EBUSY)
        self._check_ancestors(source, target, exchange=request.exchange)
        if target.node is not None and target.node.id == source.node.id:
            return nothing
        permissions.check_removal(caller, source.folder, [source.node])
        permissions.check_removal(caller, target.folder, [target.node])
        moved = [source.node, target.node] if request.exchange else [source.node]
        for node in moved:
            if node is not None and node.is_folder and source.folder.id != target.folder.id:
                check_access(caller, node, WRITE)  # its entry ".." changes
        if target.node is not None and not request.exchange:
            self._check_replaceable(source.node, target.node)
        changed = (source.folder, target.folder, source.node, target.node)
        self._leases.claim(caller.holder, tuple(node.id for node in changed if node is not None))
        return self._exchange(source, target) if request.exchange else self._move(source, target)

    # Attributes

    def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> FileStatus:
        node = self._by_id(message.file) if message.file else self._existing(request)
        caller, now = _caller(request), self._clock()
        mode, uid, gid = node.mode, node.uid, node.gid
        if request.uid is not None or request.gid is not None:
            permissions.check_new_owner(caller, node, request.uid, request.gid)
            uid = node.uid if request.uid is None else request.uid
            gid = node.gid if request.gid is None else request.gid
            mode = permissions.without_set_ids(mode)
        if request.mode is not None:
            mode = permissions.changed_mode(caller, node, request.mode)
        if request.clear:
            mode = permissions.without_set_ids(mode)
        self._check_times(caller, node, request)
        if request.caller is not None:  # else an I/O node notes what a client has done that has the file open to write
            self._leases.claim(caller.holder, (node.id,))
        mtime, stamp = _new_time(request.mtime, request.mtime_now, now), request.stamp
        atime, read_stamp = _new_time(request.atime, request.atime_now, now), request.read_stamp
        changed = node._replace(mode=mode, uid=uid, gid=gid, ctime=now)
        if mtime is not None:
            changed = changed._replace(mtime=mtime, stamp=stamp)
        if atime is not None:
            changed = changed._replace(atime=atime, read_stamp=read_stamp)
        values = {name: new for name, new, old in zip(Node._fields, changed, node, strict=True) if new != old}
        with self._store:
            self._store.set(node.id, **values or {"ctime": now})
        return _status(changed, leased=self._lease(caller, changed))

    def _check_times(self, caller: Caller, node: Node, request: payloads.AttributesRequest) -> None:
        if request.clear:  # the times are those of a write
            return
        if request.mtime is not None or request.atime is not None:
            permissions.check_owner(caller, node)
        elif (request.mtime_now or request.atime_now) and not permissions.is_owner(caller, node):
            check_access(caller, node, WRITE)

    def do_getxattr(self, _: Message, request: payloads.AttributeRequest) -> AttributeValues:
        node = self._existing(request)
        if request.name is None:
            return AttributeValues(names=self._store.attribute_names(node.id))
        if not request.name.startswith(_USER):
            raise system_error(errno.EOPNOTSUPP)
        check_access(_caller(request), node, READ)
        value = self._store.attribute(node.id, request.name)
        if value is None:
            raise system_error(errno.ENODATA)
        return AttributeValues(value=value)

    def do_setxattr(self, _: Message, request: payloads.SetAttributeRequest) -> None:
        """Set or remove an extended attribute. Only those of users exist, and only files and folders have them."""
        node, caller, name, value = self._existing(request), _caller(request), request.name, request.value
        if not name.startswith(_USER):
            raise system_error(errno.EOPNOTSUPP)
        if len(name) > 255 or name == _USER:
            raise system_error(errno.EINVAL if name == _USER else errno.ERANGE)
        if stat.S_IFMT(node.mode) not in _HAVE_ATTRIBUTES:
            raise system_error(errno.EPERM)
        if node.is_folder and node.mode & stat.S_ISVTX:
            permissions.check_owner(caller, node)
        check_access(caller, node, WRITE)
        old = self._store.attribute(node.id, name)
        if request.again and old == value:
            return
        if old is not None and request.create:
            raise system_error(errno.EEXIST)
        if old is None and (request.replace or value is None):
            raise system_error(errno.ENODATA)
        if value is not None:
            others = self._store.attribute_bytes(node.id) - (0 if old is None else len(name) + len(old))
            if others + len(name) + len(value) > _MOST_ATTRIBUTE_BYTES:
                raise system_error(errno.ENOSPC)
        self._leases.claim(caller.holder, (node.id,))
        with self._store:
            if value is None:
                self._store.remove_attribute(node.id, name)
            else:
                self._store.put_attribute(node.id, name, value)
            self._store.set(node.id, ctime=self._clock())

    # Finding nodes

    def _by_id(self, id_: int) -> Node:
        """Read the node with this id; raises ESTALE if it does not exist any more."""
        node = self._store.read(id_)
        if node is None or node.links == REMOVED:
            raise system_error(errno.ESTALE)
        return node

    def _existing(self, request: payloads.PathRequest) -> Node:
        node = self._locate(request).node
        if node is None:
            raise system_error(errno.ENOENT)
        return node

    def _locate(self, request: payloads.PathRequest) -> _Place:
        return self._walk(request.at, request.path, _caller(request))

    def _locate_second(self, request: payloads.TwoNamesRequest) -> _Place:
        return self._walk(request.to_at, request.to, _caller(request))

    def _walk(self, at: int, path: bytes, caller: Caller) -> _Place:
        node: Node | None = self._by_id(at)
        assert node is not None
        folder, name = node, b""
        for name in split_path(path):
            if node is None:
                raise system_error(errno.ENOENT)
            if not node.is_folder:
                raise system_error(errno.ELOOP if stat.S_ISLNK(node.mode) else errno.ENOTDIR)
            if caller.uid:
                check_access(caller, node, SEARCH)
            folder, node = node, self._store.find(node.id, name)
        return _Place(folder, name, node)

    # Steps of these requests

    def _lease(self, caller: Caller, node: Node, place: _Place | None = None) -> int:
        """What the mount of the caller may keep from now on: the bits of `FileStatus.leased`."""
        if not caller.holder:
            return 0
        leased = 0
        if self._leases.grant(caller.holder, node.id, self._open_files.writers(node.id)):
            leased = LEASED_STATUS
        if place is not None and place.name and self._leases.grant(caller.holder, place.folder.id):
            leased |= LEASED_NAMES
        return leased

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
        place: _Place,
        request: payloads.CreateRequest,
        mode: int,
        *,
        device: int = 0,
        target: bytes | None = None,
    ) -> Node:
        """Add a node and its name; without a layout in the request, it gets its folder's."""
        caller, folder = _caller(request), place.folder
        check_access(caller, folder, WRITE | SEARCH)
        if folder.links < 1:
            raise system_error(errno.ENOENT)
        self._leases.claim(caller.holder, (folder.id,))
        mode, gid = permissions.creation_mode(caller, folder, mode)
        owner = (None, gid if mode & stat.S_ISGID else None) if caller is LAYER else (caller.uid, gid)
        wished = folder.layout if request.layout is None else read_layout(request.layout)
        parent = folder.id if stat.S_ISDIR(mode) else 0
        with self._store:
            while True:
                id_ = self._new_id()
                layout = wished if parent else settle_layout(wished, self._servers, id_, request.full)
                node = self._new_node(
                    id_, mode, layout, owner=owner, key=request.key, parent=parent, device=device, target=target
                )
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
        is_open = self._open_files.is_open(node.id)
        self._store.set(node.id, links=0 if is_open else REMOVED, ctime=now)
        return nothing if is_open else ForgetList(forget=[(node.id, node.layout_fields)])

    def _forget_unnamed(self, closed: Iterable[int]) -> ForgetList:
        """Of files that nobody has open any more, those that have no name either."""
        nodes = [node for node in map(self._store.read, closed) if node is not None and node.links == 0]
        if nodes:
            with self._store:
                for node in nodes:
                    self._store.set(node.id, links=REMOVED)
        return ForgetList(forget=[(node.id, node.layout_fields) for node in nodes])

    def _check_ancestors(self, source: _Place, target: _Place, *, exchange: bool) -> None:
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

    def _move(self, source: _Place, target: _Place) -> ForgetList:
        node, replaced = source.node, target.node
        assert node is not None
        forget = ForgetList(forget=[])
        with self._store:
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

    def _exchange(self, source: _Place, target: _Place) -> ForgetList:
        assert source.node is not None
        assert target.node is not None
        with self._store:
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


NAME_KINDS = tuple(kind for kind in Kind if hasattr(Names, f"do_{kind.name.lower()}"))
"""The kinds of messages that `Names` answers."""


def _caller(request: payloads.PathRequest) -> Caller:
    return request.caller or LAYER


def _new_time(given: int | None, is_now: bool, now: int) -> int | None:
    return now if is_now else given


def _status(node: Node, *, created: bool = False, access: int = READ | WRITE, leased: int = 0) -> FileStatus:
    return FileStatus(
        file=node.id, layout_fields=node.layout_fields, mode=node.mode, mtime=node.mtime, atime=node.atime,
        ctime=node.ctime, stamp=node.stamp, read_stamp=node.read_stamp, uid=node.uid, gid=node.gid,
        links=max(node.links, 0), device=node.device, target=node.target, created=created, access=access,
        size=len(node.target or b""), leased=leased,
    )  # fmt: skip


def _writer(message: Message, request: Payload | None, caller: Caller) -> int | None:
    """The mount that can write a file once it is open; 0 for other clients, which always can. None if nobody can."""
    if not caller.holder:
        return 0
    if isinstance(request, payloads.OpenRequest):
        return caller.holder if request.access & WRITE or request.truncate else None
    return None if message.offset else caller.holder


def _without_lease(answer: Payload | None) -> Payload | None:
    """A lease that an earlier answer has granted may have ended."""
    if isinstance(answer, FileStatus) and answer.leased:
        answer = copy(answer)
        answer.leased = 0
    return answer
