"""What the server of the names writes down of a file or folder, and how it gets to the disk."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from forebay.act.forward.data.tree import Parent, list_folder, open_file, open_folder, rename
from forebay.model.layout import Layout

FOLDER = b".forebay-folder"
"""The name of the record in each folder; no file can have it."""
LONGEST_NAME = 255
LONGEST_PATH = 4000
_RECORD = 512
"""Bytes of a record: one sector, so that one write changes all of it or nothing."""
_MOST_UNSYNCED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a file or (where `file` is None) of a folder.

    `mtime` (ns since 1970) is what was set last, when the latest of the objects' own times was `stamp`: once an
    object's time is later, that is the file's. So no server's clock is ever compared with another's. `key` is
    that of the request which made it. `uid` and `gid` are whose it is; None is for whoever mounts the layer. `ctime` is
    when the record itself last changed: its mode, times or name.
    """

    file: int | None
    layout: Layout
    mode: int
    mtime: int
    stamp: int = 0
    key: int = 0
    uid: int | None = None
    gid: int | None = None
    ctime: int = field(default=0, compare=False)  # the record's own on the disk, so it is not written into it

    def changed(self, latest: int) -> int:
        """When the file last changed, if `latest` is the latest of its objects' times."""
        return latest if latest > self.stamp else self.mtime


class Shelf:
    """The folder with the names, ids, unlinked files and what is being made; paths are bytes below it.

    `step` is called with some words after each change of the disk.
    """

    def __init__(self, folder: Path, step: Callable[[str], None]) -> None:
        self.folder, self.step = folder, step
        for name in ("names", "ids", "unlinked", "temp"):
            (folder / name).mkdir(exist_ok=True)
        self.base = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._unsynced: OrderedDict[int, int] = OrderedDict()  # folders with new names in them: inode -> descriptor

    def close(self) -> None:
        for descriptor in (*self._unsynced.values(), self.base):
            os.close(descriptor)
        self._unsynced.clear()

    def read(self, place: bytes) -> Record:
        """Of a file that is at that place; of a folder, what is in it."""
        with Parent(self.base, place) as (folder, name):
            return _read_at(folder, name)

    def write(self, place: bytes, record: Record) -> None:
        """In place, or new."""
        handle = open_file(self.base, place, os.O_WRONLY | os.O_CREAT)
        try:
            if os.pwrite(handle, _text(record), 0) != _RECORD:
                raise error(errno.ENOSPC)
        finally:
            os.close(handle)

    def status(self, place: bytes) -> os.stat_result:
        with Parent(self.base, place) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def exists(self, place: bytes) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            self.status(place)
            return True
        return False

    def link(self, place: bytes, to: bytes) -> None:
        with Parent(self.base, place) as (folder, name), Parent(self.base, to) as (into, new):
            os.link(name, new, src_dir_fd=folder, dst_dir_fd=into, follow_symlinks=False)

    def link_by_id(self, place: bytes, file: int) -> None:
        """FileExistsError where the id is taken."""
        to = by_id(file)
        try:
            self.link(place, to)
        except FileNotFoundError:
            self.mkdir(to[:6])
            self.link(place, to)

    def mkdir(self, place: bytes) -> None:
        with Parent(self.base, place) as (folder, name):
            os.mkdir(name, dir_fd=folder)

    def rename(self, place: bytes, to: bytes) -> None:
        rename(self.base, place, to)

    def drop(self, place: bytes) -> None:
        """Remove it, if it is there."""
        with suppress(FileNotFoundError), Parent(self.base, place) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def temp(self) -> bytes:
        return b"temp/" + secrets.token_hex(8).encode()

    def clear(self, place: bytes) -> None:
        """Remove whatever is there, with all that is in it."""
        with suppress(FileNotFoundError), Parent(self.base, place) as (folder, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def list(self, place: bytes) -> list[bytes]:
        """The names in a folder."""
        return list_folder(self.base, place)

    def touched(self, place: bytes) -> None:
        """The names in the folder changed: it must get to the disk with the next sync."""
        handle = open_folder(self.base, place)
        if self._unsynced.setdefault(os.fstat(handle).st_ino, handle) != handle:
            os.close(handle)
        if len(self._unsynced) > _MOST_UNSYNCED:
            _, oldest = self._unsynced.popitem(last=False)
            os.fsync(oldest)
            os.close(oldest)

    def to_sync(self, file: int) -> Sequence[int]:
        """Descriptors of the caller's own: of the file's record, and of all folders that were touched."""
        place = by_id(file)
        with suppress(FileNotFoundError):
            found = [open_file(self.base, place, os.O_RDONLY)]
            found += (open_folder(self.base, each) for each in (place[:6], b"ids"))
            found += self._unsynced.values()
            self._unsynced.clear()
            return found
        return []


def clean(path: bytes) -> bytes:
    """The path in its only form; raises where no file can have it.

    >>> clean(b"a//b/./c/")
    b'a/b/c'
    """
    if path.startswith(b"/") or b"\0" in path:
        raise error(errno.EINVAL)
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise error(errno.EINVAL)
    if FOLDER in parts:
        raise error(errno.EPERM)
    cleaned = b"/".join(parts)
    if len(cleaned) > LONGEST_PATH or any(len(part) > LONGEST_NAME for part in parts):
        raise error(errno.ENAMETOOLONG)
    return cleaned


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def named(path: bytes) -> bytes:
    """Where the name is."""
    return b"names/" + path if path else b"names"


def parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def inside(path: bytes) -> bytes:
    """Where a folder's record is."""
    return named(path) + b"/" + FOLDER


def by_id(file: int) -> bytes:
    name = f"{file:016x}".encode()
    return b"ids/" + name[:2] + b"/" + name


def unlinked(file: int) -> bytes:
    return f"unlinked/{file:016x}".encode()


def _read_at(folder: int, name: bytes) -> Record:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode) and name != FOLDER:
            return _read_at(handle, FOLDER)
        if not stat.S_ISREG(status.st_mode):
            raise error(errno.EIO)
        return _record(os.pread(handle, _RECORD, 0), status.st_ctime_ns)
    finally:
        os.close(handle)


def _text(record: Record) -> bytes:
    words = asdict(record) | {"layout": [record.layout.count, record.layout.size, record.layout.start]}
    del words["ctime"]
    return json.dumps(words, separators=(",", ":")).encode().ljust(_RECORD - 1) + b"\n"


def _record(text: bytes, ctime: int) -> Record:
    try:
        words: dict[str, Any] = json.loads(text)
        count, size, start = words.pop("layout")
        return Record(layout=Layout(count=count, size=size, start=start), ctime=ctime, **words)
    except (ValueError, TypeError, KeyError):
        raise OSError(errno.EIO, "a name's record can't be read") from None
