"""The record that the server of the names keeps for each file or folder, and how it gets to disk."""

import errno
import json
import os
import secrets
import shutil
import stat
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from forebay.act.forward.data.tree import Tree, spread_place
from forebay.act.forward.net.payloads import layout_fields
from forebay.model.layout import Layout

FOLDER = b".forebay-folder"
"""The name of the record in each folder; no file can have this name."""
LONGEST_NAME = 255
LONGEST_PATH = 4000
_RECORD = 512
"""Bytes of a record: one sector, so that a write changes all of the record or nothing."""
_MOST_UNSYNCED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The record of a file, or of a folder if `file` is None.

    `mtime` (ns since 1970) was set when the latest mtime of the file's objects was `stamp`. As soon as an object has a
    later mtime, that one is the file's. So no server's clock is compared with that of another. `key` is the key of the
    request that created the file. `uid` and `gid` are its owner; None stands for the user who mounts the layer. `ctime`
    is when the record itself last changed: its mode, times or name.
    """

    file: int | None
    layout: Layout
    mode: int
    mtime: int
    stamp: int = 0
    key: int = 0
    uid: int | None = None
    gid: int | None = None
    ctime: int = field(default=0, compare=False)  # from the status of the record on disk, so not part of its content


class RecordTree(Tree):
    """The folder of the server of the names: names, ids, unlinked files, and new files before they have a name."""

    def __init__(self, folder: Path) -> None:
        for name in ("names", "ids", "unlinked", "temp"):
            (folder / name).mkdir(exist_ok=True)
        super().__init__(folder)
        self._unsynced: OrderedDict[int, int] = OrderedDict()  # folders with new names: inode -> descriptor

    def close(self) -> None:
        for descriptor in self._unsynced.values():
            os.close(descriptor)
        self._unsynced.clear()
        super().close()

    def read_record(self, place: bytes) -> Record:
        """Read the record of a file, or the record inside a folder."""
        with self.parent(place) as (folder, name):
            return _read_at(folder, name)

    def write_record(self, place: bytes, record: Record) -> None:
        """Write a new record, or replace the existing one in place."""
        fields = asdict(record) | {"layout": layout_fields(record.layout)}
        del fields["ctime"]
        text = json.dumps(fields, separators=(",", ":")).encode().ljust(_RECORD - 1) + b"\n"
        handle = self.open_file(place, os.O_WRONLY | os.O_CREAT)
        try:
            if os.pwrite(handle, text, 0) != _RECORD:
                raise system_error(errno.ENOSPC)
        finally:
            os.close(handle)

    def link_by_id(self, place: bytes, file: int) -> None:
        """Link a record under its file's id; raises FileExistsError if the id is taken."""
        to = id_place(file)
        try:
            self.link(place, to)
        except FileNotFoundError:
            self.mkdir(to[:6])
            self.link(place, to)

    def temporary_place(self) -> bytes:
        return b"temp/" + secrets.token_hex(8).encode()

    def remove_all(self, place: bytes) -> None:
        """Remove a file, or a folder with everything in it."""
        with suppress(FileNotFoundError), self.parent(place) as (folder, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def sync_later(self, place: bytes) -> None:
        """Remember that names in the folder changed, so that the next sync writes it to disk."""
        handle = self.open_folder(place)
        if self._unsynced.setdefault(os.fstat(handle).st_ino, handle) != handle:
            os.close(handle)
        if len(self._unsynced) > _MOST_UNSYNCED:
            _, oldest = self._unsynced.popitem(last=False)
            os.fsync(oldest)
            os.close(oldest)

    def descriptors_to_sync(self, file: int) -> Sequence[int]:
        """Open new descriptors of the file's record and of all folders whose names changed."""
        place = id_place(file)
        with suppress(FileNotFoundError):
            descriptors = [self.open_file(place, os.O_RDONLY)]
            descriptors += (self.open_folder(each) for each in (place[:6], b"ids"))
            descriptors += self._unsynced.values()
            self._unsynced.clear()
            return descriptors
        return []


def clean_path(path: bytes) -> bytes:
    """Return the path in canonical form; raises OSError if no file can have this path.

    >>> clean_path(b"a//b/./c/")
    b'a/b/c'
    """
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if path.startswith(b"/") or b"\0" in path or b".." in parts:
        raise system_error(errno.EINVAL)
    if FOLDER in parts:
        raise system_error(errno.EPERM)
    cleaned = b"/".join(parts)
    if len(cleaned) > LONGEST_PATH or any(len(part) > LONGEST_NAME for part in parts):
        raise system_error(errno.ENAMETOOLONG)
    return cleaned


def system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def id_place(file: int) -> bytes:
    return b"ids/" + spread_place(file)


def _read_at(folder: int, name: bytes) -> Record:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode) and name != FOLDER:
            return _read_at(handle, FOLDER)
        if not stat.S_ISREG(status.st_mode):
            raise system_error(errno.EIO)
        return _decode(os.pread(handle, _RECORD, 0), status.st_ctime_ns)
    finally:
        os.close(handle)


def _decode(text: bytes, ctime: int) -> Record:
    try:
        fields: dict[str, Any] = json.loads(text)
        count, size, start = fields.pop("layout")
        return Record(layout=Layout(count=count, size=size, start=start), ctime=ctime, **fields)
    except (ValueError, TypeError, KeyError):
        raise OSError(errno.EIO, "the record of this name is damaged") from None
