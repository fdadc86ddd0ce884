"""Leases: what mounts may cache of folders and files, and whose leases must end before something changes.

A lease on a file covers its attributes and its bytes, a lease on a folder also the names in it. It ends after LEASE
seconds. A request that changes something first waits until no other mount has a lease on it. A mount gives up its lease
when it is recalled; one that does not answer delays others until its lease ends. Nobody gets a lease on a file that
others have open to write, since the server of the names does not see writes.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic

from forebay.act.forward.net.payloads import LEASE

_MARGIN = 1.0
"""Seconds longer than mounts count, for clocks that run at different rates."""
_MOST = 1 << 18
"""Leases at a time; with more, mounts have to ask."""


class Conflict(Exception):
    """Mounts have leases on what a request would change: when each ends, by holder and node. All end at `until`."""

    def __init__(self, leases: dict[int, dict[int, float]], until: float) -> None:
        super().__init__("the request waits for the end of leases")
        self.leases, self.until = leases, until


class Leases:
    """Leases by file or folder (`node`) and mount (`holder`).

    `former` are the holders that may have leases of an earlier run: until they watch again, or LEASE seconds have
    passed, every change waits.
    """

    def __init__(self, former: Collection[int] = (), clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._granted: dict[int, dict[int, float]] = {}
        self._order: deque[tuple[float, int, int]] = deque()  # all grants, by their end
        self._wanted: dict[int, float] = {}  # nodes that somebody waits to change
        self._watching: set[int] = set()
        self._former, self._known_at = set(former), clock() + LEASE + _MARGIN

    @property
    def holders(self) -> set[int]:
        """All mounts that may have leases."""
        return self._watching | self._former

    def is_watching(self, holder: int) -> bool:
        """Whether this mount may have been granted leases in this run."""
        return holder in self._watching

    def watch(self, holder: int) -> None:
        """Grant leases to this mount from now on; it has none yet."""
        self.end(holder)
        self._watching.add(holder)

    def end(self, holder: int) -> None:
        """Forget a mount: it has no leases any more."""
        self._former.discard(holder)
        self._watching.discard(holder)
        mine = [(node, holders[holder]) for node, holders in self._granted.items() if holder in holders]
        for node, until in mine:
            self.give_up(holder, node, until)

    def grant(self, holder: int, node: int, writers: Collection[int] = ()) -> bool:
        """Grant a lease, if no other mount has the file open to write and nobody waits to change it."""
        if holder not in self._watching or not writers_are(holder, writers) or len(self._order) >= _MOST:
            return False
        now = self._clock()
        self._drop_old(now)
        if self._wanted and self._wanted.get(node, 0.0) > now:
            return False
        until = now + LEASE + _MARGIN
        holders = self._granted.get(node)
        if holders is None:
            self._granted[node] = {holder: until}
        else:
            holders[holder] = until
        self._order.append((until, node, holder))
        return True

    def claim(self, holder: int, nodes: Sequence[int]) -> None:
        """Raise Conflict unless a request of this mount (0: of another client) may change these nodes now."""
        if not (self._granted or self._wanted or self._former):
            return
        now = self._clock()
        if self._former:
            if now < self._known_at:
                raise Conflict({}, self._known_at)
            self._former.clear()
        conflicts: dict[int, dict[int, float]] = {}
        last = 0.0
        for node in nodes:
            for other, until in self._granted.get(node, {}).items():
                if other != holder and until > now:
                    conflicts.setdefault(other, {})[node] = until
                    last = max(last, until)
                    self._wanted[node] = last
        if conflicts:
            raise Conflict(conflicts, last)
        if self._wanted:
            for node in nodes:
                self._wanted.pop(node, None)

    def hand_over(self, nodes: Iterable[int]) -> list[tuple[int, int, float]]:
        """The leases on these nodes, for another server: holder, node, and seconds left."""
        now = self._clock()
        granted = ((node, self._granted.get(node, {})) for node in nodes)
        return [(holder, node, until - now) for node, each in granted for holder, until in each.items() if until > now]

    def take_over(self, leases: Iterable[tuple[int, int, float]]) -> None:
        """Respect leases that another server has granted."""
        now = self._clock()
        for holder, node, left in leases:
            until = now + min(left, LEASE + _MARGIN)
            holders = self._granted.setdefault(node, {})
            holders[holder] = max(holders.get(holder, until), until)
            self._order.append((until, node, holder))

    def give_up(self, holder: int, node: int, until: float) -> None:
        """End the lease of a mount that would end then, now that the mount has dropped what it kept."""
        holders = self._granted.get(node)
        if holders is not None and holders.get(holder) == until:
            del holders[holder]
            if not holders:
                del self._granted[node]

    def _drop_old(self, now: float) -> None:
        order, granted = self._order, self._granted
        while order and order[0][0] <= now:
            _, node, holder = order.popleft()
            holders = granted.get(node)
            if holders is not None and holders.get(holder, now + 1) <= now:
                del holders[holder]
                if not holders:
                    del granted[node]
        if self._wanted and len(self._wanted) > _MOST:
            self._wanted = {node: until for node, until in self._wanted.items() if until > now}


def writers_are(holder: int, writers: Collection[int]) -> bool:
    """Whether only the holder writes."""
    return not writers or (len(writers) == 1 and holder in writers)
