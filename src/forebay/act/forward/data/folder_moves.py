"""Folders whose names move from one server to another.

A folder begins at server 0. As its first file comes, another server may take over what it holds; server 0 then keeps
only the folder's name, and a node that says where the folder is `away`. Whatever concerns more than this one folder
first brings it back to server 0, for good:

    1. The other server takes the folder out of use, for good (`moves`), and exports it page by page.
    2. Server 0 imports the pages, and with the last one the folder's node: from now on, the folder is there.
    3. The other server drops the folder. It remembers that it must not take it over again.

I/O nodes carry out these steps, and any of them can be repeated. A request for a folder that is out of use makes its
I/O node do all of them. So whichever process is killed at whichever moment, the next request brings them to their end,
and all servers agree on where the folder is.
"""

import errno

from forebay.act.forward.data.folder_records import (
    Detour,
    Elsewhere,
    EmptyFolder,
    ExportRequest,
    FolderPage,
    ImportRoom,
)
from forebay.act.forward.data.name_attributes import AttributeRequests
from forebay.act.forward.data.name_database import PER_NAME, Node
from forebay.act.forward.data.name_lookup import folder_of
from forebay.act.forward.data.permissions import system_error
from forebay.act.forward.net.wire import Message, unpack_as

_NAMES = 1024
_BYTES = 4 << 20
"""How much a page holds, except for the attributes of its last file."""


class FolderMoves(AttributeRequests):
    """The requests of I/O nodes that move folders."""

    def do_settle(self, message: Message, _: None) -> None:
        """Take over an empty folder, which server 0 has said is here; raises ESTALE if it has left already."""
        empty = unpack_as(EmptyFolder, message.payload)
        node = empty.node._replace(away=0)
        if self._store.read(node.id) is not None:
            return
        if self._store.has_dropped(node.id):
            raise system_error(errno.ESTALE)
        self._store.claim(PER_NAME)
        with self._store:
            self._store.add(node)
            for name, value in empty.attributes:
                self._store.put_attribute(node.id, name, value)
        self._leases.take_over(empty.leases)

    def do_export(self, message: Message, _: None) -> FolderPage:
        """Take a folder out of use, and return a page of what it holds."""
        request = unpack_as(ExportRequest, message.payload)
        node = self._store.read(request.folder)
        folder = self._store.read(folder_of(node)) if node is not None else None
        if folder is None:
            raise Elsewhere(Detour())
        has_names = self._store.has_names(folder.id)
        # What a mount has removed there in advance still has names here, and what it has created has none.
        self._leases.admit(0 if has_names or not request.only_empty else request.holder, folder.id)
        if has_names and request.only_empty:
            raise system_error(errno.ENOTEMPTY)
        self._leases.claim(0, ())  # leases of an earlier run, which are not known here
        if folder.id not in self._leaving:
            if request.room is not None and self._store.measure_contents(folder.id) > request.room:
                raise system_error(errno.ENOSPC)
            self._store.change(lambda: self._store.mark_leaving(folder.id))
            self._leaving.add(folder.id)
        return self._read_page(folder, request.after)

    def _read_page(self, folder: Node, after: bytes) -> FolderPage:
        nodes, attributes, length = [folder], self._attributes_of(folder), 0
        names = self._store.list_names(folder.id, after, _NAMES + 1)
        for _, _, id_ in names[:_NAMES]:
            node = self._store.read(id_)
            assert node is not None
            nodes.append(node)
            of_node = self._attributes_of(node)
            attributes += of_node
            length += sum(len(value) for _, _, value in of_node)
            if length > _BYTES:
                break
        listed = [(name, id_) for name, _, id_ in names[: len(nodes) - 1]]
        ids = [node.id for node in nodes]
        return FolderPage(
            folder=folder.id, source=self._index, is_first=not after, more=len(listed) < len(names),
            last=listed[-1][0] if listed else b"", nodes=nodes, names=listed, attributes=attributes,
            leases=self._leases.hand_over(ids), open=[id_ for id_ in ids[1:] if self._open_files.may_be_open(id_)],
        )  # fmt: skip

    def _attributes_of(self, node: Node) -> list[tuple[int, bytes, bytes]]:
        return [(node.id, *each) for each in self._store.attributes(node.id)]

    def do_prepare(self, _: Message, __: None) -> ImportRoom:
        """Say how much this server can take over; raises OSError if nothing: then a folder would be nowhere in use."""
        self._store.change(self._store.write_something)
        return ImportRoom(bytes=self._store.space.measure_import_room())

    def import_page(self, message: Message) -> tuple[str, list[int]]:
        """Take over a page of a folder, and with the last one all of it; return its open files once it is here.

        Until I/O nodes have said which of them they have open, all are open under the name that comes with them.
        """
        page = unpack_as(FolderPage, message.payload)
        stub = self._store.read(page.folder)
        if stub is None or stub.away != page.source:
            return "", []  # it is here already, or was
        self._store.change(lambda: self._take_page(stub, page))
        self._leases.take_over(page.leases)
        arriving = self._arriving.setdefault(stub.id, set())
        arriving.update(page.open)
        holder = f"folder {stub.id}"
        self._open_files.replace(holder, [(file, 1) for file in arriving])
        return holder, [] if page.more else sorted(self._arriving.pop(stub.id))

    def _take_page(self, stub: Node, page: FolderPage) -> None:
        folder, *nodes = page.nodes
        if page.is_first:
            self._store.remove_attributes(stub.id)
        for node in nodes:
            self._store.put(node._replace(parent=0))
        for name, id_ in page.names:
            self._store.put_name(stub.id, name, id_)
        for id_, name, value in page.attributes:
            self._store.put_attribute(id_, name, value)
        if not page.more:
            self._store.put(folder._replace(parent=stub.parent, away=0))

    def do_adopt(self, message: Message, _: None) -> None:
        """Take back a folder that another server has dropped, though this one does not know it (a power failure)."""
        folder = self._store.read(message.file)
        if folder is not None and folder.away > 0:
            self._store.change(lambda: self._store.set(folder.id, away=0))

    def do_drop(self, message: Message, _: None) -> None:
        """Drop a folder that server 0 has taken over."""
        folder = message.file
        if folder in self._leaving:
            files = [id_ for _, _, id_ in self._store.list_names(folder, b"", -1)]
            self._store.change(lambda: self._store.drop(folder))
            self._leaving.discard(folder)
            self._open_files.forget(files)
