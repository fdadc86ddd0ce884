"""Limits on what one caller can take of the service: connections and waiting calls."""

import resource
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager

from forebay.act.control.api.proxies import Proxies
from forebay.act.control.auth.callers import Who
from forebay.act.control.errors import TooMany
from forebay.act.control.service.settings import Limits

Calls = Counter[tuple[str, str, int]]  # the number of calls by route, method and status
_FILES = 128  # descriptors that the service needs for itself
_MOST_FILES = 65_536


class Crowd:
    """How many of each are there now."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._count: Counter[Hashable] = Counter()
        self.dropped: Counter[str] = Counter()  # those who were not let in, or sent away, by why

    def __len__(self) -> int:
        return self._count.total()

    def count(self, who: Hashable) -> int:
        return self._count[who]

    def enters(self, who: Hashable, most: int | None) -> bool:
        """Whether there is room for one more, who then has to `leave`; `most` of this kind, None for any number."""
        if most is not None and (len(self) >= self.most or self._count[who] >= most):
            return False
        self._count[who] += 1
        return True

    def leaves(self, who: Hashable) -> None:
        self._count[who] -= 1
        if self._count[who] <= 0:
            del self._count[who]


class Seat:
    """The place that one connection takes in the crowd: its address's, until it says on whose behalf it calls.

    `address` is "" on a UNIX socket. With `proxies`, a trusted proxy has the connection, which serves many: the headers
    of each call say for whom.
    """

    def __init__(
        self, crowd: Crowd, who: Hashable, limits: Limits, *, address: str = "", proxies: Proxies | None = None
    ) -> None:
        self._crowd, self._limits, self.proxies = crowd, limits, proxies
        self._who: Hashable | None = who
        self._peer = self.address = address

    def settle(self, address: str) -> None:
        """The proxy has said for whom it calls, once and for all."""
        self._move(address, self._limits.host)
        self._peer = self.address = address
        self.proxies = None

    def claim(self, who: Who) -> None:
        """The call is this caller's, who was identified. Administrators call on behalf of many."""
        key = "caller", who.role, who.uid, who.node, "" if who.uid >= 0 or who.node else who.name
        self._move(key, None if who.is_administrator else self._limits.host)

    def begin_call(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """A call begins; whose it is, is known later."""
        if self.proxies is not None:
            forwarded = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
            self.address = self.proxies.caller(forwarded) or self._peer
            if self.address != self._peer:
                self._move(self.address, self._limits.host)

    def end_call(self) -> None:
        """The next call by a proxy's connection may be anybody's."""
        if self.proxies is not None and self._who is not None:
            self._move(self._peer, None)
            self.address = self._peer

    def leave(self) -> None:
        """Counts once, however often it is called."""
        if self._who is not None:
            self._crowd.leaves(self._who)
            self._who = None

    def _move(self, who: Hashable, most: int | None) -> None:
        if self._who is None or self._who == who:
            return
        if most is not None and self._crowd.count(who) >= most:
            raise TooMany(f"too many connections of this caller (limit {most}); close some, or try again later")
        self._crowd.leaves(self._who)
        self._crowd.enters(who, None)
        self._who = who


class Waits:
    """Calls that wait for something, by caller."""

    def __init__(self, most: int) -> None:
        self._most, self._crowd = most, Crowd(1 << 30)
        self.now: Counter[str] = Counter()  # for what they wait

    def check(self, who: Who) -> None:
        """Administrators wait on behalf of many, so for them there is no limit."""
        if not who.is_administrator and self._crowd.count(who) >= self._most:
            raise TooMany(f"too many waiting requests from this caller (limit {self._most})")

    @contextmanager
    def one_more(self, who: Who, what: str = "change") -> Iterator[None]:
        """For as long as the block takes. `check` refuses whoever may not wait."""
        self._crowd.enters(who, None)
        self.now[what] += 1
        try:
            yield
        finally:
            self._crowd.leaves(who)
            self.now[what] -= 1


def room_for(connections: int) -> int:
    """So many connections, or as many as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(connections + _FILES, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - _FILES))
