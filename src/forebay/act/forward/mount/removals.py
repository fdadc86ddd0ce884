"""Names that programs have removed and that the layer does not know of yet.

In a folder that this mount has alone (data/sole_leases.py), it removes names by itself, and reports them to the layer
soon, many in one message. Nobody else can look at the folder before: the mount reports all of them before it gives up
its lease. The layer removes a name only if it still stands for the same file. So a message that arrives late, after the
lease, does no harm to a file that others have created meanwhile.
"""

import errno
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice

from forebay.act.forward.clients.requests import Place
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.data.permissions import check_removal
from forebay.act.forward.mount.file_system import Attributes, User
from forebay.act.forward.mount.lease_cache import LeaseCache
from forebay.act.forward.net.payloads import Caller

_SOON = 0.02
"""Seconds after which the layer hears of a removal."""
_BATCH = 128
"""The most names in a message."""
_MOST = 1024
"""The most names of a folder that wait; then programs wait too."""
_FIRST, _LAST = 2, 1024
"""With which removal the mount asks for a folder: at first, and if that has brought little each time."""
_FEW = 16
_MOST_FOLDERS = 1 << 12


class _Queue:
    """The removed names of a folder, with the file of each, and the user who has removed them."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.names: dict[bytes, int] = {}
        self.time = 0
        self.put = self.reported = 0  # how many there were, and of how many the layer knows
        self.reporting = threading.Lock()


class _Use:
    """How many names of a folder the layer has removed one by one since the mount has asked for it last."""

    def __init__(self) -> None:
        self.single = self.many = 0
        self.wait = _FIRST


class Removals:
    """Asks through one client, on connections that wait for no other request. Threads share it."""

    def __init__(self, cache: LeaseCache, client: Client, is_open: Callable[[int], bool]) -> None:
        self._cache, self._client, self._is_open = cache, client, is_open
        self.drop: Callable[[Iterable[int]], None] = lambda _: None
        """Lets the kernel drop what it keeps of these nodes."""
        self._room = threading.Condition(cache.lock)  # the lock protects the queues too
        self._queues: dict[int, _Queue] = {}  # by folder
        self._files: dict[int, int] = {}  # by file that waits for its removal: the folder
        self._uses: OrderedDict[int, _Use] = OrderedDict()  # by folder
        self._begun = threading.Event()
        self._thread: threading.Thread | None = None
        self._ends = False
        self._failure: OSError | None = None  # which no fsync has returned to a program

    # Removing

    def remove(self, user: User, folder: int, name: bytes) -> bool:
        """Remove a name, unless only the layer can decide whether that is right; return whether it is removed.

        Ask for the folder first if programs seem to remove many names there.
        """
        caller = Caller(user.uid, user.gid)
        return self._remove(caller, folder, name) or (
            self._expects_many(folder) and self._ask(caller, folder, name) and self._remove(caller, folder, name)
        )

    def is_removed(self, folder: int, name: bytes) -> bool:
        """Whether the layer does not know yet that a name is gone."""
        queue = self._queues.get(folder)
        return queue is not None and name in queue.names

    def _remove(self, caller: Caller, folder: int, name: bytes) -> bool:
        with self._room:
            while (queue := self._queues.get(folder)) is not None and len(queue.names) >= _MOST:
                self._client.before_wait()
                self._room.wait()
            if self._ends or (queue is not None and queue.caller != caller):
                return False
            removed = self._cache.remove(folder, name, lambda above, file: self._may_remove(caller, above, file))
            if removed is None:
                return False
            if queue is None:
                queue = self._queues[folder] = _Queue(caller)
                self._begin()
            file, queue.time = removed
            queue.names[name] = file
            queue.put += 1
            self._files[file] = folder
            use = self._uses.get(folder)
            if use is not None:
                use.many += 1
        return True

    def _expects_many(self, folder: int) -> bool:
        """Whether programs seem to remove many names in a folder that the mount may get alone."""
        if self._ends or not self._cache.has_lease(folder):
            return False
        use = self._uses.get(folder)
        if use is None:
            use = self._uses[folder] = _Use()
            if len(self._uses) > _MOST_FOLDERS:
                self._uses.popitem(last=False)
        use.single += 1
        if use.single < use.wait:
            return False
        use.wait = min(2 * use.wait, _LAST) if use.many < _FEW else _FIRST
        use.single = use.many = 0
        return True

    def _ask(self, caller: Caller, folder: int, name: bytes) -> bool:
        """Ask for a folder, with the files in it from this name on."""
        self.settle(folder)
        ticket = self._cache.begin()
        try:
            answer = self._client.hold_alone(Place(folder), name, caller=caller)
        except OSError:
            return False
        if answer.now:
            self._cache.keep_alone(ticket, folder, answer.files, answer.now)
        return bool(answer.now)

    def _may_remove(self, caller: Caller, folder: Attributes, file: Attributes) -> bool:
        if self._is_open(file.node):
            return False
        try:
            check_removal(caller, folder, (file,))
        except OSError:
            return False
        return True

    # Reports to the layer

    def settle(self, node: int) -> None:
        """Wait until the layer knows what is removed from this folder so far, or that this file is removed."""
        if not self._queues:
            return
        queue = self._queues.get(node)
        if queue is None:
            node = self._files.get(node, 0)
            queue = self._queues.get(node)
        if queue is not None:
            last = queue.put
            self._client.before_wait()
            with queue.reporting:
                while queue.reported < last:
                    self._report(node, queue)

    def settle_all(self) -> None:
        for folder in tuple(self._queues):
            self.settle(folder)

    def end_leases(self) -> list[int]:
        """Give up all leases, once the layer knows all; return the nodes."""
        while True:
            self._cache.share()
            self.settle_all()
            with self._room:
                if not self._queues:
                    return self._cache.end_all()

    def sync(self) -> None:
        """As `settle_all`; raises OSError if names may be back since the last call."""
        self.settle_all()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def end(self) -> None:
        """Leave all removals to the layer from now on, and report the earlier ones."""
        with self._room:
            self._ends = True
        self.settle_all()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._report_regularly, name="removals", daemon=True)
            self._thread.start()
        self._begun.set()

    def _report_regularly(self) -> None:
        while True:
            self._begun.wait()
            self._begun.clear()
            while self._queues:
                time.sleep(_SOON)
                self.settle_all()

    def _report(self, folder: int, queue: _Queue) -> None:
        """Report the next names to the layer."""
        with self._room:
            batch, at = list(islice(queue.names.items(), _BATCH)), queue.time
        failure, status = None, None
        try:
            status = self._client.remove_names(Place(folder), batch, at, caller=queue.caller)
        except OSError as error:
            if error.errno != errno.ESTALE:  # else the folder is gone
                failure = error
        with self._room:
            if failure is not None:
                batch = list(queue.names.items())  # the others would wait as long
            for name, file in batch:
                del queue.names[name]
                self._files.pop(file, None)
            queue.reported += len(batch)
            is_last = not queue.names
            if is_last:
                self._queues.pop(folder, None)
            self._room.notify_all()
        if failure is not None:
            self._failure = failure
            self._cache.end((folder,))
            print(
                f"forebay: mount: {len(batch)} removed names may be back in the folder with inode {folder}: {failure}",
                file=sys.stderr,
            )
        elif not is_last or status is None or status.mtime == at:
            return
        else:
            self._cache.note_changed(folder)
        self.drop((folder,))
