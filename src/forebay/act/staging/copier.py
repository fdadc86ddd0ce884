"""Copies trees of files with many threads, and reads every copy back.

A file is copied under another name, compared with its source, and renamed when it is complete, so that no program reads
half of it. No link inside the space is followed, and no link is made that leads out of the copied tree.
"""

from __future__ import annotations

import os
import stat
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import dropwhile
from typing import NamedTuple

from forebay.act.staging.folders import File, Folder, Status
from forebay.act.staging.journal import Journal, Source
from forebay.act.staging.task_pool import Task, TaskPool
from forebay.model.errors import BadInput, UserError, name_errors

PIECE = 8 << 20
"""Larger files are copied in pieces of this size, several at a time."""
WORKERS = 8
_ZEROS = bytes(PIECE)
_MODE = 0o777 | stat.S_ISVTX
_LONGEST = 200  # bytes of a name of an incomplete copy before its end


class Entry(NamedTuple):
    """A name in an open folder."""

    folder: Folder
    name: str

    @property
    def path(self) -> str:
        return f"{self.folder.path.rstrip('/')}/{self.name}"


class Tree(NamedTuple):
    """A file or folder to copy; `label` names it in the journal."""

    source: Entry
    target: Entry
    label: str


class Changed(UserError):
    """The source was changed while it was copied, or its copy has other bytes."""


class Copier:
    """Copies trees; of several nodes, this is number `number` of `nodes`, and copies its share of the files.

    `tag` marks the names of incomplete copies; it is the same for all copiers of a staging.
    """

    def __init__(self, journal: Journal, tag: str, *, number: int = 0, nodes: int = 1, workers: int = WORKERS) -> None:
        self._journal, self._tag, self._number, self._nodes, self._workers = journal, tag, number, nodes, workers
        self._lock = threading.Lock()
        self.files = self.bytes = self.total = 0

    def copy(self, trees: Iterable[Tree]) -> None:
        """Copy the files and links of the trees, and make their folders. After an error, remove incomplete copies."""
        trees = list(trees)
        counter = threading.Thread(target=self._count, args=(trees,), name="count", daemon=True)
        counter.start()
        try:
            TaskPool(self._workers).run(partial(self._visit, tree, 0) for tree in trees)
        except BaseException:
            self.remove_incomplete({tree.label: tree.target for tree in trees})
            raise

    def settle(self, trees: Iterable[Tree]) -> None:
        """Give folders the modes and times of their sources, and put everything onto the disk."""
        for tree in trees:
            self._settle_folders(tree.source, tree.target)
            with name_errors(tree.target.folder.path):
                tree.target.folder.sync()

    def remove_incomplete(self, targets: Mapping[str, Entry]) -> None:
        """Remove what may be left of files that were not copied completely; `targets` are those of trees by label."""
        for path in sorted(self._journal.begun):
            with suppress(OSError, UserError, KeyError):
                entry = _find_below(targets, path)
                entry.folder.remove(self._part_name(entry.name))

    def find_replaced(self, trees: Iterable[Tree]) -> str:
        """The first file whose copy another node replaced with its own; "" if there is none."""
        targets = {tree.label: tree.target for tree in trees}
        for source, number in self._journal.done.items():
            with suppress(OSError, KeyError):
                entry = _find_below(targets, source.path)
                if entry.folder.status(entry.name).number != number:
                    return entry.path
        return ""

    def _is_mine(self, path: str) -> bool:
        return self._nodes == 1 or zlib.crc32(os.fsencode(path)) % self._nodes == self._number

    def _count(self, trees: Iterable[Tree]) -> None:
        """Count the files to copy, for the progress."""
        count = 0
        waiting: list[tuple[Folder, str, str, int]] = [(*tree.source, tree.label, -1) for tree in trees]
        with suppress(OSError, UserError):
            while waiting:
                folder, name, path, kind = waiting.pop()
                kind = stat.S_IFMT(folder.status(name).mode) if kind <= 0 else kind
                if kind == stat.S_IFDIR:
                    below = folder.enter(name)
                    waiting += [(below, each, f"{path}/{each}", what) for each, what in below.list_names()]
                elif kind == stat.S_IFREG and self._is_mine(path):
                    count += 1
            self.total = count

    def _visit(self, tree: Tree, depth: int, kind: int = 0) -> Iterable[Task] | None:
        """Copy an entry; `depth` is its depth in the copied tree, `kind` its type if it is known."""
        source = tree.source
        if not kind:
            with name_errors(source.path):
                kind = stat.S_IFMT(source.folder.status(source.name).mode)
        if kind == stat.S_IFDIR:
            return self._visit_folder(tree, depth)
        if not self._is_mine(tree.label):
            return None
        if kind == stat.S_IFREG:
            return self._copy_file(tree)
        if kind == stat.S_IFLNK:
            self._copy_link(tree, depth)
            return None
        raise BadInput(source.path, "is not a file, folder or link; leave it out")

    def _visit_folder(self, tree: Tree, depth: int) -> Iterator[Task]:
        with name_errors(tree.source.path):
            below = tree.source.folder.enter(tree.source.name)
            names = below.list_names()
        with name_errors(tree.target.path):
            inside = tree.target.folder.enter(tree.target.name, make=True)
        return (
            partial(self._visit, Tree(Entry(below, name), Entry(inside, name), f"{tree.label}/{name}"), depth + 1, kind)
            for name, kind in names
        )

    def _copy_link(self, tree: Tree, depth: int) -> None:
        with name_errors(tree.source.path):
            destination = tree.source.folder.read_link(tree.source.name)
        if not is_inside(destination, depth):
            raise BadInput(tree.source.path, f"is a link to {destination!r}, outside the copied tree; remove the link")
        folder, name = tree.target
        with name_errors(tree.target.path):
            with suppress(FileNotFoundError):
                if stat.S_ISLNK(folder.status(name).mode):
                    folder.remove(name)
            folder.make_link(name, destination)

    def _copy_file(self, tree: Tree) -> Iterable[Task] | None:
        with name_errors(tree.source.path):
            reader = tree.source.folder.open(tree.source.name)
        is_open = True
        try:
            with name_errors(tree.source.path):
                status = reader.status()
            if not stat.S_ISREG(status.mode):  # it was replaced a moment ago
                raise BadInput(tree.source.path, "is not a file, folder or link; leave it out")
            source = Source(tree.label, *status.content)
            if self._is_done(tree, source):
                self._note(1, status.size)
                return None
            copy = _FileCopy(self, tree, reader, status, source)
            if status.size <= PIECE:
                copy.copy_piece(0)
                return None
            is_open = False
            return copy.list_pieces()
        finally:
            if is_open:
                reader.close()

    def _is_done(self, tree: Tree, source: Source) -> bool:
        number = self._journal.done.get(source)
        if number is None:
            return False
        with suppress(OSError):
            status = tree.target.folder.status(tree.target.name)
            return status.content == (source.size, source.mtime) and status.number == number
        return False

    def _part_name(self, name: str) -> str:
        return f".{os.fsdecode(os.fsencode(name)[:_LONGEST])}.{self._tag}"

    def _note(self, files: int, count: int) -> None:
        with self._lock:
            self.files += files
            self.bytes += count

    def _settle_folders(self, source: Entry, target: Entry) -> None:
        with name_errors(source.path):
            status = source.folder.status(source.name)
        if not stat.S_ISDIR(status.mode):
            return
        with name_errors(source.path):
            below = source.folder.enter(source.name)
            names = below.list_names()
        with name_errors(target.path):
            inside = target.folder.enter(target.name)
        for name, kind in names:
            if kind in (0, stat.S_IFDIR):
                self._settle_folders(Entry(below, name), Entry(inside, name))
        with name_errors(target.path):
            inside.set_status(stat.S_IMODE(status.mode), status.mtime, status.atime)


class _FileCopy:
    """The copy of one file, in one piece or several."""

    def __init__(self, copier: Copier, tree: Tree, reader: File, status: Status, source: Source) -> None:
        self._copier, self._tree, self._reader, self._status, self._source = copier, tree, reader, status, source
        self._part = copier._part_name(tree.target.name)
        copied = copier._journal.parts.get(source)
        if copied and not self._has_part():
            copied = None
        if not copied:
            copier._journal.note_begun(tree.label)
        with name_errors(tree.target.path):
            self._writer = tree.target.folder.create(self._part, afresh=not copied)
            if status.size > PIECE:
                self._writer.truncate(status.size)
        self._copied = copied or set()
        self._left = threading.Lock(), max(1, -(-status.size // PIECE))

    def _has_part(self) -> bool:
        """Whether an incomplete copy of an earlier run is there."""
        with suppress(OSError):
            return self._tree.target.folder.status(self._part).size == self._status.size
        return False

    def list_pieces(self) -> Iterator[Task]:
        return (partial(self.copy_piece, offset) for offset in range(0, self._status.size, PIECE))

    def copy_piece(self, offset: int) -> None:
        """Copy a piece; the last one completes the file."""
        size = min(PIECE, self._status.size - offset)
        if offset not in self._copied:
            self._copy_bytes(offset, size)
            if self._status.size > PIECE:
                self._copier._journal.note_part(self._source, offset)
        self._copier._note(0, size)
        lock, left = self._left
        with lock:
            self._left = lock, left - 1
        if left == 1:
            self._complete()

    def _copy_bytes(self, offset: int, size: int) -> None:
        if not size:
            return
        with name_errors(self._tree.source.path):
            data = self._reader.read(size, offset)
        if len(data) < size:
            raise self._change_error()
        with name_errors(self._tree.target.path):
            if data != _ZEROS:  # else it stays a hole
                self._writer.write(data, offset)
            if self._writer.read(size, offset) != data:
                raise Changed(f"{self._tree.target.path}: the copy has other bytes than {self._tree.source.path}")

    def _complete(self) -> None:
        tree, status = self._tree, self._status
        with name_errors(tree.source.path):
            if self._reader.status().content != status.content:
                raise self._change_error()
        with name_errors(tree.target.path):
            # The source may be another user's: with its set-id bits, all who can run the copy would act as its owner.
            self._writer.set_status(status.mode & _MODE, status.mtime, status.atime)
            number = self._writer.number
            self._writer.close()
            if status.size > PIECE:
                self._reader.close()
            tree.target.folder.rename(self._part, tree.target.name)
        self._copier._journal.note_done(self._source, number)
        self._copier._note(1, 0)

    def _change_error(self) -> Changed:
        return Changed(f"{self._tree.source.path}: was changed while it was copied; try again")


def _find_below(targets: Mapping[str, Entry], path: str) -> Entry:
    """The target of a file that the journal calls `path`."""
    label, *names = path.split("/")
    entry = targets[label]
    for name in names:
        entry = Entry(entry.folder.enter(entry.name), name)
    return entry


def is_inside(destination: str, depth: int) -> bool:
    """Return whether a link in a folder `depth - 1` levels below the top leads to something below the top.

    Allow `..` only at the beginning: after a name, which may be a link itself, its destination is unknown.

    >>> is_inside("data/x", 1), is_inside("../x", 2), is_inside("../x", 1), is_inside("/etc/passwd", 9)
    (True, True, False, False)
    >>> is_inside("a/../x", 5)
    False
    """
    parts = [part for part in destination.split("/") if part not in ("", ".")]
    below = list(dropwhile(lambda part: part == "..", parts))
    return not destination.startswith("/") and ".." not in below and len(parts) - len(below) < depth
