"""The names of files: answers the requests that I/O nodes send to the server of the names.

Each request is checked against the owner and the mode of what it concerns, for the user whom the I/O node names.
"""

import errno
import stat
from collections.abc import Iterable
from copy import copy

from forebay.act.forward.data import permissions
from forebay.act.forward.data.folder_records import Detour, Elsewhere
from forebay.act.forward.data.name_database import PER_NAME, REMOVED
from forebay.act.forward.data.name_lookup import caller_of
from forebay.act.forward.data.name_tree import status_of
from forebay.act.forward.data.permissions import LAYER, READ, SEARCH, WRITE, check_access, system_error
from forebay.act.forward.data.removals import RemovalRequests
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import (
    LEASED_STATUS,
    ROOT,
    Caller,
    FileStatus,
    ForgetList,
    Payload,
    layout_fields,
    read_layout,
)
from forebay.act.forward.net.request_payloads import read_request
from forebay.act.forward.net.sole_payloads import AddRequest
from forebay.act.forward.net.wire import Kind, Message

_PAGE = 32768
_MOST_REMEMBERED = 1 << 14
_MOST_LINKS = 65000


class Names(RemovalRequests):
    """The tree of names, for a layer with `servers` servers; the root has the layout `default`.

    The method `do_open` answers messages of Kind.OPEN, and so on. All errors are OSErrors with the errno that a program
    should see. A request with `again` may have been carried out before; then it succeeds if its result already exists.
    A request whose change must wait for the end of leases raises Conflict; it has changed nothing, and can be repeated.
    """

    def answer(self, message: Message, node: str = "") -> Payload | None:
        """Carry out a request of an I/O node; if its key is known, repeat the first answer instead.

        A restart forgets the answers; then `again` helps.
        """
        request = read_request(message.kind, message.payload)
        keeps_answer = not isinstance(request, AddRequest)  # long ones, which can be found again
        key = request.key if isinstance(request, payloads.OnceRequest) and keeps_answer else 0
        known = self._answers.get(key) if key else None
        if known is not None and known[0] == message.kind:
            if self._index and isinstance(request, payloads.PathRequest):
                self._read_known(request.at)  # the folder may have left since then
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

    def hold_files(self, node: str, files: Iterable[tuple[int, int]]) -> None:
        """Note what an I/O node has open of the files in a folder that has arrived."""
        self._open_files.add(node, files)

    # Files

    def do_open(self, message: Message, request: payloads.OpenRequest) -> FileStatus:
        place = self._locate(request)
        caller, node = caller_of(request), place.node
        if node is None:
            if not request.create:
                raise system_error(errno.ENOENT)
            node = self._create(place, request, stat.S_IFREG | request.mode & 0o7777)
            return self._status_of_new(caller, node, place, created=True)
        if request.create and request.exclusive:
            if request.again and request.key and node.key == request.key:
                return status_of(node, created=True)
            raise system_error(errno.EEXIST)
        if node.is_folder:
            raise system_error(errno.EISDIR)
        if not node.has_bytes:
            raise system_error(errno.ELOOP if stat.S_ISLNK(node.mode) else errno.ENXIO)
        check_access(caller, node, request.access | (WRITE if request.truncate else 0))
        if _writer(message, request, caller) is not None:
            self._leases.claim(caller.holder, (node.id,))
        return status_of(node, access=request.access, leased=self._lease(caller, node, place))

    def do_attach(self, message: Message, request: payloads.StatusRequest) -> FileStatus:
        """Open a file that the client has had open before; with offset 1, it will not write."""
        caller = caller_of(request)
        node = self._admit_by_id(message.file, caller)
        if not node.has_bytes:
            raise system_error(errno.ESTALE)
        if _writer(message, request, caller) is not None:
            self._leases.claim(caller.holder, (node.id,))
        access = READ | WRITE if permissions.is_owner(caller, node) else permissions.granted_access(caller, node)
        status = status_of(node, access=access)
        return self._add_size(status, node, request.content, counts=True) if request.content else status

    def do_spread(self, message: Message, _: None) -> None:
        """Note that the file may have more than one object from now on."""
        node = self._by_id(message.file)
        if not node.spread:
            self._store.change(lambda: self._store.set(node.id, spread=1))

    def do_stat(self, message: Message, request: payloads.StatusRequest) -> FileStatus:
        caller = caller_of(request)
        place = None if message.file else self._locate(request)
        node = self._admit_by_id(message.file, caller) if place is None else place.node
        if node is None:
            raise system_error(errno.ENOENT)
        leased = self._lease(caller, node, place)
        # Bytes that the mount cannot keep are of no use to it.
        content = request.content if leased & LEASED_STATUS else 0
        access = permissions.granted_access(caller, node) if content else READ | WRITE
        return self._add_size(status_of(node, access=access, leased=leased), node, content)

    def do_make(self, _: Message, request: payloads.MakeRequest) -> FileStatus:
        """Create a file, a symbolic link, a pipe, a socket or a device."""
        place = self._locate(request)
        if place.node is not None:
            return status_of(self._created_before(place.node, request))
        node = self._create(place, request, request.mode, device=request.device, target=request.target)
        return self._add_size(self._status_of_new(caller_of(request), node, place), node)

    def do_link(self, _: Message, request: payloads.LinkRequest) -> FileStatus:
        source, place = self._locate_both(request, exists=True)
        node = source.node
        assert node is not None
        if place.node is not None:
            if request.again and place.node.id == node.id:
                return status_of(node)
            raise system_error(errno.EEXIST)
        if node.is_folder:
            raise system_error(errno.EPERM)
        check_access(caller_of(request), place.folder, WRITE | SEARCH)
        if node.links < 1:
            raise system_error(errno.ENOENT)
        if node.links >= _MOST_LINKS:
            raise system_error(errno.EMLINK)
        self._leases.claim(caller_of(request).holder, (node.id, place.folder.id))
        self._store.claim(PER_NAME)
        with self._store:
            now = self._clock()
            self._store.put_name(place.folder.id, place.name, node.id)
            self._store.set(node.id, links=node.links + 1, ctime=now)
            self._touch(place.folder.id, now)
        return self._add_size(status_of(node._replace(links=node.links + 1, ctime=now)), node)

    def do_unlink(self, _: Message, request: payloads.OnceRequest) -> ForgetList:
        """Remove the name. The caller must then have the servers remove the objects, and call `forget`."""
        place = self._locate_entry(request)
        if place.node is None and request.again:
            return ForgetList(forget=[])
        if place.node is None:
            raise system_error(errno.ENOENT)
        unlinked = place.node
        permissions.check_removal(caller_of(request), place.folder, [unlinked])
        if unlinked.is_folder:
            raise system_error(errno.EISDIR)
        self._leases.claim(caller_of(request).holder, (place.folder.id, unlinked.id))
        forget = self._store.change(lambda: self._remove_link(place.folder.id, place.name, unlinked))
        forget.folder = self._status_of_folder(caller_of(request), place.folder.id)
        return forget

    def do_pending(self, _: Message, __: None) -> ForgetList:
        return self.list_pending()

    def list_pending(self, *, known: bool = False) -> ForgetList:
        """The files without a name that nobody has open, and whose objects may still exist.

        If only `known`, without those of which nobody has said yet that their objects can be removed.
        """
        unnamed = [
            node
            for node in self._store.list_unnamed(_MOST_REMEMBERED)
            if node.links == REMOVED or not (known or self._open_files.is_open(node.id))
        ]
        fresh = [node for node in unnamed if node.links != REMOVED]
        if fresh:
            self._store.change(lambda: self._mark_removed(fresh))
        return ForgetList(forget=[(node.id, node.object_fields) for node in unnamed])

    def do_forgotten(self, message: Message, _: None) -> None:
        self.forget(*payloads.listed_nodes(message))

    def forget(self, *files: int) -> None:
        """Forget files without a name, now that all servers have removed their objects."""
        if files:
            self._store.change(lambda: self._store.remove_unnamed(files))

    # Folders

    def do_mkdir(self, _: Message, request: payloads.MkdirRequest) -> FileStatus:
        """Create a folder; without a layout it gets its parent's."""
        place = self._locate(request)
        if place.node is not None:
            if not place.node.is_folder:
                raise system_error(errno.EEXIST)
            return status_of(self._created_before(place.node, request))
        if self._index:
            check_access(caller_of(request), place.folder, WRITE | SEARCH)
            raise self._pull(place.folder.id)
        node = self._create(place, request, stat.S_IFDIR | request.mode & 0o7777)
        return self._status_of_new(caller_of(request), node, place)

    def do_rmdir(self, _: Message, request: payloads.OnceRequest) -> ForgetList:
        place = self._locate_entry(request)
        folder, node = place.folder, place.node
        nothing = ForgetList(forget=[])
        if node is None and request.again:
            return nothing
        if node is not None and node.id == ROOT:
            raise system_error(errno.EBUSY)
        if node is not None and node.away > 0:
            check_access(caller_of(request), folder, WRITE | SEARCH)
            raise Elsewhere(Detour(pull=((node.id, node.away),), only_empty=True))
        if node is not None:
            permissions.check_removal(caller_of(request), folder, [node])
        node = self._check_empty(node)
        self._leases.claim(caller_of(request).holder, (folder.id, node.id))

        def remove() -> None:
            now = self._clock()
            self._store.remove_name(folder.id, place.name)
            self._store.remove(node.id)
            self._store.set(folder.id, links=folder.links - 1)
            self._touch(folder.id, now)

        self._store.change(remove)
        nothing.folder = self._status_of_folder(caller_of(request), folder.id)
        return nothing

    def do_readdir(self, _: Message, request: payloads.ListRequest) -> payloads.ListPage:
        folder = self._find(request)
        if not folder.is_folder:
            raise system_error(errno.ENOTDIR)
        check_access(caller_of(request), folder, READ)
        return self.list_names(folder.id, request.after)

    def list_names(self, folder: int, after: bytes = b"", most: int = _PAGE) -> payloads.ListPage:
        """List the names that follow `after`."""
        page = self._store.list_names(folder, after, most + 1)
        return payloads.ListPage(entries=page[:most], more=len(page) > most)

    def do_layout(self, _: Message, request: payloads.LayoutRequest) -> payloads.LayoutAnswer:
        """Return a layout, or set the one for a folder's new files; existing files keep theirs."""
        node = self._find(request)
        if request.layout is None:
            return payloads.LayoutAnswer(layout=node.layout_fields)
        layout = read_layout(request.layout)
        if not node.is_folder:
            raise system_error(errno.ENOTDIR)
        permissions.check_owner(caller_of(request), node)
        self._leases.claim(caller_of(request).holder, (node.id,))
        fields = {"stripes": layout.count, "stripe_size": layout.size, "first_server": layout.start}
        self._store.change(lambda: self._store.set(node.id, **fields, ctime=self._clock()))
        return payloads.LayoutAnswer(layout=layout_fields(layout))

    # Names of anything

    def do_rename(self, _: Message, request: payloads.RenameRequest) -> ForgetList:
        """Rename a file or folder; a file with the new name is unlinked, an empty folder is removed."""
        caller = caller_of(request)
        source, target = self._locate_both(request)
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
        if target.node is None and len(target.name) > len(source.name):
            self._store.claim(PER_NAME)
        move = self._exchange if request.exchange else self._move
        return self._store.change(lambda: move(source, target))


NAME_KINDS = tuple(kind for kind in Kind if hasattr(Names, f"do_{kind.name.lower()}"))
"""The kinds of messages that `Names` answers."""


def _writer(message: Message, request: Payload | None, caller: Caller) -> int | None:
    """The mount that can write a file once it is open; 0 for other clients, which always can. None if nobody can."""
    if not caller.holder:
        return 0
    if isinstance(request, payloads.OpenRequest):
        return caller.holder if request.access & WRITE or request.truncate else None
    return None if message.offset else caller.holder


def _without_lease(answer: Payload | None) -> Payload | None:
    """A lease that an earlier answer has granted may have ended."""
    if isinstance(answer, FileStatus | ForgetList):
        answer = copy(answer)
        answer.folder = None
        if isinstance(answer, FileStatus):
            answer.leased = 0
    return answer
