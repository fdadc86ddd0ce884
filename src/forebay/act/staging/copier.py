"""Copies trees of files with many threads, and reads every copy back.

A file is copied under another name, compared with its source, and renamed when it is complete, so that no program reads
half of it.
"""

from __future__ import annotations

import os
import stat
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import NamedTuple

from forebay.act.staging.folders import Differs, Entry, File, Folder, NewFile, Status, part_name
from forebay.act.staging.journal import Journal, Source
from forebay.act.staging.links import copy_link, read_link
from forebay.act.staging.task_pool import Task, TaskPool
from forebay.model.errors import BadInput, UserError, name_errors
from forebay.model.file_times import clamp_time

PIECE = 8 << 20
"""Larger files are copied in pieces of this size, several at a time."""
WORKERS = 8
_ZEROS = bytes(PIECE)
_MODE = 0o777 | stat.S_ISVTX
_TOGETHER = 64
"""Files whose small ones are copied together."""
_MOST_BYTES = 4 << 20
_SHOWN = 3
"""Entries that cannot be copied which an error names."""


class Tree(NamedTuple):
    """A file or folder to copy; `label` names it in the journal."""

    source: Entry
    target: Entry
    label: str


class Changed(UserError):
    """The source was changed while it was copied, or its copy has other bytes."""


class Copier:
    """Copies trees; of several nodes, this is number `number` of `nodes`, and copies its share.

    That is some of the files, and its parts of large files that are striped; node 0 completes those in `settle`.
    `tag` marks the names of incomplete copies; it is the same for all copiers of a staging. If `settles`, all nodes
    have copied before.
    """

    def __init__(
        self, journal: Journal, tag: str, *, number: int = 0, nodes: int = 1, settles: bool = False
    ) -> None:  # fmt: skip
        self._journal, self._tag, self._number, self._nodes, self._settles = journal, tag, number, nodes, settles
        self._lock = threading.Lock()
        self._parted: list[_FileCopy] = []
        self._refused: list[tuple[str, str]] = []
        self._refusals = 0
        self.files = self.bytes = self.total = 0

    def copy(self, trees: Iterable[Tree]) -> None:
        """Copy the files and links of the trees, and make their folders. After an error, remove incomplete copies.

        What cannot be copied, such as a pipe or a link that leads out of the tree, is left out; `settle` reports it.
        """
        trees = list(trees)
        counter = threading.Thread(target=self._count, args=(trees,), name="count", daemon=True)
        counter.start()
        try:
            TaskPool(WORKERS).run(partial(self._visit, tree, 0) for tree in trees)
            self.sync(trees)
        except BaseException:
            self.remove_incomplete({tree.label: tree.target for tree in trees})
            TaskPool(WORKERS).run(partial(self._try_settle_folder, tree.source, tree.target) for tree in trees)
            raise

    def settle(self, trees: Iterable[Tree]) -> None:
        """Complete what several nodes have copied, and give folders the modes and times of their sources.

        Raise BadInput at the end if something could not be copied.
        """
        trees = list(trees)
        for copy in self._parted:
            copy.publish()
        TaskPool(WORKERS).run(partial(self._settle_folder, tree.source, tree.target) for tree in trees)
        self.sync(trees)
        if self._refusals == 1:
            raise BadInput(*self._refused[0])
        if self._refusals:
            shown = "; ".join(f"{path} {reason.partition(';')[0]}" for path, reason in self._refused)
            more = f"; and {self._refusals - _SHOWN:,} more" if self._refusals > _SHOWN else ""
            raise UserError(f"{self._refusals:,} entries cannot be copied, leave them out: {shown}{more}")

    def _refuse(self, error: BadInput) -> None:
        """Note that an entry cannot be copied."""
        with self._lock:
            self._refusals += 1
            self._refused = sorted([*self._refused, (error.where, error.reason)])[:_SHOWN]

    def sync(self, trees: Iterable[Tree]) -> None:
        """Put everything that was copied onto the disks."""
        for tree in trees:
            with name_errors(tree.target.folder.path):
                tree.target.folder.sync()

    def remove_incomplete(self, targets: Mapping[str, Entry]) -> None:
        """Remove what may be left of files that were not copied completely; `targets` are those of trees by label."""
        for source, tag in sorted(self._journal.begun.items()):
            with suppress(OSError, UserError, KeyError):
                entry = _find_below(targets, source.path)
                entry.folder.remove(part_name(entry.name, tag))

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
        if kind == stat.S_IFREG:
            return self._copy_files((tree,))
        try:
            if kind != stat.S_IFLNK:
                raise BadInput(source.path, "is not a file, folder or link; leave it out")
            destination = read_link(source, depth)
        except BadInput as error:
            self._refuse(error)
            return None
        if self._is_mine(tree.label):
            copy_link(destination, tree.target)
        return None

    def _visit_folder(self, tree: Tree, depth: int) -> Iterator[Task]:
        with name_errors(tree.source.path):
            below = tree.source.folder.enter(tree.source.name)
            names = below.list_names()
        with name_errors(tree.target.path):
            inside = tree.target.folder.enter(tree.target.name, make=True)

        def find(name: str) -> Tree:
            return Tree(Entry(below, name), Entry(inside, name), f"{tree.label}/{name}")

        files = [name for name, kind in names if kind == stat.S_IFREG]
        others = ((name, kind) for name, kind in names if kind != stat.S_IFREG)
        groups = (files[first : first + _TOGETHER] for first in range(0, len(files), _TOGETHER))
        return chain(
            (partial(self._copy_files, list(map(find, group))) for group in groups),
            (partial(self._visit, find(name), depth + 1, kind) for name, kind in others),
        )

    def _copy_files(self, trees: Sequence[Tree]) -> Iterable[Task] | None:
        """Copy files of one folder: small ones together, each large one by tasks of its own."""
        target, large = trees[0].target.folder, list[Task]()
        batch: dict[Source, NewFile] = {}
        limit = min(target.small, PIECE)
        for tree in trees:
            is_mine = self._is_mine(tree.label)
            if not is_mine and not (target.is_striped and self._measure(tree) > limit):
                continue
            reader, status, source = self._open(tree)
            try:
                if self._is_done(tree, source):
                    self._note(int(is_mine), status.size if is_mine else 0)
                elif status.size > limit:
                    large.append(partial(self._copy_large, tree))
                else:
                    batch[source] = self._read_file(tree, reader, status)
            finally:
                reader.close()
            if sum(len(file.data) for file in batch.values()) > _MOST_BYTES:
                self._put_files(target, batch)
                batch = {}
        if batch:
            self._put_files(target, batch)
        return large

    def _open(self, tree: Tree) -> tuple[File, Status, Source]:
        with name_errors(tree.source.path):
            reader = tree.source.folder.open(tree.source.name)
            try:
                status = reader.status()
                if not stat.S_ISREG(status.mode):  # it was replaced a moment ago
                    raise BadInput(tree.source.path, "is not a file, folder or link; leave it out")
            except BaseException:
                reader.close()
                raise
        return reader, status, Source(tree.label, *status.content)

    def _measure(self, tree: Tree) -> int:
        with name_errors(tree.source.path):
            return tree.source.folder.status(tree.source.name).size

    def _read_file(self, tree: Tree, reader: File, status: Status) -> NewFile:
        with name_errors(tree.source.path):
            data = reader.read(status.size, 0)
            if len(data) < status.size or reader.status().content != status.content:
                raise change_error(tree)
        # The source may be another user's: with its set-id bits, all who can run the copy would act as its owner.
        return NewFile(tree.target.name, data, status.mode & _MODE, status.mtime, status.atime)

    def _put_files(self, target: Folder, batch: Mapping[Source, NewFile]) -> None:
        self._journal.note_begun(batch, self._tag)
        try:
            numbers = target.put_files(list(batch.values()), self._tag)
        except Differs as differs:
            raise Changed(f"{target.path}/{differs}: the copy has other bytes than its source") from None
        self._journal.note_done(dict(zip(batch, numbers, strict=True)))
        self._note(len(batch), sum(len(file.data) for file in batch.values()))

    def _copy_large(self, tree: Tree) -> Iterable[Task] | None:
        reader, status, source = self._open(tree)
        try:
            copy = _FileCopy(self, tree, reader, status, source)
        except BaseException:
            reader.close()
            raise
        return copy.list_pieces()

    def _is_done(self, tree: Tree, source: Source) -> bool:
        number = self._journal.done.get(source, self._journal.numbers.get(source))
        if number is None and not self._settles:
            return False
        with suppress(OSError):
            status = tree.target.folder.status(tree.target.name)
            times = clamp_time(status.mtime), clamp_time(source.mtime)  # a shared folder has no later ones
            return status.size == source.size and times[0] == times[1] and number in (None, status.number)
        return False

    def _note(self, files: int, count: int) -> None:
        with self._lock:
            self.files += files
            self.bytes += count

    def _try_settle_folder(self, source: Entry, target: Entry) -> Iterable[Task] | None:
        """Settle what was made of a folder before its staging failed."""
        with suppress(OSError, UserError):
            return [partial(self._try_settle_folder, *ends) for ends in _settle_folder(source, target)]
        return None

    def _settle_folder(self, source: Entry, target: Entry) -> Iterable[Task] | None:
        return [partial(self._settle_folder, *ends) for ends in _settle_folder(source, target)]


class _FileCopy:
    """The copy of one large file, in pieces. If it is striped, other nodes copy its other parts."""

    def __init__(self, copier: Copier, tree: Tree, reader: File, status: Status, source: Source) -> None:
        self._copier, self._tree, self._reader, self._status, self._source = copier, tree, reader, status, source
        self._is_mine = copier._is_mine(tree.label)
        self._is_parted = copier._nodes > 1 and tree.target.folder.is_striped
        # Named after the content, so that no node continues another one's copy of other content.
        tag = f"{zlib.crc32(repr(status.content).encode()):08x}.{copier._tag}"
        self._part = part_name(tree.target.name, tag)
        journal = copier._journal
        self._copied = journal.parts.get(source, set()) if self._has_part(journal.numbers.get(source)) else set()
        if not self._copied:
            if self._is_parted and copier._settles and not self._has_part(None):
                raise Changed(f"{tree.target.path}: its incomplete copy is gone; stage it again")
            journal.note_begun((source,), tag)
        with name_errors(tree.target.path):
            self._writer = tree.target.folder.create(
                self._part, status.size, afresh=not self._copied, own_parts=self._is_parted
            )
        self._number = self._writer.number
        self._lock, self._left = threading.Lock(), -(-status.size // PIECE)

    def _has_part(self, number: int | None) -> bool:
        """Whether an incomplete copy of an earlier run is there, with this number if it is not None."""
        with suppress(OSError):
            part = self._tree.target.folder.status(self._part)
            return number is None or (part.number == number and (self._is_parted or part.size == self._status.size))
        return False

    def list_pieces(self) -> Iterator[Task]:
        return (partial(self.copy_piece, offset) for offset in range(0, self._status.size, PIECE))

    def copy_piece(self, offset: int) -> None:
        """Copy a piece, or this node's parts of it; the last one completes the file."""
        size = min(PIECE, self._status.size - offset)
        done = 0
        for part, at in self._writer.ranges(size, offset):
            if offset not in self._copied:
                self._copy_bytes(at, part)
            done += part
        if offset not in self._copied:
            self._copier._journal.note_part(self._source, offset, self._number)
        self._copier._note(0, done)
        with self._lock:
            self._left -= 1
            is_last = not self._left
        if is_last:
            self._complete()

    def _copy_bytes(self, offset: int, size: int) -> None:
        with name_errors(self._tree.source.path):
            data = self._reader.read(size, offset)
        if len(data) < size:
            raise change_error(self._tree)
        with name_errors(self._tree.target.path):
            if data[0] or data != _ZEROS[:size]:  # else it stays a hole
                self._writer.write(data, offset)
            if self._writer.read(size, offset) != data:
                raise Changed(f"{self._tree.target.path}: the copy has other bytes than {self._tree.source.path}")

    def _complete(self) -> None:
        with name_errors(self._tree.source.path):
            if self._reader.status().content != self._status.content:
                raise change_error(self._tree)
            self._reader.close()
        with name_errors(self._tree.target.path):
            self._writer.close()
        if not self._is_parted:
            self.publish()
        else:
            self._copier._parted.append(self)
        self._copier._note(int(self._is_mine), 0)

    def publish(self) -> None:
        """Give the complete copy its name."""
        (folder, name), status = self._tree.target, self._status
        with name_errors(self._tree.target.path):
            folder.set_status(status.mode & _MODE, status.mtime, status.atime, self._part)
            folder.rename(self._part, name)
        self._copier._journal.note_done({self._source: self._number})


def _settle_folder(source: Entry, target: Entry) -> list[tuple[Entry, Entry]]:
    """Give a folder the mode and times of its source; return what may be folders in it. Files are left alone."""
    with name_errors(source.path):
        status = source.folder.status(source.name)
    if not stat.S_ISDIR(status.mode):
        return []
    with name_errors(source.path):
        below = source.folder.enter(source.name)
        names = below.list_names()
    with name_errors(target.path):
        inside = target.folder.enter(target.name)
        inside.set_status(stat.S_IMODE(status.mode), status.mtime, status.atime)
    return [(Entry(below, name), Entry(inside, name)) for name, kind in names if kind in (0, stat.S_IFDIR)]


def change_error(tree: Tree) -> Changed:
    return Changed(f"{tree.source.path}: was changed while it was copied; try again")


def _find_below(targets: Mapping[str, Entry], path: str) -> Entry:
    """The target of a file that the journal calls `path`."""
    label, *names = path.split("/")
    entry = targets[label]
    for name in names:
        entry = Entry(entry.folder.enter(entry.name), name)
    return entry
