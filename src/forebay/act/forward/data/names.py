"""The names of files: a tree of real folders with a small record for each file, which says where its bytes are.

    names/…            the tree: a record for each file, and one with a reserved name in each folder
    ids/ab/ab54…       the same record (a hard link), by the file's id
    unlinked/ab54…     the same record, after its name is removed and until no server has its objects
    temp/…             new records that have no name yet
    replacing          the names of a folder and of the empty one that it replaces

One link or one rename makes each change visible, so a process that is killed leaves the old state or the new one.
`recover` recognises which by the number of links of a record, and cleans up.
"""

import errno
import os
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from forebay.act.forward.data.records import FOLDER, Record, RecordTree, clean_path, id_place, system_error
from forebay.act.forward.data.tree import list_page
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import FileStatus, ForgetList, Payload, layout_fields, read_layout
from forebay.act.forward.net.wire import Kind, Message
from forebay.act.forward.striping import settle_layout
from forebay.model.layout import Layout

_PAGE = 32768
_MOST_REMEMBERED = 1 << 14


class Names:
    """The tree of names, for a layer with `servers` servers; the root has the layout `default`.

    The method `do_open` answers messages of Kind.OPEN, and so on. All errors are OSErrors with the errno that a program
    should see. A request with `again` may have been carried out before; then it succeeds if its result already exists.
    """

    def __init__(
        self,
        tree: RecordTree,
        servers: int,
        default: Layout,
        *,
        new_id: Callable[[], int] = lambda: secrets.randbits(63),
    ) -> None:
        self._tree, self._servers, self._new_id = tree, servers, new_id
        self.close, self.descriptors_to_sync = tree.close, tree.descriptors_to_sync
        self._answers: OrderedDict[int, tuple[int, Payload | None]] = OrderedDict()
        self.recover()
        if not self._tree.exists(folder_record_place(b"")):
            temp = self._tree.temporary_place()
            self._tree.write_record(temp, Record(file=None, layout=default, mode=0o755, mtime=time.time_ns()))
            self._tree.rename(temp, folder_record_place(b""))

    def answer(self, message: Message) -> Payload | None:
        """Carry out a request; if its key is known, repeat the first answer instead.

        A restart forgets the answers; then `again` helps.
        """
        request = payloads.read_request(message.kind, message.payload)
        key = request.key if isinstance(request, payloads.OnceRequest) else 0
        known = self._answers.get(key) if key else None
        if known is not None and known[0] == message.kind:
            return known[1]
        answer: Payload | None = getattr(self, f"do_{Kind(message.kind).name.lower()}")(message, request)
        if key:
            self._answers[key] = message.kind, answer
            if len(self._answers) > _MOST_REMEMBERED:
                self._answers.popitem(last=False)
        return answer

    # Files

    def do_open(self, _: Message, request: payloads.OpenRequest) -> FileStatus:
        path = clean_path(request.path)
        record = self._find(path)
        if record is None:
            if not request.create:
                raise system_error(errno.ENOENT)
            return _file_status(self._create(path, request), created=True)
        if request.create and request.exclusive:
            if request.again and request.key and record.key == request.key:
                return _file_status(record, created=True)
            raise system_error(errno.EEXIST)
        if record.file is None:
            raise system_error(errno.EISDIR)
        return _file_status(record)

    def do_attach(self, message: Message, _: None) -> FileStatus:
        return _file_status(self._read_by_id(message.file))

    def do_stat(self, message: Message, request: payloads.PathRequest) -> FileStatus:
        """The status of a file or folder; the times of a folder are those of the last change to its names."""
        if request.path is None:
            return _file_status(self._read_by_id(message.file))
        path = clean_path(request.path)
        status = _file_status(self._read(path))
        if status.is_folder:
            folder = self._tree.status(name_place(path))
            status.mtime = status.time_of_change(folder.st_mtime_ns)
            status.ctime = max(status.ctime, folder.st_ctime_ns)
        return status

    def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> None:
        stamp = request.stamp
        if request.path is None:
            place, record = id_place(message.file), self._read_by_id(message.file)
        else:
            path = clean_path(request.path)
            record = self._read(path)
            place = name_place(path) if record.file is not None else folder_record_place(path)
            stamp = stamp if record.file is not None else self._tree.status(name_place(path)).st_mtime_ns
        if request.mode is not None:
            record = replace(record, mode=request.mode & 0o7777)
        if request.mtime is not None:
            record = replace(record, mtime=request.mtime, stamp=stamp)
        uid = record.uid if request.uid is None else request.uid
        gid = record.gid if request.gid is None else request.gid
        self._tree.write_record(place, replace(record, uid=uid, gid=gid))

    def do_unlink(self, _: Message, request: payloads.OnceRequest) -> ForgetList:
        """Remove the name. The caller must then have the servers remove the objects, and call `forget`."""
        path = clean_path(request.path)
        record = self._find(path)
        if record is None and request.again:
            return ForgetList(forget=[])
        if record is None or record.file is None:
            raise system_error(errno.ENOENT if record is None else errno.EISDIR)
        self._tree.rename(name_place(path), unlinked_place(record.file))
        self._tree.sync_later(name_place(parent(path)))
        return self._drop_id(record.file, record.layout)

    def do_pending(self, _: Message, __: None) -> ForgetList:
        return ForgetList(forget=list(islice(self.list_pending(), _MOST_REMEMBERED)))

    def list_pending(self) -> Iterator[tuple[int, payloads.LayoutFields]]:
        """Yield the id and the layout of each unlinked file whose objects may still exist."""
        for name in self._tree.list(b"unlinked"):
            with suppress(OSError):
                record = self._tree.read_record(b"unlinked/" + name)
                if record.file is not None:
                    yield record.file, layout_fields(record.layout)

    def do_forgotten(self, message: Message, _: None) -> None:
        self.forget(message.file)

    def forget(self, file: int) -> None:
        """Forget an unlinked file, now that all servers have removed its objects."""
        self._tree.remove(unlinked_place(file))

    # Folders

    def do_mkdir(self, _: Message, request: payloads.MkdirRequest) -> None:
        """Create a folder; without a layout it gets its parent's."""
        path, key = clean_path(request.path), request.key
        record = self._find(path)
        if record is not None and request.again and key and record.file is None and record.key == key:
            return
        if record is not None:
            raise system_error(errno.EEXIST)
        record = replace(self._new_record(path, request), file=None, mtime=time.time_ns())
        temp = self._tree.temporary_place()
        try:
            self._tree.mkdir(temp)
            self._tree.write_record(temp + b"/" + FOLDER, record)
            self._tree.rename(temp, name_place(path))
        except OSError:
            self._tree.remove_all(temp)
            raise
        self._tree.sync_later(name_place(path))
        self._tree.sync_later(name_place(parent(path)))

    def do_rmdir(self, _: Message, request: payloads.OnceRequest) -> None:
        path = clean_path(request.path)
        record = self._find(path)
        if record is None and request.again:
            return
        self._check_empty(path, record)
        temp = self._tree.temporary_place()
        self._tree.rename(name_place(path), temp)
        self._tree.sync_later(name_place(parent(path)))
        self._tree.remove_all(temp)

    def do_readdir(self, _: Message, request: payloads.ListRequest) -> payloads.ListPage:
        return self.list_names(request.path, request.after)

    def list_names(self, path: bytes, after: bytes = b"", most: int = _PAGE) -> payloads.ListPage:
        """List the names that follow `after`."""
        return list_page(self._tree.open_folder(name_place(clean_path(path))), after, most, _is_folder)

    def do_layout(self, _: Message, request: payloads.LayoutRequest) -> payloads.LayoutAnswer:
        """Return a layout, or set the one for a folder's new files; existing files keep theirs."""
        layout = None if request.layout is None else read_layout(request.layout)
        path = clean_path(request.path)
        record = self._read(path)
        if layout is not None:
            if record.file is not None:
                raise system_error(errno.ENOTDIR)
            self._tree.write_record(folder_record_place(path), replace(record, layout=layout))
        return payloads.LayoutAnswer(layout=layout_fields(layout or record.layout))

    # Both

    def do_rename(self, _: Message, request: payloads.RenameRequest) -> ForgetList:
        """Rename a file or folder; a file with the new name is unlinked, an empty folder is removed."""
        path, to = clean_path(request.path), clean_path(request.to)
        for folder in (parent(path), parent(to)):  # check in the kernel's order, so that errors are the same
            if not stat.S_ISDIR(self._tree.status(name_place(folder)).st_mode):
                raise system_error(errno.ENOTDIR)
        source, target = self._find(path), self._find(to)
        forget = ForgetList(forget=[])
        if source is None and target is not None and request.again:
            return forget
        if source is None:
            raise system_error(errno.ENOENT)
        if path == to:
            return forget
        if not path or not to:
            raise system_error(errno.EBUSY)
        if path.startswith(to + b"/"):
            raise system_error(errno.ENOTEMPTY)
        if source.file is None:
            self._rename_folder(path, to, target)
        elif target is None:
            self._tree.rename(name_place(path), name_place(to))
        else:
            forget = self._replace_file(path, to, target)
        self._tree.sync_later(name_place(parent(path)))
        self._tree.sync_later(name_place(parent(to)))
        return forget

    def recover(self) -> None:
        """Clean up what a killed process left behind."""
        for left in self._tree.list(b"temp"):
            self._tree.remove_all(b"temp/" + left)
        self._finish_replacing()
        for name in self._tree.list(b"unlinked"):
            with suppress(ValueError):  # the name is not an id, so the file is not ours
                if self._tree.status(b"unlinked/" + name).st_nlink == 3:
                    self._tree.remove(b"unlinked/" + name)  # the file still has its name: the rename did not happen
                else:
                    self._tree.remove(id_place(int(name, 16)))
        for folder in self._tree.list(b"ids"):
            with suppress(NotADirectoryError):  # not ours
                for name in self._tree.list(b"ids/" + folder):
                    place = b"ids/" + folder + b"/" + name
                    status = self._tree.status(place)
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:  # the file never got a name
                        self._tree.rename(place, b"unlinked/" + name)

    # Steps of these requests

    def _new_record(self, path: bytes, request: payloads.CreateRequest) -> Record:
        """Build the record of a new file or folder; without a layout in the request, it inherits its folder's."""
        above = self._read(parent(path))
        inherited = above.mode & stat.S_ISGID
        return Record(
            file=0,
            layout=above.layout if request.layout is None else read_layout(request.layout),
            mode=request.mode & 0o7777 | (inherited if isinstance(request, payloads.MkdirRequest) else 0),
            mtime=0,
            key=request.key,
            uid=request.uid,
            gid=above.gid if inherited else request.gid,
        )

    def _create(self, path: bytes, request: payloads.OpenRequest) -> Record:
        new = self._new_record(path, request)
        temp = self._tree.temporary_place()
        try:
            record = self._write_with_id(temp, new)
            try:
                self._tree.link(temp, name_place(path))
            except OSError:
                self._tree.remove(id_place(record.file or 0))
                raise
        except OSError:
            self._tree.remove(temp)
            raise
        self._tree.sync_later(name_place(parent(path)))
        self._tree.remove(temp)
        return record

    def _write_with_id(self, temp: bytes, new: Record) -> Record:
        """Write the record of a new file, with an id that no other file has."""
        while True:
            file = self._new_id()
            layout = settle_layout(new.layout, self._servers, file)
            record = replace(new, file=file, layout=layout, mtime=time.time_ns())
            self._tree.write_record(temp, record)
            with suppress(FileExistsError):
                self._tree.link_by_id(temp, file)
                return record

    def _replace_file(self, path: bytes, to: bytes, target: Record) -> ForgetList:
        if target.file is None:
            raise system_error(errno.EISDIR)
        with suppress(FileExistsError):
            self._tree.link(name_place(to), unlinked_place(target.file))
        try:
            self._tree.rename(name_place(path), name_place(to))
        except OSError:
            self._tree.remove(unlinked_place(target.file))
            raise
        return self._drop_id(target.file, target.layout)

    def _drop_id(self, file: int, layout: Layout) -> ForgetList:
        self._tree.remove(id_place(file))
        return ForgetList(forget=[(file, layout_fields(layout))])

    def _rename_folder(self, path: bytes, to: bytes, target: Record | None) -> None:
        if to.startswith(path + b"/"):
            raise system_error(errno.EINVAL)
        if target is None:
            self._tree.rename(name_place(path), name_place(to))
            return
        self._check_empty(to, target)
        temp = self._tree.temporary_place()
        self._tree.replace(temp, path + b"\0" + to)
        self._tree.rename(temp, b"replacing")
        self._finish_replacing()

    def _finish_replacing(self) -> None:
        """Replace an empty folder by another one. This takes two steps; `replacing` exists until both are done."""
        if not self._tree.exists(b"replacing"):
            return
        path, _, to = self._tree.read(b"replacing").partition(b"\0")
        if self._tree.exists(name_place(path)):
            self._tree.remove(folder_record_place(to))
            self._tree.rename(name_place(path), name_place(to))
        self._tree.remove(b"replacing")

    def _check_empty(self, path: bytes, record: Record | None) -> None:
        """Raise OSError unless the path is an empty folder."""
        if record is None:
            raise system_error(errno.ENOENT)
        if record.file is not None:
            raise system_error(errno.ENOTDIR)
        if not path:
            raise system_error(errno.EBUSY)
        if self.list_names(path, most=1).entries:
            raise system_error(errno.ENOTEMPTY)

    def _read_by_id(self, file: int) -> Record:
        """Read the record with this id; raises ESTALE if the file has no name any more."""
        try:
            return self._tree.read_record(id_place(file))
        except FileNotFoundError:
            raise system_error(errno.ESTALE) from None

    def _find(self, path: bytes) -> Record | None:
        with suppress(FileNotFoundError):
            return self._read(path)
        return None

    def _read(self, path: bytes) -> Record:
        return self._tree.read_record(name_place(path))


NAME_KINDS = tuple(kind for kind in Kind if hasattr(Names, f"do_{kind.name.lower()}"))
"""The kinds of messages that `Names` answers."""


def name_place(path: bytes) -> bytes:
    return b"names/" + path if path else b"names"


def parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def folder_record_place(path: bytes) -> bytes:
    return name_place(path) + b"/" + FOLDER


def unlinked_place(file: int) -> bytes:
    return f"unlinked/{file:016x}".encode()


def _file_status(record: Record, *, created: bool = False) -> FileStatus:
    fields = {name: getattr(record, name) for name in ("file", "mode", "mtime", "ctime", "stamp", "uid", "gid")}
    layout = layout_fields(record.layout)
    return FileStatus(layout_fields=layout, is_folder=record.file is None, created=created, **fields)


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """Whether an entry is a folder; None for a folder's record and for anything that the layer did not create."""
    if entry.name == os.fsdecode(FOLDER):
        return None
    if entry.is_dir(follow_symlinks=False):
        return True
    return False if entry.is_file(follow_symlinks=False) else None
