"""What a mount keeps of files and folders while it has leases on them: attributes, names, and bytes of small files.

An answer may arrive after a recall, or after a change that this mount itself makes, though the server gave it before.
So each request begins with a ticket, and its answer is kept only if nothing has changed since. Threads share the cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import NamedTuple

from forebay.act.forward.mount.file_system import Attributes
from forebay.act.forward.net.payloads import (
    LEASE,
    LEASED_ALONE,
    LEASED_NAMES,
    LEASED_STATUS,
    FileStatus,
    ObjectSize,
)
from forebay.model.layout import Layout

SMALL = 64 << 10
"""The longest file whose bytes are kept."""
_MOST = 1 << 17
_MOST_BYTES = 64 << 20
ABSENT = 0
"""The node of a name that does not exist."""


class Ticket(NamedTuple):
    """When a request began: the time, and the number of the last change."""

    began: float
    version: int


class FreshFiles(NamedTuple):
    """The ids that new files in a folder get, and their layout."""

    ids: Iterator[int]
    layout: Layout


class _Lease:
    """What is kept of a node until a time; `names` are those in a folder, with the node of each.

    The node is None if it is unknown, as while the name is being changed. If they are `complete`, no others exist.
    A file that is `owned` has an owner and a group. The rest is in sole_cache.py: `alone` are the files in a folder
    that nobody else can use before the mount gives up the folder; the server's clock showed `since` ns when the mount's
    showed 0; and files that the mount creates there get their ids from `fresh`, unless that is None.
    """

    __slots__ = (
        "alone", "attributes", "complete", "data", "fresh", "layout", "names", "owned", "since", "stamp", "until",
    )  # fmt: skip

    def __init__(self, until: float) -> None:
        self.until = until
        self.attributes: Attributes | None = None
        self.data: bytes | None = None
        self.names: dict[bytes, int | None] = {}
        self.complete = False
        self.layout: Layout | None = None
        self.stamp = 0
        self.owned = False
        self.alone: set[int] | None = None
        self.since = 0
        self.fresh: FreshFiles | None = None


class Writing(NamedTuple):
    """A write in progress, and what was known before it; nothing if others write at the same time."""

    version: int
    attributes: Attributes | None
    data: bytes | None


class LeaseCache:
    """`lock` protects the state; whoever answers the kernel holds it from asking for a validity until the answer."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.lock = threading.RLock()
        self._clock = clock
        self._leases: dict[int, _Lease] = {}
        self._changes: dict[int, int] = {}  # by node: the number of its last change
        self._version = self._floor = 0
        self._resumed = True
        self._writing: dict[int, int] = {}
        self._bytes = 0

    # Requests and changes

    def begin(self) -> Ticket:
        return Ticket(self._clock(), self._version)

    def change(self, node: int, *, keep_names: bool = False) -> Ticket:
        """Drop what is kept of a node; answers to requests that began before do not count any more."""
        with self.lock:
            self._bump(node)
            lease = self._leases.get(node)
            if lease is not None:
                lease.attributes = None
                self._set_data(lease, None)
                if not keep_names:
                    lease.names, lease.complete = {}, False
            return Ticket(self._clock(), self._version)

    def end(self, nodes: Iterable[int]) -> None:
        """Give up the leases on these nodes."""
        with self.lock:
            for node in nodes:
                self._bump(node)
                lease = self._leases.pop(node, None)
                if lease is not None:
                    self._set_data(lease, None)

    def end_all(self) -> list[int]:
        """Give up all leases, and return the nodes; keep nothing until `resume`."""
        with self.lock:
            self._resumed = False
            nodes = list(self._leases)
            self._leases.clear()
            self._bytes = 0
            return nodes

    def resume(self) -> None:
        """Keep what answers to requests say that begin from now on: the server has forgotten all earlier leases."""
        with self.lock:
            self._forget_requests()
            self._resumed = True

    # What is kept

    def keep(
        self, ticket: Ticket, status: FileStatus, attributes: Attributes, folder: int = 0, name: bytes = b""
    ) -> None:
        """Keep what an answer says of a node, as far as it grants leases, and of its name in a folder."""
        if not status.leased or not self._resumed:
            return
        until, node = ticket.began + LEASE, attributes.node
        with self.lock:
            if status.leased & LEASED_NAMES and folder and self._is_current(ticket, folder):
                above = self._lease(folder, until)
                self._set_name(above, name, node)
                if above.alone is not None and status.leased & LEASED_ALONE:
                    above.alone.add(node)
            if status.leased & LEASED_STATUS and self._is_current(ticket, node):
                lease = self._lease(node, until)
                if lease.data is not None and len(lease.data) != attributes.size:
                    self._set_data(lease, None)
                lease.attributes, lease.layout, lease.stamp = attributes, status.layout, status.stamp
                lease.owned = status.uid is not None and status.gid is not None
                if status.created and status.has_bytes:
                    self._set_data(lease, b"")

    def keep_empty(self, ticket: Ticket, folder: int) -> None:
        """Remember that a folder has no names, as this mount has just made it and has a lease since then."""
        with self.lock:
            lease = self._valid(folder)
            if lease is not None and self._is_current(ticket, folder):
                lease.complete = True

    def end_change(self, ticket: Ticket, folder: int, name: bytes, attributes: Attributes | None) -> None:
        """A request of this mount has changed a name in a folder, whose attributes are now these, or unknown.

        Nothing is known of the name or the attributes if another change of the folder has begun or ended meanwhile.
        """
        with self.lock:
            is_current = self._is_current(ticket, folder)
            self.note_changed(folder)
            lease = self._valid(folder)
            if not is_current and lease is not None:
                self._set_name(lease, name, None)
            if attributes is not None and is_current and self._resumed:
                self._lease(folder, ticket.began + LEASE).attributes = attributes

    def note_changed(self, node: int, *, keep_attributes: bool = False) -> None:
        """A request of this mount has changed a node: answers to requests that began before it ended do not count."""
        with self.lock:
            self._bump(node)
            lease = self._leases.get(node)
            if lease is not None and not keep_attributes:
                lease.attributes = None

    def keep_absence(self, ticket: Ticket, folder: int, name: bytes) -> None:
        """Remember that a folder has no such name, if the mount has a lease on the folder anyway."""
        with self.lock:
            lease = self._valid(folder)
            if lease is not None and self._is_current(ticket, folder):
                self._set_name(lease, name, ABSENT)

    def keep_data(self, ticket: Ticket, node: int, data: bytes) -> None:
        """Keep all bytes of a small file."""
        with self.lock:
            lease = self._valid(node)
            if lease is None or lease.attributes is None or not self._is_current(ticket, node):
                return
            if len(data) == lease.attributes.size and self.has_room(len(data)):
                self._set_data(lease, data)

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes of a file can be kept."""
        return self._bytes + size <= _MOST_BYTES

    def begin_name(self, folder: int, name: bytes) -> Ticket:
        """Begin to change what a name stands for; until the answer comes, nothing is known about it."""
        with self.lock:
            self.note_changed(folder)
            lease = self._leases.get(folder)
            if lease is not None:
                self._set_name(lease, name, None)
            return Ticket(self._clock(), self._version)

    def find(self, folder: int, name: bytes) -> int | None:
        """The node with this name, ABSENT, or None if that is unknown."""
        with self.lock:
            lease = self._valid(folder)
            if lease is None:
                return None
            return lease.names.get(name, ABSENT if lease.complete else None)

    def attributes(self, node: int) -> Attributes | None:
        with self.lock:
            lease = self._valid(node)
            return None if lease is None else lease.attributes

    def layout(self, node: int, margin: float = 0.0) -> Layout | None:
        """The layout of a file whose attributes are kept for at least `margin` more seconds."""
        with self.lock:
            lease = self._valid(node)
            if lease is None or lease.attributes is None or lease.until < self._clock() + margin:
                return None
            return lease.layout

    def data(self, node: int) -> bytes | None:
        with self.lock:
            lease = self._valid(node)
            return None if lease is None else lease.data

    def has_lease(self, node: int) -> bool:
        with self.lock:
            return self._valid(node) is not None

    def extend(self, ticket: Ticket, node: int) -> None:
        """The answer to a request has renewed the lease on a node, unless it has ended meanwhile."""
        with self.lock:
            lease = self._valid(node)
            if lease is not None:
                lease.until = max(lease.until, ticket.began + LEASE)

    # Validity, for the kernel; the caller has the lock

    def status_validity(self, attributes: Attributes) -> float:
        """For how many seconds these attributes can be kept: 0 if they are not the current ones."""
        lease = self._valid(attributes.node)
        return 0.0 if lease is None or lease.attributes != attributes else lease.until - self._clock()

    def name_validity(self, folder: int, name: bytes, node: int) -> float:
        lease = self._valid(folder)
        return 0.0 if lease is None or self.find(folder, name) != node else lease.until - self._clock()

    # Writes of this mount

    def begin_write(self, node: int) -> Writing:
        with self.lock:
            alone = node not in self._writing
            self._writing[node] = self._writing.get(node, 0) + 1
            lease = self._valid(node)
            attributes, data = (lease.attributes, lease.data) if lease is not None and alone else (None, None)
            if lease is not None:
                lease.attributes = None
                self._set_data(lease, None)
            return Writing(self._bump(node), attributes, data)

    def end_write(self, node: int, writing: Writing, data: memoryview, offset: int, object: ObjectSize | None) -> None:
        """Keep what a write has changed, if all of the file is in one object and nothing else has changed it."""
        with self.lock:
            self._writing[node] -= 1
            if not self._writing[node]:
                del self._writing[node]
            lease, before = self._valid(node), writing.attributes
            is_last = self._changes.get(node) == writing.version and self._floor < writing.version
            self._bump(node)
            if lease is None or lease.layout is None or before is None or object is None or not is_last:
                return
            end = offset + len(data)
            if max(before.size, end) > lease.layout.size:
                return
            changed_at = object.mtime if object.mtime > lease.stamp else before.mtime
            lease.attributes = before._replace(
                size=object.size, allocated=object.allocated, mtime=changed_at, ctime=max(before.ctime, object.mtime)
            )
            old = writing.data
            if old is not None and offset <= len(old) and end <= SMALL and self.has_room(end):
                self._set_data(lease, old[:offset] + bytes(data) + old[end:])

    # Steps

    def _forget_requests(self) -> None:
        """Keep nothing that answers to requests say that have begun before now."""
        self._version += 1
        self._floor = self._version

    def _bump(self, node: int) -> int:
        self._version += 1
        if len(self._changes) >= _MOST:
            self._changes.clear()
            self._floor = self._version
        self._changes[node] = self._version
        return self._version

    def _is_current(self, ticket: Ticket, node: int) -> bool:
        return ticket.version >= self._floor and ticket.version >= self._changes.get(node, 0)

    def _valid(self, node: int) -> _Lease | None:
        lease = self._leases.get(node)
        return lease if lease is not None and lease.until > self._clock() else None

    def _lease(self, node: int, until: float) -> _Lease:
        """The lease on a node, which now lasts until then; nothing outlives a time without a lease."""
        lease = self._valid(node)
        if lease is None:
            if len(self._leases) >= _MOST:
                self._leases.clear()
                self._bytes = 0
            old = self._leases.get(node)
            if old is not None:
                self._set_data(old, None)
            lease = self._leases[node] = _Lease(until)
        elif until > lease.until:
            lease.until = until
        return lease

    def _set_name(self, lease: _Lease, name: bytes, node: int | None) -> None:
        if len(lease.names) >= _MOST:
            lease.names, lease.complete = {}, False
        lease.names[name] = node

    def _set_data(self, lease: _Lease, data: bytes | None) -> None:
        self._bytes += len(data or b"") - len(lease.data or b"")
        lease.data = data
