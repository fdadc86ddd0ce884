"""The database of the server of the names: what each file is, and which names it has.

    nodes        files, folders and everything else, by id
    names        the names in each folder, and the id that each stands for
    attributes   extended attributes

A change is one transaction. A process that is killed at any moment leaves the old state or the new one: SQLite
recovers from its write-ahead log. A power failure can lose changes that were not synced, but only the latest ones.

Only this module imports sqlite3.
"""

import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from forebay.act.forward.data.disk_space import DiskSpace
from forebay.act.forward.net.payloads import ROOT, LayoutFields
from forebay.model.layout import Layout

DATABASE = "names.db"
_SCHEMA = """
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY, mode INTEGER NOT NULL, uid INTEGER, gid INTEGER, links INTEGER NOT NULL,
    atime INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL,
    stamp INTEGER NOT NULL DEFAULT 0, read_stamp INTEGER NOT NULL DEFAULT 0,
    stripes INTEGER NOT NULL, stripe_size INTEGER NOT NULL, first_server INTEGER NOT NULL,
    key INTEGER NOT NULL DEFAULT 0, parent INTEGER NOT NULL DEFAULT 0, device INTEGER NOT NULL DEFAULT 0, target BLOB,
    spread INTEGER NOT NULL, away INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX unnamed ON nodes (links) WHERE links < 1;
CREATE TABLE names (
    folder INTEGER NOT NULL, name BLOB NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (folder, name)
) WITHOUT ROWID;
CREATE TABLE attributes (
    id INTEGER NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (id, name)
) WITHOUT ROWID;
"""
_MOVES = (
    "CREATE TABLE IF NOT EXISTS moves (folder INTEGER PRIMARY KEY, dropped INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS dropped ON moves (dropped)",
)
"""Folders of another server than 0 that server 0 takes over (`dropped` is 0), or has taken over."""
_CACHE = 64 << 10
"""KiB of the database to keep in memory."""
_LOG = 8 << 20
"""Bytes of the write-ahead log from which on it needs a checkpoint; less on a small or full disk."""
_LOW = 4
"""How many times shorter the log is on a full disk."""
_NAME_BYTES = 256
"""Bytes that a name takes besides its length."""
PER_NAME = 16 << 10
"""Bytes that a new name may take at once: pages of the database and the log."""
_BUSY = 0.1
"""Seconds for which a checkpoint waits for others; requests for names may wait for it."""
REMOVED = -1
"""The number of links of a file whose objects the servers remove."""
FRESH = -1
"""A new folder; its first file decides on which server its names will be."""
_MOST_DROPPED = 1 << 16
_MOST_KEPT = 4096
"""Folders to keep in memory, since all requests for names in a folder read it."""

T = TypeVar("T")


class Node(NamedTuple):
    """A file, a folder or anything else that has names. `mode` includes its type; times in ns since 1970.

    `mtime` was set when the latest mtime of the file's objects was `stamp`. As soon as an object has a later mtime,
    that one is the file's; `atime` and `read_stamp` work in the same way. So no server's clock is compared with that
    of another. `key` is the key of the request that created the file. `uid` and `gid` are its owner; None stands for
    the user who mounts the layer. `parent` is the folder above a folder, `device` the number of a device, and `target`
    where a symbolic link leads. A file whose last name is gone has no `links`; while somebody has it open, it exists.
    Until a file is `spread`, it has only one object, on its first server. What a folder holds can be `away`, on the
    server with this number; other servers than 0 note the folder of a file as its `parent`.
    """

    id: int
    mode: int
    uid: int | None
    gid: int | None
    links: int
    atime: int
    mtime: int
    ctime: int
    stamp: int
    read_stamp: int
    stripes: int
    stripe_size: int
    first_server: int
    key: int
    parent: int = 0
    device: int = 0
    target: bytes | None = None
    spread: int = 0
    away: int = 0

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def has_bytes(self) -> bool:
        """Whether data servers have bytes of it."""
        return stat.S_ISREG(self.mode)

    @property
    def layout(self) -> Layout:
        return Layout(count=self.stripes, size=self.stripe_size, start=self.first_server)

    @property
    def layout_fields(self) -> LayoutFields:
        return self.stripes, self.stripe_size, self.first_server

    @property
    def in_one_object(self) -> bool:
        return not self.spread or self.stripes == 1

    @property
    def object_fields(self) -> LayoutFields:
        """A layout that leads to all objects of the file."""
        return 1 if self.in_one_object else self.stripes, self.stripe_size, self.first_server


_COLUMNS = ", ".join(f"nodes.{name}" for name in Node._fields)
_MARKS = ", ".join("?" * len(Node._fields))
_READ = f"SELECT {_COLUMNS} FROM nodes WHERE id = ?"
_FIND = f"SELECT {_COLUMNS} FROM names JOIN nodes ON nodes.id = names.id WHERE folder = ? AND name = ?"
_LIST = (
    "SELECT name, mode, nodes.id FROM names JOIN nodes ON nodes.id = names.id "
    "WHERE folder = ? AND name > ? ORDER BY name LIMIT ?"
)
_LIST_SINGLE = (
    "SELECT nodes.id FROM names JOIN nodes ON nodes.id = names.id "
    "WHERE folder = ? AND name >= ? AND links = 1 AND mode & ? != ? ORDER BY name LIMIT ?"
)
_ATTRIBUTES = "SELECT name, value FROM attributes WHERE id = ?"


class NameStore:
    """The database in `folder`. A `with` block is one transaction, which an error undoes.

    `space` is that of its disk. New names are claimed from it. All else is done in `change`, which a full disk does not
    stop.

    Errors are OSErrors. One thread at a time may use it, but `checkpoint` may run in any.
    """

    def __init__(self, folder: Path, name: str = DATABASE, space: DiskSpace | None = None) -> None:
        self.path, self.space = folder / name, space or DiskSpace(folder)
        self._folders: dict[int, Node] = {}
        for each in (name, f"{name}-wal", f"{name}-shm"):
            _check_is_ours(folder / each)
        self._db = sqlite3.connect(self.path, isolation_level=None, cached_statements=256, check_same_thread=False)
        try:
            for setting in ("journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 0"):
                self._run(f"PRAGMA {setting}")
            self._run(f"PRAGMA cache_size = -{_CACHE}")
            if not self._run("SELECT 1 FROM sqlite_master").fetchone():
                with self:
                    for statement in _SCHEMA.split(";")[:-1]:
                        self._run(statement)
            elif "away" not in {row[1] for row in self._run("PRAGMA table_info(nodes)")}:
                self._run("ALTER TABLE nodes ADD COLUMN away INTEGER NOT NULL DEFAULT 0")
            for statement in _MOVES:
                self._run(statement)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> None:
        self._run("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._folders.clear()
        try:
            self._run("ROLLBACK" if kind is not None else "COMMIT")
        except OSError:
            self._folders.clear()
            with suppress(OSError):  # SQLite has undone the transaction, or does so now
                self._run("ROLLBACK")
            if kind is None:
                raise

    def claim(self, length: int) -> None:
        """Raise ENOSPC if the disk has no room for so many bytes of new names, even without the log."""
        if not self.space.has_room(length):
            if self._log_bytes() > self.space.margin // _LOW:
                self.empty_log()
            self.space.claim(length)

    def change(self, work: Callable[[], T]) -> T:
        """Do work that adds nothing in one transaction; on a full disk with the space of the log and the spare.

        The work may be done several times, after it has been undone.
        """
        try:
            return self._change(work)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        while not self.empty_log() and self.space.release():
            pass
        return self.space.free(partial(self._change, work))

    def _change(self, work: Callable[[], T]) -> T:
        with self:
            return work()

    # Nodes

    def read(self, id_: int) -> Node | None:
        folder = self._folders.get(id_)
        if folder is not None:
            return folder
        row = self._run(_READ, (id_,)).fetchone()
        if row is None:
            return None
        node = Node._make(row)
        if node.is_folder:
            if len(self._folders) >= _MOST_KEPT:
                self._folders.clear()
            self._folders[id_] = node
        return node

    def add(self, node: Node) -> None:
        """Add a node; raises FileExistsError if its id is taken."""
        self._run(f"INSERT INTO nodes VALUES ({_MARKS})", node)

    def put(self, node: Node) -> None:
        """Add a node, or replace the one with its id."""
        self._run(f"INSERT OR REPLACE INTO nodes VALUES ({_MARKS})", node)
        self._folders.pop(node.id, None)

    def set(self, id_: int, **values: int | bytes | None) -> None:
        """Change some fields of a node."""
        fields = ", ".join(f"{name} = ?" for name in values)
        self._run(f"UPDATE nodes SET {fields} WHERE id = ?", (*values.values(), id_))
        if id_ in self._folders:
            self._folders[id_] = self._folders[id_]._replace(**values)  # type: ignore[arg-type]

    def remove(self, id_: int) -> None:
        self._run("DELETE FROM attributes WHERE id = ?", (id_,))
        self._run("DELETE FROM nodes WHERE id = ?", (id_,))
        self._folders.pop(id_, None)

    def remove_unnamed(self, ids: Sequence[int]) -> None:
        """Remove those of these nodes that have no name."""
        for id_ in ids:
            if self._run("DELETE FROM nodes WHERE id = ? AND links < 1", (id_,)).rowcount:
                self._run("DELETE FROM attributes WHERE id = ?", (id_,))

    def list_unnamed(self, most: int) -> Iterable[Node]:
        """The files without a name whose objects may exist."""
        return map(Node._make, self._run(f"SELECT {_COLUMNS} FROM nodes WHERE links < 1 LIMIT ?", (most,)).fetchall())

    # Names

    def find(self, folder: int, name: bytes) -> Node | None:
        """The node with this name."""
        row = self._run(_FIND, (folder, name)).fetchone()
        return Node._make(row) if row is not None else None

    def put_name(self, folder: int, name: bytes, id_: int) -> None:
        """Add a name, or let it stand for another node."""
        self._run("INSERT OR REPLACE INTO names VALUES (?, ?, ?)", (folder, name, id_))

    def remove_name(self, folder: int, name: bytes) -> None:
        self._run("DELETE FROM names WHERE folder = ? AND name = ?", (folder, name))

    def list_names(self, folder: int, after: bytes, most: int) -> list[tuple[bytes, int, int]]:
        """The names after `after`, in order, each with the mode and the id of its node."""
        page: list[tuple[bytes, int, int]] = self._run(_LIST, (folder, after, most)).fetchall()
        return page

    def list_single(self, folder: int, begin: bytes, most: int) -> list[int]:
        """What has only one name, and that one in this folder, from the name `begin` on; no folders."""
        rows = self._run(_LIST_SINGLE, (folder, begin, stat.S_IFMT(0o177777), stat.S_IFDIR, most))
        return [id_ for (id_,) in rows]

    def has_names(self, folder: int) -> bool:
        return self._run("SELECT 1 FROM names WHERE folder = ? LIMIT 1", (folder,)).fetchone() is not None

    # Extended attributes

    def attribute(self, id_: int, name: bytes) -> bytes | None:
        row = self._run("SELECT value FROM attributes WHERE id = ? AND name = ?", (id_, name)).fetchone()
        return None if row is None else row[0]

    def attribute_names(self, id_: int) -> list[bytes]:
        return [name for (name,) in self._run("SELECT name FROM attributes WHERE id = ? ORDER BY name", (id_,))]

    def attribute_bytes(self, id_: int) -> int:
        """Bytes of all attributes, with their names."""
        of = "SELECT TOTAL(LENGTH(name) + LENGTH(value)) FROM attributes WHERE id = ?"
        return int(self._run(of, (id_,)).fetchone()[0])

    def put_attribute(self, id_: int, name: bytes, value: bytes) -> None:
        self._run("INSERT OR REPLACE INTO attributes VALUES (?, ?, ?)", (id_, name, value))

    def remove_attribute(self, id_: int, name: bytes) -> None:
        self._run("DELETE FROM attributes WHERE id = ? AND name = ?", (id_, name))

    def attributes(self, id_: int) -> list[tuple[bytes, bytes]]:
        pairs: list[tuple[bytes, bytes]] = self._run(_ATTRIBUTES, (id_,)).fetchall()
        return pairs

    def remove_attributes(self, id_: int) -> None:
        self._run("DELETE FROM attributes WHERE id = ?", (id_,))

    # Folders that move

    def list_leaving(self) -> list[int]:
        """The folders that server 0 takes over, and that this server still has."""
        return [folder for (folder,) in self._run("SELECT folder FROM moves WHERE NOT dropped")]

    def has_dropped(self, folder: int) -> bool:
        return self._run("SELECT 1 FROM moves WHERE folder = ? AND dropped", (folder,)).fetchone() is not None

    def measure_contents(self, folder: int) -> int:
        """About how many bytes another server needs to take over what a folder holds, with its log."""
        inside = "FROM names JOIN {} USING (id) WHERE folder = ?"
        names, length = self._run(
            "SELECT COUNT(*), TOTAL(LENGTH(name)) FROM names WHERE folder = ?", (folder,)
        ).fetchone()
        targets = self._run(f"SELECT TOTAL(LENGTH(target)) {inside.format('nodes')}", (folder,)).fetchone()[0]
        sizes = "TOTAL(LENGTH(attributes.name) + LENGTH(value))"
        attributes = self._run(f"SELECT {sizes} {inside.format('attributes')}", (folder,)).fetchone()[0]
        return 2 * int(names * _NAME_BYTES + length + targets + attributes)

    def write_something(self) -> None:
        """Raise OSError if the disk takes no changes; SQLite would not write what is the same as before."""
        self._run("INSERT OR REPLACE INTO moves SELECT 0, COALESCE(MAX(dropped), 0) + 1 FROM moves")

    def mark_leaving(self, folder: int) -> None:
        self._run("INSERT OR REPLACE INTO moves VALUES (?, 0)", (folder,))

    def drop(self, folder: int) -> None:
        """Remove a folder and all that has a name in it; remember that, as long as requests for it may come."""
        inside = "(SELECT id FROM names WHERE folder = ?)"
        self._run(f"DELETE FROM attributes WHERE id IN {inside}", (folder,))
        self._run(f"DELETE FROM nodes WHERE id IN {inside}", (folder,))
        self._folders.clear()
        self._run("DELETE FROM names WHERE folder = ?", (folder,))
        self.remove(folder)
        dropped = self._run("SELECT COALESCE(MAX(dropped), 0) + 1 FROM moves").fetchone()[0]
        self._run("UPDATE moves SET dropped = ? WHERE folder = ?", (dropped, folder))
        self._run("DELETE FROM moves WHERE dropped BETWEEN 1 AND ?", (dropped - _MOST_DROPPED,))

    # The disk

    def descriptors_to_sync(self) -> Sequence[int]:
        """Open new descriptors; once these are synced, no power failure can lose what has changed before."""
        descriptors = []
        for path in (self.path.with_name(f"{self.path.name}-wal"), self.path.parent):
            with suppress(FileNotFoundError):
                descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return descriptors

    def needs_checkpoint(self) -> bool:
        length = self._log_bytes()
        most = min(_LOG, self.space.margin)
        return length > most or (length > most // _LOW and self.space.is_low())

    def _log_bytes(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size  # noqa: PTH116  (called often)
        except FileNotFoundError:
            return 0

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database, but for what is added meanwhile; this waits for the disk."""
        self._run_apart("PRAGMA wal_checkpoint(PASSIVE)")

    def empty_log(self) -> bool:
        """Move all of the log into the database; no other thread may use this object meanwhile.

        Return whether the log is empty: it is not if the disk is too full for what the database needs.
        """
        self._run_apart("PRAGMA wal_checkpoint(TRUNCATE)")
        return not self._log_bytes()

    def _run_apart(self, statement: str) -> None:
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.path, timeout=_BUSY)) as other:
            other.execute(statement)

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise self._as_system_error(error) from None

    def _as_system_error(self, error: sqlite3.Error) -> OSError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_CONSTRAINT:
            return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        number = errno.ENOSPC if code == sqlite3.SQLITE_FULL else self._find_trouble()
        return OSError(number, f"the database of names: {error}")

    def _find_trouble(self) -> int:
        """The errno that says more than SQLite: EROFS if the disk has become read-only, ENOSPC if full, else EIO."""
        try:
            os.utime(self.path)
        except OSError as error:
            return error.errno or errno.EIO
        return errno.ENOSPC if self.space.is_exhausted() else errno.EIO


def _check_is_ours(path: Path) -> None:
    """Raise EIO unless this is a regular file or nothing: SQLite would follow a link."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EIO, f"{path} is not a regular file")


def walk(store: NameStore, folder: int = ROOT) -> Iterator[tuple[int, bytes, int]]:
    """Yield the folder, the name and the id of every name below a folder."""
    for name, mode, id_ in store.list_names(folder, b"", -1):
        yield folder, name, id_
        if stat.S_ISDIR(mode):
            yield from walk(store, id_)
