"""What a mount changes by itself in folders that it has alone, in what it keeps of them (data/sole_leases.py)."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from forebay.act.forward.data.sole_leases import RANGE
from forebay.act.forward.mount.file_system import Attributes
from forebay.act.forward.mount.lease_cache import ABSENT, FreshFiles, LeaseCache, Ticket
from forebay.act.forward.net.payloads import LEASE, LEASED_ALONE, LEASED_STATUS, LayoutFields, read_layout
from forebay.act.forward.net.sole_payloads import AddAnswer
from forebay.model.layout import Layout

_MARGIN = 2.0
"""Seconds before the end of a lease from which on the mount changes nothing by itself."""
_LAG = 10**9
"""How far, in ns, what a mount knows of a server's clock may lag behind it."""
_BLOCK = 4096


@dataclass(slots=True, eq=False)
class NewFile:
    """A file that the layer does not know of yet; once it `is_sent`, it stays as it is until the layer knows it.

    The server's clock shows `since` ns when the mount's shows 0.
    """

    folder: int
    name: bytes
    attributes: Attributes
    layout: Layout
    since: int
    created: int
    data: bytes = b""
    is_sent: bool = False
    was_due: bool = False


class SoleCache(LeaseCache):
    """The cache of a mount that can have folders alone. Callers of what changes a folder or a file have the lock."""

    def keep_alone(
        self,
        ticket: Ticket,
        folder: int,
        files: Iterable[int],
        now: int,
        first: int = 0,
        layout: LayoutFields | None = None,
    ) -> None:
        """Keep that the mount has a folder alone, with these files; the server's clock has just shown `now` ns.

        The mount may create files there with this layout, with ids from `first` on.
        """
        with self.lock:
            if self._valid(folder) is not None and self._is_current(ticket, folder):
                lease = self._lease(folder, ticket.began + LEASE)
                lease.alone = (lease.alone or set()).union(files)
                lease.since = now - int(self._clock() * 1e9)
                ids = iter(range(first, first + RANGE))
                lease.fresh = None if layout is None else FreshFiles(ids, read_layout(layout))

    def share(self, folders: Iterable[int] | None = None) -> None:
        """Change nothing more by itself in these folders, or in any."""
        with self.lock:
            for folder in self._leases if folders is None else folders:
                lease = self._leases.get(folder)
                if lease is not None:
                    lease.alone = lease.fresh = None
                    self._bump(folder)  # the answer to a request may still say that the mount has it alone

    def remove(
        self, folder: int, name: bytes, may_remove: Callable[[Attributes, Attributes], bool]
    ) -> tuple[int, int] | None:
        """Remove a name of a file from a folder, if the mount has both alone and `may_remove` allows it.

        Return the file and the time of the removal by the server's clock.
        """
        above = self._valid(folder)
        if above is None or above.alone is None or above.attributes is None or not above.owned:
            return None
        node, clock = above.names.get(name), self._clock()
        lease = self._valid(node) if node in above.alone else None
        if lease is None or node is None or above.until < clock + _MARGIN:
            return None
        now = _next_time(above.since, clock, above.attributes)
        if now is None or lease.attributes is None or not lease.owned:
            return None
        if not may_remove(above.attributes, lease.attributes):
            return None
        above.alone.discard(node)
        self.end((node,))
        self._bump(folder)
        self._set_name(above, name, ABSENT)
        above.attributes = above.attributes._replace(mtime=now, ctime=now)
        return node, now

    def create(
        self, folder: int, name: bytes, authorize: Callable[[Attributes], tuple[int, int, int] | None]
    ) -> NewFile | None:
        """Create a file, if the mount has the folder alone and nothing has this name there.

        `authorize` returns mode, user and group of the file, unless only the layer can decide.
        """
        above, clock = self._valid(folder), self._clock()
        if above is None or above.fresh is None or above.attributes is None or not above.owned:
            return None
        if above.until < clock + _MARGIN or self.find(folder, name) != ABSENT:
            return None
        now, rights = _next_time(above.since, clock, above.attributes), authorize(above.attributes)
        node = next(above.fresh.ids, None) if now is not None and rights is not None else None
        if now is None or rights is None or node is None:
            return None
        mode, uid, gid = rights
        attributes = Attributes(node, stat.S_IFREG | mode, 0, 0, now, now, now, 1, uid, gid, 0)
        self._bump(folder)
        self._set_name(above, name, node)
        above.attributes = above.attributes._replace(mtime=now, ctime=now)
        lease = self._lease(node, above.until)
        lease.attributes, lease.layout, lease.owned = attributes, above.fresh.layout, True
        self._set_data(lease, b"")
        return NewFile(folder, name, attributes, above.fresh.layout, above.since, now)

    def write_new(self, file: NewFile, data: memoryview, offset: int) -> None:
        """Write to a new file."""
        old, end, before = file.data, offset + len(data), file.attributes
        file.data = b"".join((old[:offset].ljust(offset, b"\0"), data, old[end:]))
        now = max(file.since + int(self._clock() * 1e9), before.mtime)
        size = len(file.data)
        file.attributes = before._replace(size=size, allocated=-(-size // _BLOCK) * _BLOCK, mtime=now, ctime=now)
        lease = self._valid(before.node)
        self._bump(before.node)
        if lease is not None:
            is_known = lease.attributes == before
            lease.attributes = file.attributes if is_known else None
            self._set_data(lease, file.data if is_known and self.has_room(size) else None)

    def keep_added(self, ticket: Ticket, folder: int, files: Sequence[NewFile], answer: AddAnswer) -> list[NewFile]:
        """Keep what the layer says of new files that it knows now; return those that it has refused."""
        refused = []
        above = self._valid(folder)
        if not answer.alone:
            self.share((folder,))
        elif answer.folder is not None:
            self.extend(ticket, folder)
        if above is not None and not answer.room:
            above.fresh = None
        for file, status in zip(files, answer.files, strict=True):
            node, lease = file.attributes.node, self._valid(file.attributes.node)
            if status.refused:
                self._bump(folder)
                if above is not None:
                    self._set_name(above, file.name, None)
                refused.append(file)
            if not status.leased & LEASED_STATUS:
                self.end((node,))
            elif lease is not None:
                lease.until = max(lease.until, ticket.began + LEASE)
                if lease.attributes == file.attributes:
                    seen = {"mtime": status.changed, "ctime": status.changed, "allocated": status.allocated}
                    lease.attributes = file.attributes._replace(**seen)
                if above is not None and above.alone is not None and status.leased & LEASED_ALONE:
                    above.alone.add(node)
        return refused


def _next_time(since: int, clock: float, folder: Attributes) -> int | None:
    """The time of a change of a folder, by the server's clock; None if somebody has set a time in the future."""
    now = since + int(clock * 1e9)  # lags behind the server's clock
    if folder.mtime < now:
        return now
    return None if folder.mtime - now > _LAG else folder.mtime + 1
