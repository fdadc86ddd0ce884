"""Limits on the connections and waiting calls of one caller."""

import resource
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager

from forebay.act.control.api.proxies import Proxies
from forebay.act.control.auth.callers import Who
from forebay.act.control.errors import TooMany
from forebay.act.control.service.settings import Limits

Calls = Counter[tuple[str, str, int]]  # the number of calls by route, method and status
_FILES = 128  # descriptors for the service's own files
_MOST_FILES = 65_536


class Crowd:
    """Counts the current connections or calls of each caller."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._count: Counter[Hashable] = Counter()
        self.dropped: Counter[str] = Counter()  # callers that were rejected or cut off, by reason

    def __len__(self) -> int:
        return self._count.total()

    def count(self, who: Hashable) -> int:
        return self._count[who]

    def enter(self, who: Hashable, most: int | None) -> bool:
        """Count one more, unless the caller has `most` already (None: no limit); returns whether it may enter."""
        if most is not None and (len(self) >= self.most or self._count[who] >= most):
            return False
        self._count[who] += 1
        return True

    def leave(self, who: Hashable) -> None:
        self._count[who] -= 1
        if self._count[who] <= 0:
            del self._count[who]


class Seat:
    """One connection's place in the crowd. It counts for its address until a call identifies the caller.

    `address` is "" on a UNIX socket. With `proxies`, the connection is a trusted proxy's and serves many callers: the
    headers of each call name the caller.
    """

    def __init__(
        self, crowd: Crowd, who: Hashable, limits: Limits, *, address: str = "", proxies: Proxies | None = None
    ) -> None:
        self._crowd, self._limits, self.proxies = crowd, limits, proxies
        self._who: Hashable | None = who
        self._peer = self.address = address

    def settle(self, address: str) -> None:
        """Count the connection for the caller that the proxy named, for all its calls."""
        self._move(address, self._limits.host)
        self._peer = self.address = address
        self.proxies = None

    def claim(self, who: Who) -> None:
        """Count the call for an identified caller. Administrators have no limit: they call on behalf of many."""
        key = "caller", who.role, who.uid, who.node, "" if who.uid >= 0 or who.node else who.name
        self._move(key, None if who.is_administrator else self._limits.host)

    def begin_call(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Count a call for the address that a proxy names; `claim` follows once the caller is identified."""
        if self.proxies is not None:
            forwarded = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
            self.address = self.proxies.caller(forwarded) or self._peer
            if self.address != self._peer:
                self._move(self.address, self._limits.host)

    def end_call(self) -> None:
        """Forget the caller: the next call on a proxy's connection may have another."""
        if self.proxies is not None and self._who is not None:
            self._move(self._peer, None)
            self.address = self._peer

    def leave(self) -> None:
        """Leave the crowd. Repeating this changes nothing."""
        if self._who is not None:
            self._crowd.leave(self._who)
            self._who = None

    def _move(self, who: Hashable, most: int | None) -> None:
        if self._who is None or self._who == who:
            return
        if most is not None and self._crowd.count(who) >= most:
            raise TooMany(f"too many connections from this caller (limit {most}); close some, or try again later")
        self._crowd.leave(self._who)
        self._crowd.enter(who, None)
        self._who = who


class Waits:
    """Calls that wait for something, by caller."""

    def __init__(self, most: int) -> None:
        self._most, self._crowd = most, Crowd(1 << 30)
        self.now: Counter[str] = Counter()  # by what they wait for

    def check(self, who: Who) -> None:
        """Refuse a caller with too many waiting calls. Administrators have no limit: they wait on behalf of many."""
        if not who.is_administrator and self._crowd.count(who) >= self._most:
            raise TooMany(f"too many waiting requests from this caller (limit {self._most}); end some first")

    @contextmanager
    def count_waiting(self, who: Who, what: str = "change") -> Iterator[None]:
        """Count a waiting call for as long as the block runs. Call `check` first."""
        self._crowd.enter(who, None)
        self.now[what] += 1
        try:
            yield
        finally:
            self._crowd.leave(who)
            self.now[what] -= 1


def room_for(connections: int) -> int:
    """Raise the limit on open files; returns how many connections it permits, at most `connections`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(connections + _FILES, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - _FILES))
