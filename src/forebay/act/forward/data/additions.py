"""Requests of a mount that has a folder alone, and tells later which files it has created there.

The files of a request appear complete, or not at all: first they are noted without names, then their bytes are written,
and then they get their names. A server that is killed before that removes what it has written.
"""

import errno
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from forebay.act.forward.data import permissions
from forebay.act.forward.data.name_database import PER_NAME, REMOVED, Node
from forebay.act.forward.data.name_lookup import Place, caller_of
from forebay.act.forward.data.paths import split_path
from forebay.act.forward.data.permissions import SEARCH, WRITE, check_access, system_error
from forebay.act.forward.data.staged_files import PlacementRequests
from forebay.act.forward.net.payloads import Caller, LayoutFields, ObjectSize, layout_fields, read_layout
from forebay.act.forward.net.sole_payloads import AddAnswer, AddedFile, AddedStatus, AddRequest
from forebay.act.forward.net.wire import Message
from forebay.model.layout import ANY, Layout

_PERMISSIONS = 0o777
_MOST_ADDED = 1 << 17
"""Added files to remember; a mount that was stopped may repeat a message."""
_LAG = 10**9
"""How far, in ns, a mount that knows the time of this server may be ahead of it."""


class AdditionRequests(PlacementRequests):
    """The requests about files that mounts have created that `Names` answers."""

    def do_add(self, _: Message, request: AddRequest) -> AddAnswer:
        """Add files to a folder; those whose names belong to others by now are refused."""
        caller, folder = caller_of(request), self._find(request)
        if not folder.is_folder:
            raise system_error(errno.ENOTDIR)
        check_access(caller, folder, WRITE | SEARCH)
        if folder.links < 1:
            raise system_error(errno.ENOENT)
        layout = read_layout(request.layout)
        _check_files(request.files, layout)
        is_alone, now = self._leases.is_alone(caller.holder, folder.id), self._clock()
        if not is_alone:  # the mount was late, and others may use the folder
            self._leases.claim(caller.holder, (folder.id,))
        latest = now + _LAG if is_alone else 0
        nodes, new = {}, []
        for file in request.files:
            node = self._store.find(folder.id, file.name)
            if node is not None:
                nodes[file.name] = node
            elif self._leases.owns(caller.holder, folder.id, file.file) and (
                is_alone or not self._may_be_gone(file.file, again=request.again)
            ):
                nodes[file.name] = self._added_node(caller, folder, file, layout, now, latest)
                new.append(file)
        sizes: dict[int, ObjectSize] = {}
        if new:
            at = request.time if is_alone and folder.mtime <= request.time <= latest else now
            sizes = self._add_files(folder, [(file, nodes[file.name]) for file in new], at)
        return AddAnswer(
            files=[self._describe_added(caller, folder, file, nodes.get(file.name), sizes) for file in request.files],
            folder=self._status_of_folder(caller, folder.id),
            alone=is_alone,
            room=self._has_room(request.full),
        )

    def _may_be_gone(self, file: int, *, again: bool) -> bool:
        """Whether a file without a name may have been added before, so that somebody has removed it."""
        return file in self._added or (again and self._leases.is_of_earlier_run(file))

    def _layout_of_additions(self, folder: Node, full: tuple[int, ...]) -> LayoutFields | None:
        """The layout of files that a mount creates in a folder; None if it must not.

        Their bytes are on this server, so that one message brings files to it. Where that would change on which
        servers large files are, the mount must not.
        """
        wished = folder.layout
        count = min(wished.count, self._servers)
        is_here = count == self._servers if wished.start == ANY else wished.start % self._servers == self._index
        if not is_here or not self._has_room(full):
            return None
        return layout_fields(Layout(count=count, size=wished.size, start=self._index))

    def _has_room(self, full: tuple[int, ...]) -> bool:
        return not full and self._objects is not None and self._objects.has_room()

    def _added_node(self, caller: Caller, folder: Node, file: AddedFile, layout: Layout, now: int, latest: int) -> Node:
        mode, gid = permissions.creation_mode(caller, folder, stat.S_IFREG | file.mode & _PERMISSIONS)
        created, changed = (at if at <= latest else now for at in (file.created, file.changed))
        node = self._new_node(
            file.file, mode, Layout(count=layout.count, size=layout.size, start=self._index),
            owner=(caller.uid, gid), parent=folder.id if self._index else 0,
        )  # fmt: skip
        return node._replace(atime=created, mtime=changed, ctime=changed)

    def _add_files(self, folder: Node, files: list[tuple[AddedFile, Node]], at: int) -> dict[int, ObjectSize]:
        objects, sizes = self._objects, dict[int, ObjectSize]()
        filled = [(file, node) for file, node in files if file.data]
        if objects is None:
            raise system_error(errno.EOPNOTSUPP)
        self._store.claim(sum(PER_NAME + len(file.data) for file, _ in files))
        if filled:
            with self._store:
                for _, node in filled:
                    self._store.add(node._replace(links=REMOVED))
        try:
            for file, node in filled:
                sizes[node.id] = objects.put(node.id, file.data, node.mtime)
            with self._store:
                for file, node in files:
                    if file.data:
                        self._store.set(node.id, links=1)
                    else:
                        self._store.add(node)
                    self._store.put_name(folder.id, file.name, node.id)
                self._touch(folder.id, at)
            self._note_added(node.id for _, node in files)
        except OSError:
            for _, node in filled:
                with suppress(OSError):  # what fails here stays in the list of pending files
                    objects.forget(node.id)
                    self._store.change(partial(self._store.remove_unnamed, [node.id]))
            raise
        return sizes

    def _note_added(self, files: Iterable[int]) -> None:
        self._added.update(dict.fromkeys(files))
        while len(self._added) > _MOST_ADDED:
            self._added.popitem(last=False)

    def _describe_added(
        self, caller: Caller, folder: Node, file: AddedFile, node: Node | None, sizes: dict[int, ObjectSize]
    ) -> AddedStatus:
        if node is None or node.id != file.file:
            return AddedStatus(refused=True)
        leased = self._lease(caller, node, Place(folder, file.name, node))
        if not file.data or self._objects is None:
            return AddedStatus(leased, node.mtime)
        size = sizes.get(node.id) or self._objects.size(node.id)
        return AddedStatus(leased, size.mtime, size.allocated)


def _check_files(files: list[AddedFile], layout: Layout) -> None:
    """Raise OSError unless each file can have its name and be in one object."""
    if len({file.name for file in files}) < len(files) or any(split_path(file.name) != [file.name] for file in files):
        raise system_error(errno.EINVAL)
    if any(len(file.data) > layout.size for file in files):
        raise system_error(errno.EFBIG)
