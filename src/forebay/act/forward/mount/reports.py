"""What a mount has changed in folders that it has alone, and has to report to the layer.

Changes of a folder wait for a moment, so that many go in one message. Whoever must know that the layer has heard of
them settles the folder. Each message can be repeated. If the layer refuses one, or cannot be reached, the changes are
undone: the mount drops what it keeps, says so, and fails the next fsync.
"""

import errno
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from forebay.act.forward.clients.requests import Place
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.mount.sole_cache import NewFile, SoleCache
from forebay.act.forward.net.payloads import Caller
from forebay.act.forward.net.sole_payloads import AddedFile

_SOON = 0.02
"""Seconds after which the layer hears of a change."""
_BATCH, _BATCH_BYTES = 128, 1 << 20
"""The most names in a message, and bytes of new files from which on no more are added."""
_MOST, _MOST_BYTES = 1024, 8 << 20
"""The most changes of a folder that wait, and bytes of new files in all folders; then programs wait too."""


class _Queue:
    """The removed names of a folder, with the file of each; the new files; and the user who has changed the folder."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.names: dict[bytes, int] = {}
        self.files: dict[bytes, NewFile] = {}
        self.time = 0  # of the last change of the folder
        self.reporting = threading.Lock()


class Reports:
    """Reports through one client, on connections that wait for no other request. Threads share it."""

    def __init__(self, cache: SoleCache, client: Client, is_open: Callable[[int], bool]) -> None:
        self._cache, self._client, self._is_open = cache, client, is_open
        self.drop: Callable[[Iterable[int]], None] = lambda _: None
        """Lets the kernel drop what it keeps of these nodes."""
        self.lock = threading.Condition(cache.lock)
        """Protects the queues, together with the cache; tells of room in them."""
        self.has_ended = False
        self._queues: dict[int, _Queue] = {}  # by folder
        self._folders: dict[int, int] = {}  # by file that is removed or new: the folder
        self._new: dict[int, NewFile] = {}  # by file
        self._bytes = 0
        self._begun = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None  # which no fsync has returned to a program

    # Changes; callers have the lock

    def admit(self, folder: int, caller: Caller) -> bool:
        """Whether the mount may change a folder for this user by itself; wait until there is room."""
        while True:
            queue = self._queues.get(folder)
            is_full = queue is not None and max(len(queue.names), len(queue.files)) >= _MOST
            if not is_full and self._bytes < _MOST_BYTES:
                return not self.has_ended and (queue is None or queue.caller == caller)
            self._client.before_wait()
            self.lock.wait()

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes of new files may wait."""
        return self._bytes + size <= _MOST_BYTES

    def put_removal(self, folder: int, caller: Caller, name: bytes, file: int, at: int) -> None:
        queue = self._open_queue(folder, caller)
        queue.names[name], queue.time = file, at
        self._folders[file] = folder

    def put_new(self, caller: Caller, file: NewFile) -> None:
        queue = self._open_queue(file.folder, caller)
        queue.files[file.name], queue.time = file, file.created
        node = file.attributes.node
        self._folders[node], self._new[node] = file.folder, file

    def note_growth(self, size: int) -> None:
        """A new file has so many more bytes."""
        self._bytes += size

    def _open_queue(self, folder: int, caller: Caller) -> _Queue:
        queue = self._queues.get(folder)
        if queue is None:
            queue = self._queues[folder] = _Queue(caller)
            if self._thread is None:
                self._thread = threading.Thread(target=self._report_regularly, name="reports", daemon=True)
                self._thread.start()
            self._begun.set()
        return queue

    # What the layer does not know yet

    def is_removed(self, folder: int, name: bytes) -> bool:
        queue = self._queues.get(folder)
        return queue is not None and name in queue.names

    def is_new(self, folder: int, name: bytes) -> bool:
        queue = self._queues.get(folder)
        return queue is not None and name in queue.files

    def find_new(self, node: int) -> NewFile | None:
        return self._new.get(node)

    # Reports

    def settle(self, node: int) -> None:
        """Wait until the layer knows all changes so far of this folder, or of that of this removed or new file."""
        if not self._queues:
            return
        folder = node if node in self._queues else self._folders.get(node, 0)
        queue = self._queues.get(folder)
        if queue is not None:
            self._client.before_wait()
            self._report(folder, queue)

    def settle_all(self) -> None:
        for folder in tuple(self._queues):
            self.settle(folder)

    def end_leases(self) -> list[int]:
        """Give up all leases, once the layer knows all; return the nodes."""
        while True:
            self._cache.share()
            self.settle_all()
            with self.lock:
                if not self._queues:
                    return self._cache.end_all()

    def sync(self) -> None:
        """As `settle_all`; raises OSError if changes have been undone since the last call."""
        self.settle_all()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def end(self) -> None:
        """Leave all changes to the layer from now on, and report the earlier ones."""
        with self.lock:
            self.has_ended = True
        self.settle_all()

    def _report_regularly(self) -> None:
        while True:
            self._begun.wait()
            self._begun.clear()
            while self._queues:
                time.sleep(_SOON)
                for folder, queue in tuple(self._queues.items()):
                    self._report(folder, queue, only_due=True)

    def _report(self, folder: int, queue: _Queue, *, only_due: bool = False) -> None:
        """Report what has changed in a folder so far; if `only_due`, without files that programs have just created."""
        with queue.reporting:
            with self.lock:
                names = len(queue.names)
                files = [file for file in queue.files.values() if not only_due or self._is_due(file)]
            try:
                while names > 0:
                    names -= self._report_removals(folder, queue)
                for batch in _batches(files):
                    self._report_new(folder, queue, batch)
            except OSError as error:
                self._give_up(folder, queue, error)

    def _is_due(self, file: NewFile) -> bool:
        """Whether a file is closed, or has been open for a while: programs often write what they have created."""
        is_due = file.was_due or not self._is_open(file.attributes.node)
        file.was_due = True
        return is_due

    def _report_removals(self, folder: int, queue: _Queue) -> int:
        """Report the next removed names to the layer; return how many."""
        with self.lock:
            batch, at = list(islice(queue.names.items(), _BATCH)), queue.time
        status = None
        try:
            status = self._client.remove_names(Place(folder), batch, at, caller=queue.caller)
        except OSError as error:
            if error.errno != errno.ESTALE:  # else the folder is gone
                raise
        with self.lock:
            for name, file in batch:
                del queue.names[name]
                self._folders.pop(file, None)
            is_last = self._end_batch(folder, queue)
        if is_last and (status is None or status.mtime != at):
            self._cache.note_changed(folder)
            self.drop((folder,))
        return len(batch)

    def _report_new(self, folder: int, queue: _Queue, batch: Sequence[NewFile]) -> None:
        with self.lock:
            for file in batch:
                file.is_sent = True
            at = queue.time
        ticket = self._cache.begin()
        added = [
            AddedFile(file.name, of.node, of.mode, file.created, of.mtime, file.data)
            for file, of in ((file, file.attributes) for file in batch)
        ]
        answer = self._client.add_files(Place(folder), added, batch[0].layout, at, caller=queue.caller)
        with self.lock:
            refused = self._cache.keep_added(ticket, folder, batch, answer)
            self._forget_new(queue, batch)
            is_last = self._end_batch(folder, queue)
        if refused:
            self._tell_failure(folder, [], refused, OSError(errno.EEXIST, "others have used these names meanwhile"))
        stale = [
            of.node
            for of, status in zip((file.attributes for file in batch), answer.files, strict=True)
            if not status.leased or (status.changed, status.allocated) != (of.mtime, of.allocated)
        ]
        if is_last and (answer.folder is None or answer.folder.mtime != at):
            self._cache.note_changed(folder)
            stale.append(folder)
        if stale:
            self.drop(stale)

    def _give_up(self, folder: int, queue: _Queue, failure: OSError) -> None:
        """Undo all changes of a folder: the others would fail as well, or wait as long."""
        with self.lock:
            names, files = dict(queue.names), list(queue.files.values())
            queue.names.clear()
            for file in names.values():
                self._folders.pop(file, None)
            self._forget_new(queue, files)
            self._end_batch(folder, queue)
        nodes = [folder, *(file.attributes.node for file in files)]
        self._cache.end(nodes)
        self._tell_failure(folder, names, files, failure)
        self.drop(nodes)

    def _forget_new(self, queue: _Queue, files: Iterable[NewFile]) -> None:
        for file in files:
            node = file.attributes.node
            del queue.files[file.name], self._new[node]
            self._folders.pop(node, None)
            self._bytes -= len(file.data)

    def _end_batch(self, folder: int, queue: _Queue) -> bool:
        """Let programs continue that wait for room; return whether the layer knows all changes of the folder."""
        is_last = not queue.names and not queue.files
        if is_last:
            self._queues.pop(folder, None)
        self.lock.notify_all()
        return is_last

    def _tell_failure(
        self, folder: int, names: Collection[bytes], files: Collection[NewFile], failure: OSError
    ) -> None:
        self._failure = failure
        problems = [f"{len(names)} removed names may be back"] if names else []
        problems += [f"{len(files)} new files are missing"] if files else []
        what = " and ".join(problems)
        print(f"forebay: mount: {what} in the folder with inode {folder}: {failure}", file=sys.stderr)


def _batches(files: Sequence[NewFile]) -> Iterator[Sequence[NewFile]]:
    """Cut files into those of one message each; they have one layout."""
    batch: list[NewFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) >= _BATCH or size >= _BATCH_BYTES or file.layout != batch[0].layout):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += len(file.data)
    if batch:
        yield batch
