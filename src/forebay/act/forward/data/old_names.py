"""Takes over the names of a layer that an earlier release kept, as a tree of small files.

names/…            the tree: a record for each file, and one with a reserved name in each folder
ids/ab/ab54…       the same record (a hard link), by the file's id
unlinked/ab54…     the same record, after its name was removed and until no server had its objects
replacing          the names of a folder and of the empty one that it replaces
"""

import errno
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from forebay.act.forward.data.name_database import DATABASE, REMOVED, NameStore, Node
from forebay.act.forward.data.untrusted_tree import Tree
from forebay.act.forward.net.payloads import ROOT
from forebay.model.file_times import clamp_time

_RECORD = b".forebay-folder"
_OLD = ("names", "ids", "unlinked", "temp", "replacing", "replacing.new")
_LONGEST = 512
_FIRST_FOLDER = 2


def convert_names(folder: Path) -> None:
    """Bring the names of an earlier release into a database, and remove the old ones.

    The database appears in one step. If the process is killed before, the next start begins again.
    """
    if not (folder / DATABASE).exists() and (folder / "names").is_dir():
        new = f"{DATABASE}.new"
        for left in (new, f"{new}-wal", f"{new}-shm"):
            (folder / left).unlink(missing_ok=True)
        store, tree = NameStore(folder, new), Tree(folder)
        try:
            with store:
                _Import(store, tree, folder).run()
        finally:
            tree.close()
            store.close()  # writes everything into the one file
        (folder / new).rename(folder / DATABASE)
    if (folder / DATABASE).exists():
        for name in _OLD:
            place = folder / name
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)


class _Import:
    def __init__(self, store: NameStore, tree: Tree, where: Path) -> None:
        self._store, self._tree, self._where = store, tree, where
        self._folder = _FIRST_FOLDER  # small numbers, which no file has
        self._replaced, self._replacing = self._read_replacement()

    def run(self) -> None:
        self._add_folder(b"", None)
        for place in self._find_records():
            with suppress(OSError):
                node = self._read(place, links=REMOVED)
                if node.has_bytes and self._store.read(node.id) is None:
                    self._store.add(node)

    def _read_replacement(self) -> tuple[bytes, bytes]:
        """A folder that is being renamed over an empty one: the old path and the new one."""
        try:
            path, _, to = self._tree.read(b"replacing").partition(b"\0")
        except OSError:
            return b"", b""
        return (path, to) if self._tree.exists(b"names/" + path) else (b"", b"")

    def _add_folder(self, path: bytes, above: Node | None) -> int:
        """Add a folder with everything in it; return its id."""
        place = b"names/" + path if path else b"names"
        try:
            record = self._read(place + b"/" + _RECORD, links=2, folder=self._tree.status(place))
        except OSError:
            if above is None:
                raise
            self._report(place)
            record = above
        id_ = ROOT if above is None else self._folder
        self._folder += above is not None
        record = record._replace(id=id_, parent=0 if above is None else above.id)
        below = 0
        for name in self._tree.list(place):
            inner = path + b"/" + name if path else name
            if name != _RECORD and inner != self._replaced:
                source = self._replaced if inner == self._replacing else inner
                below += self._add_name(record, name, source)
        self._store.add(record._replace(links=2 + below))
        return id_

    def _add_name(self, folder: Node, name: bytes, path: bytes) -> bool:
        """Add what has this name, if it is the layer's; return whether it is a folder."""
        place = b"names/" + path
        mode = self._tree.status(place).st_mode
        if stat.S_ISDIR(mode):
            self._store.put_name(folder.id, name, self._add_folder(path, folder))
            return True
        if stat.S_ISREG(mode):
            try:
                node = self._read(place, links=1)
                self._store.add(node)
                self._store.put_name(folder.id, name, node.id)
            except OSError:
                self._report(place)
        return False

    def _report(self, place: bytes) -> None:
        name = os.fsdecode(place)
        print(f"forebay: server: {self._where}/{name}: the record is damaged; this name is lost", file=sys.stderr)

    def _find_records(self) -> Iterator[bytes]:
        """The places of all records by id, with those of files that have no name any more."""
        for base in (b"unlinked", b"ids"):
            with suppress(OSError):
                for name in self._tree.list(base):
                    place = base + b"/" + name
                    if base == b"unlinked":
                        yield place
                        continue
                    with suppress(OSError):
                        yield from (place + b"/" + each for each in self._tree.list(place))

    def _read(self, place: bytes, *, links: int, folder: os.stat_result | None = None) -> Node:
        handle = self._tree.open_file(place, os.O_RDONLY)
        try:
            status, text = os.fstat(handle), os.pread(handle, _LONGEST, 0)
        finally:
            os.close(handle)
        try:
            fields: dict[str, Any] = json.loads(text)
            count, size, start = map(int, fields["layout"])
            mtime, ctime = clamp_time(int(fields["mtime"])), status.st_ctime_ns
            kind = stat.S_IFREG
            if folder is not None:
                kind = stat.S_IFDIR
                changed = folder.st_mtime_ns
                mtime = changed if changed > fields.get("stamp", 0) else mtime
                ctime = max(ctime, folder.st_ctime_ns)
            return Node(
                id=int(fields["file"] or 0), mode=kind | int(fields["mode"]), uid=fields.get("uid"),
                gid=fields.get("gid"), links=links, atime=mtime, mtime=mtime, ctime=ctime,
                stamp=0 if folder is not None else int(fields.get("stamp", 0)), read_stamp=0,
                stripes=count, stripe_size=size, first_server=start, key=int(fields.get("key", 0)), spread=1,
            )  # fmt: skip
        except (ValueError, TypeError, KeyError):
            raise OSError(errno.EIO, "the record of this name is damaged") from None
