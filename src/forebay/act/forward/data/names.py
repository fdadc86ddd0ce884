"""The names of files: a real tree of folders in which a file is a small record that says where its bytes are.

    names/…            the tree; a file is its record, a folder holds one of its own with a reserved name
    ids/ab/ab54…       the same record again (a hard link), by the file's id
    unlinked/ab54…     and again, from the moment its name is gone until no server has its objects any more
    temp/…             what is being made; nothing in it counts
    replacing          the names of a folder and of the empty one whose place it takes

Every change becomes visible by one link or one rename, so that a process that is killed leaves the old state or the
new one; how many links a record has then tells which, and `recover` puts the rest in order.
"""

from __future__ import annotations

import errno
import heapq
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from forebay.act.forward.data.records import (
    FOLDER,
    Record,
    Shelf,
    by_id,
    clean,
    error,
    inside,
    named,
    parent,
    unlinked,
)
from forebay.act.forward.data.tree import open_folder, read_file, replace_file
from forebay.act.forward.striping import settled
from forebay.model.layout import Layout

Forget = tuple[int, Layout]
"""A file that has no name any more: its id, and where its objects are."""
Owner = tuple[int | None, int | None]
"""A user and a group; None is for whoever mounts the layer."""
NOBODY: Owner = None, None
_PAGE = 32768


def _nothing(_: str) -> None:
    pass


def _random_id() -> int:
    return secrets.randbits(63)


class Names:
    """The tree under `folder`, for a layer of so many `servers`; new folders begin with the layout `default`.

    All errors are OSErrors with the errno that a program should see. `again` says that the request with this
    `key` may have been done before, and its answer lost: then what it wanted being so is no error. `step` is called
    after each change of the disk, for tests that stop there.
    """

    def __init__(
        self,
        folder: Path,
        servers: int,
        default: Layout,
        *,
        new_id: Callable[[], int] = _random_id,
        now: Callable[[], int] = time.time_ns,
        step: Callable[[str], None] = _nothing,
    ) -> None:
        self._servers, self._new_id, self._now = servers, new_id, now
        self._shelf = Shelf(folder, step)
        self._step = step
        self.close, self.to_sync = self._shelf.close, self._shelf.to_sync
        self.recover()
        if not self._shelf.exists(inside(b"")):
            temp = self._shelf.temp()
            self._shelf.write(temp, Record(file=None, layout=default, mode=0o755, mtime=self._now()))
            self._shelf.rename(temp, inside(b""))

    # Files

    def open(
        self,
        path: bytes,
        *,
        create: bool = False,
        exclusive: bool = False,
        mode: int = 0o644,
        layout: Layout | None = None,
        owner: Owner = NOBODY,
        key: int = 0,
        again: bool = False,
    ) -> tuple[Record, bool]:
        """The file's record, and whether this request made it."""
        path = clean(path)
        found = self._found(path)
        if found is None:
            if not create:
                raise error(errno.ENOENT)
            return self._create(path, mode, layout, owner, key), True
        if create and exclusive:
            if again and key and found.key == key:
                return found, True
            raise error(errno.EEXIST)
        if found.file is None:
            raise error(errno.EISDIR)
        return found, False

    def attach(self, file: int) -> Record:
        """The record of a file by its id; ESTALE where its name is gone."""
        try:
            return self._shelf.read(by_id(file))
        except FileNotFoundError:
            raise error(errno.ESTALE) from None

    def stat(self, path: bytes) -> Record:
        """The record; of a folder with the times at which its names last changed."""
        path = clean(path)
        found = self._known(path)
        if found.file is not None:
            return found
        status = self._shelf.status(named(path))
        ctime = max(found.ctime, status.st_ctime_ns)
        return replace(found, mtime=found.changed(status.st_mtime_ns), ctime=ctime)

    def set_attributes(
        self,
        where: bytes | int,
        *,
        mode: int | None = None,
        mtime: int | None = None,
        stamp: int = 0,
        owner: Owner = NOBODY,
    ) -> None:
        """Of a file by its path or id, or of a folder; `stamp` is the latest of the objects' times. None leaves it."""
        if isinstance(where, int):
            place, found = by_id(where), self.attach(where)
        else:
            path = clean(where)
            found = self._known(path)
            place = named(path) if found.file is not None else inside(path)
            stamp = stamp if found.file is not None else self._folder_time(path)
        if mode is not None:
            found = replace(found, mode=mode & 0o7777)
        if mtime is not None:
            found = replace(found, mtime=mtime, stamp=stamp)
        uid, gid = owner
        found = replace(found, uid=found.uid if uid is None else uid, gid=found.gid if gid is None else gid)
        self._shelf.write(place, found)
        self._step("attributes: written")

    def unlink(self, path: bytes, *, again: bool = False) -> list[Forget]:
        """The name is gone; the file's objects are to be forgotten by all servers, then `forgotten` called."""
        path = clean(path)
        found = self._found(path)
        if found is None and again:
            return []
        if found is None:
            raise error(errno.ENOENT)
        if found.file is None:
            raise error(errno.EISDIR)
        self._shelf.rename(named(path), unlinked(found.file))
        self._shelf.touched(named(parent(path)))
        self._step("unlink: renamed")
        return [self._disowned(found.file, found.layout)]

    def pending(self) -> Iterator[Forget]:
        """Files without a name whose objects may still be there."""
        for name in self._shelf.list(b"unlinked"):
            with suppress(OSError):
                record = self._shelf.read(b"unlinked/" + name)
                if record.file is not None:
                    yield record.file, record.layout

    def forgotten(self, file: int) -> None:
        """No server has the file's objects any more."""
        self._shelf.drop(unlinked(file))
        self._step("forgotten")

    # Folders

    def mkdir(
        self,
        path: bytes,
        *,
        mode: int = 0o755,
        layout: Layout | None = None,
        owner: Owner = NOBODY,
        key: int = 0,
        again: bool = False,
    ) -> None:
        """A new folder; without a layout it has its parent's."""
        path = clean(path)
        found = self._found(path)
        if found is not None and again and key and found.file is None and found.key == key:
            return
        if found is not None:
            raise error(errno.EEXIST)
        above = self._known(parent(path))
        uid, gid = _owner_in(above, owner)
        mode = mode & 0o7777 | above.mode & stat.S_ISGID
        record = Record(
            file=None, layout=layout or above.layout, mode=mode, mtime=self._now(), key=key, uid=uid, gid=gid
        )
        temp = self._shelf.temp()
        try:
            self._make_folder(temp, record)
            self._shelf.rename(temp, named(path))
        except OSError:
            self._shelf.clear(temp)
            raise
        self._shelf.touched(named(path))
        self._shelf.touched(named(parent(path)))
        self._step("mkdir: renamed")

    def rmdir(self, path: bytes, *, again: bool = False) -> None:
        path = clean(path)
        found = self._found(path)
        if found is None and again:
            return
        self._check_empty(path, found)
        temp = self._shelf.temp()
        self._shelf.rename(named(path), temp)
        self._shelf.touched(named(parent(path)))
        self._step("rmdir: renamed")
        self._shelf.clear(temp)
        self._step("rmdir: removed")

    def readdir(self, path: bytes, after: bytes = b"", most: int = _PAGE) -> tuple[list[tuple[bytes, bool]], bool]:
        """Names and whether each is a folder, in their order, behind `after`; and whether there are more."""
        folder = open_folder(self._shelf.base, named(clean(path)))
        try:
            with os.scandir(folder) as entries:
                kinds = ((os.fsencode(entry.name), _is_folder(entry)) for entry in entries)
                ours = ((name, folder) for name, folder in kinds if folder is not None)
                behind = (entry for entry in ours if entry[0] > after and entry[0] != FOLDER)
                found = heapq.nsmallest(most + 1, behind)
        finally:
            os.close(folder)
        return found[:most], len(found) > most

    def layout(self, path: bytes) -> Layout:
        return self._known(clean(path)).layout

    def set_layout(self, path: bytes, layout: Layout) -> None:
        """What new files and folders in this folder get; files that exist keep theirs."""
        path = clean(path)
        found = self._known(path)
        if found.file is not None:
            raise error(errno.ENOTDIR)
        self._shelf.write(inside(path), replace(found, layout=layout))
        self._step("layout: written")

    # Both

    def rename(self, path: bytes, to: bytes, *, again: bool = False) -> list[Forget]:
        """Another name; a file that had it before is unlinked, an empty folder that had it is removed."""
        path, to = clean(path), clean(to)
        for folder in (parent(path), parent(to)):  # in the order of the kernel, so that its errors are ours
            self._check_folder(folder)
        source, target = self._found(path), self._found(to)
        if source is None and target is not None and again:
            return []
        if source is None:
            raise error(errno.ENOENT)
        if path == to:
            return []
        if not path or not to:
            raise error(errno.EBUSY)
        if path.startswith(to + b"/"):
            raise error(errno.ENOTEMPTY)
        if source.file is None:
            self._rename_folder(path, to, target)
        elif target is None:
            self._shelf.rename(named(path), named(to))
        else:
            return self._replace_file(path, to, target)
        self._renamed(path, to)
        return []

    def recover(self) -> None:
        """Put in order what a process that was killed left behind."""
        for left in self._shelf.list(b"temp"):
            self._shelf.clear(b"temp/" + left)
        self._finish_replacing()
        for name in self._shelf.list(b"unlinked"):
            with suppress(ValueError):  # not an id: not ours
                self._recover_unlinked(name)
        for folder in self._shelf.list(b"ids"):
            with suppress(NotADirectoryError):  # not ours
                self._recover_ids(b"ids/" + folder)

    # Steps of the above

    def _create(self, path: bytes, mode: int, layout: Layout | None, owner: Owner, key: int) -> Record:
        above = self._known(parent(path))
        wanted, (uid, gid) = layout or above.layout, _owner_in(above, owner)
        temp = self._shelf.temp()
        try:
            new = Record(file=0, layout=wanted, mode=mode & 0o7777, mtime=0, key=key, uid=uid, gid=gid)
            record = self._with_id(temp, wanted, new)
            try:
                self._shelf.link(temp, named(path))
            except OSError:
                self._shelf.drop(by_id(record.file or 0))
                raise
        except OSError:
            self._shelf.drop(temp)
            raise
        self._shelf.touched(named(parent(path)))
        self._step("create: named")
        self._shelf.drop(temp)
        self._step("create: done")
        return record

    def _with_id(self, temp: bytes, wanted: Layout, record: Record) -> Record:
        """The record of a new file, written and known by an id that no other has."""
        while True:
            file = self._new_id()
            layout = settled(wanted, self._servers, file)
            record = replace(record, file=file, layout=layout, mtime=self._now())
            self._shelf.write(temp, record)
            self._step("create: written")
            with suppress(FileExistsError):
                self._shelf.link_by_id(temp, file)
                self._step("create: has its id")
                return record

    def _make_folder(self, place: bytes, record: Record) -> None:
        self._shelf.mkdir(place)
        self._step("mkdir: made")
        self._shelf.write(place + b"/" + FOLDER, record)
        self._step("mkdir: recorded")

    def _replace_file(self, path: bytes, to: bytes, target: Record) -> list[Forget]:
        if target.file is None:
            raise error(errno.EISDIR)
        with suppress(FileExistsError):
            self._shelf.link(named(to), unlinked(target.file))
        self._step("rename: intended")
        try:
            self._shelf.rename(named(path), named(to))
        except OSError:
            self._shelf.drop(unlinked(target.file))
            raise
        self._renamed(path, to)
        return [self._disowned(target.file, target.layout)]

    def _rename_folder(self, path: bytes, to: bytes, target: Record | None) -> None:
        if to.startswith(path + b"/"):
            raise error(errno.EINVAL)
        if target is None:
            self._shelf.rename(named(path), named(to))
            return
        self._check_empty(to, target)
        temp = self._shelf.temp()
        replace_file(self._shelf.base, temp, path + b"\0" + to)
        self._shelf.rename(temp, b"replacing")
        self._step("replace: intended")
        self._finish_replacing()

    def _finish_replacing(self) -> None:
        """A folder that takes the place of an empty one: two steps, and a note that says so between them."""
        if not self._shelf.exists(b"replacing"):
            return
        path, _, to = read_file(self._shelf.base, b"replacing").partition(b"\0")
        if self._shelf.exists(named(path)):
            self._shelf.drop(inside(to))
            self._step("replace: emptied")
            self._shelf.rename(named(path), named(to))
            self._step("replace: renamed")
        self._shelf.drop(b"replacing")

    def _renamed(self, path: bytes, to: bytes) -> None:
        self._shelf.touched(named(parent(path)))
        self._shelf.touched(named(parent(to)))
        self._step("rename: renamed")

    def _recover_unlinked(self, name: bytes) -> None:
        if self._shelf.status(b"unlinked/" + name).st_nlink == 3:
            self._shelf.drop(b"unlinked/" + name)  # it still has its name: what would have taken that never came
        else:
            self._shelf.drop(by_id(int(name, 16)))

    def _recover_ids(self, folder: bytes) -> None:
        for name in self._shelf.list(folder):
            status = self._shelf.status(folder + b"/" + name)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:  # it never got a name, and nobody knows of it
                self._shelf.rename(folder + b"/" + name, b"unlinked/" + name)

    def _disowned(self, file: int, layout: Layout) -> Forget:
        self._shelf.drop(by_id(file))
        self._step("unlink: has no id")
        return file, layout

    def _check_folder(self, path: bytes) -> None:
        if not stat.S_ISDIR(self._shelf.status(named(path)).st_mode):
            raise error(errno.ENOTDIR)

    def _check_empty(self, path: bytes, found: Record | None) -> None:
        """Raises unless the path is that of an empty folder."""
        if found is None:
            raise error(errno.ENOENT)
        if found.file is not None:
            raise error(errno.ENOTDIR)
        if not path:
            raise error(errno.EBUSY)
        if self.readdir(path, most=1)[0]:
            raise error(errno.ENOTEMPTY)

    def _found(self, path: bytes) -> Record | None:
        try:
            return self._known(path)
        except FileNotFoundError:
            return None

    def _known(self, path: bytes) -> Record:
        return self._shelf.read(named(path))

    def _folder_time(self, path: bytes) -> int:
        return self._shelf.status(named(path)).st_mtime_ns


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """None of what the layer has not made: a link, a pipe, ..."""
    if entry.is_dir(follow_symlinks=False):
        return True
    return False if entry.is_file(follow_symlinks=False) else None


def _owner_in(above: Record, owner: Owner) -> Owner:
    """Of something new in that folder: the group is the folder's where its mode says so."""
    return (owner[0], above.gid) if above.mode & stat.S_ISGID else owner
