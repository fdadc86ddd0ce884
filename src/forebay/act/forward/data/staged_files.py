"""Requests that add many files at once, whose bytes have been written before: they appear complete, or not at all."""

import errno
import stat

from forebay.act.forward.data import permissions
from forebay.act.forward.data.folder_moves import FolderMoves
from forebay.act.forward.data.name_database import FRESH, PER_NAME, Node
from forebay.act.forward.data.name_lookup import caller_of
from forebay.act.forward.data.paths import split_path
from forebay.act.forward.data.permissions import LAYER, system_error
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import Caller, ForgetList, read_layout
from forebay.act.forward.net.wire import Message

_MOST_RESERVED = 1024
_MODE = 0o777 | stat.S_ISVTX


class PlacementRequests(FolderMoves):
    """The requests for new files with their bytes that `Names` answers."""

    def do_reserve(self, message: Message, _: None) -> payloads.NodeList:
        """Ids for new files in a folder, whose names stay at this server: ids show it."""
        folder = self._admit_by_id(message.file, LAYER)
        if folder.away == FRESH:
            self._store.change(lambda: self._store.set(folder.id, away=0))
        return payloads.NodeList(nodes=[self._new_id() for _ in range(min(message.offset, _MOST_RESERVED))])

    def do_place(self, _: Message, request: payloads.PlaceRequest) -> ForgetList:
        caller, folder = caller_of(request), self._find(request)
        names = [file.name for file in request.files]
        if len(set(names)) < len(names) or any(split_path(name) != [name] for name in names):
            raise system_error(errno.EINVAL)
        if not folder.is_folder:
            raise system_error(errno.ENOTDIR)
        known = [self._store.find(folder.id, name) for name in names]
        if request.again and [file.file for file in request.files] == [node and node.id for node in known]:
            return ForgetList(forget=[])
        replaced = [node for node in known if node is not None]
        permissions.check_removal(caller, folder, replaced)
        if folder.links < 1:
            raise system_error(errno.ENOENT)
        if any(node.is_folder for node in replaced):
            raise system_error(errno.EISDIR)
        self._leases.claim(caller.holder, (folder.id, *(node.id for node in replaced)))
        forget = ForgetList(forget=[])
        self._store.claim(len(names) * PER_NAME)
        with self._store:
            now = self._clock()
            for node in replaced:
                forget.forget += self._drop_link(self._store.read(node.id) or node, now).forget
            for file in request.files:
                self._store.add(self._placed_node(caller, folder, file))
                self._store.put_name(folder.id, file.name, file.file)
            self._touch(folder.id, now)
        return forget

    def _placed_node(self, caller: Caller, folder: Node, file: payloads.PlacedFile) -> Node:
        _, gid = permissions.creation_mode(caller, folder, stat.S_IFREG)
        mode, layout = stat.S_IFREG | file.mode & _MODE, read_layout(file.layout)
        node = self._new_node(file.file, mode, layout, owner=(caller.uid, gid), parent=folder.id if self._index else 0)
        return node._replace(mtime=file.mtime, atime=file.atime, stamp=file.stamp, read_stamp=file.read_stamp)
