"""Limits on what one caller can take of the service: bytes at once, connections, waiting calls."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from forebay.act.control.api.proxies import Proxies
from forebay.act.control.auth.callers import Who
from forebay.act.control.errors import ErrorCode, TooMany, error_document
from forebay.act.control.service.settings import Limits
from forebay.model.units import format_size

_OWN_FILES = 128
"""Descriptors that the service needs for itself."""
_MOST_FILES = 65_536

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


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

    def enters(self, who: Hashable, own: int | None) -> bool:
        """Whether there is room for one more, who then has to `leave`; `own` is the most of this kind, None for any."""
        if own is not None and (len(self) >= self.most or self._count[who] >= own):
            return False
        self._count[who] += 1
        return True

    def leaves(self, who: Hashable) -> None:
        self._count[who] -= 1
        if self._count[who] <= 0:
            del self._count[who]


class Seat:
    """The place that one connection takes in the crowd: its address's, until it says on whose behalf it calls.

    `proxy` tells for whom a trusted proxy calls, by the headers of each call: such a connection serves many.
    """

    def __init__(self, crowd: Crowd, who: Hashable, limits: Limits, *, address: str, proxy: Proxies | None) -> None:
        self._crowd, self._first, self._limits, self._proxy = crowd, who, limits, proxy
        self._who: Hashable | None = who
        self._address = address
        self.address = address
        """Where the call comes from; "" on a UNIX socket."""

    @property
    def is_proxys(self) -> bool:
        """Whether a trusted proxy has it, and has not said for whom."""
        return self._proxy is not None

    def settle(self, address: str) -> None:
        """The proxy has said for whom it calls, once and for all."""
        self._move(address, self._limits.host)
        self._first = self._address = self.address = address
        self._proxy = None

    def claim(self, who: Who) -> None:
        """The call is this caller's, who has said so and was believed; administrators call on behalf of many."""
        key = "caller", who.role, who.uid, who.node, "" if who.uid >= 0 or who.node else who.name
        self._move(key, None if who.is_administrator else self._limits.host)

    def begin_call(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """A call begins; whose it is, is known later."""
        if self._proxy is None:
            return
        told = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
        self.address = self._proxy.caller(told) or self._address
        if self.address != self._address:
            self._move(self.address, self._limits.host)

    def end_call(self) -> None:
        """The next call by a proxy's connection may be anybody's."""
        if self._proxy is not None and self._who is not None:
            self._move(self._first, None)
            self.address = self._address

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
        """Administrators wait on behalf of many, so for them there is no end."""
        if not who.is_administrator and self._crowd.count(who) >= self._most:
            raise TooMany(f"too many waiting requests from this caller (limit {self._most})")

    @contextmanager
    def one_more(self, who: Who, what: str = "change") -> Iterator[None]:
        """For as long as the block takes; whoever may not wait was told by `check`."""
        self._crowd.enters(who, None)
        self.now[what] += 1
        try:
            yield
        finally:
            self._crowd.leaves(who)
            self.now[what] -= 1


class Bounded:
    """The application behind it gets bodies of a size that it can bear, each as a whole."""

    def __init__(self, app: App, limits: Limits) -> None:
        self._app, self._limits, self._held = app, limits, 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        seat: Seat | None = scope.get("state", {}).get("seat")
        if seat is None or scope["type"] != "http":
            await self._bounded(scope, receive, send)
            return
        try:
            seat.begin_call(scope["headers"])
            await self._bounded(scope, receive, send)
        except TooMany as error:
            await _refuse(send, ErrorCode.TOO_MANY, str(error))
        finally:
            seat.end_call()

    async def _bounded(self, scope: Message, receive: Receive, send: Send) -> None:
        length = _length(scope) if scope["type"] == "http" else 0
        if length == 0:
            await self._app(scope, receive, send)
            return
        most = self._limits.body_of(scope["path"])
        if length is not None and length > most:
            await _refuse(send, ErrorCode.TOO_LARGE, _too_large(most))
            return
        await self._with_body(scope, receive, send, most)

    async def _with_body(self, scope: Message, receive: Receive, send: Send, most: float) -> None:
        parts: list[bytes] = []
        size, more = 0, True
        try:
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return  # it hung up
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
                size += len(parts[-1])
                self._held += len(parts[-1])
                if size > most:
                    await _refuse(send, ErrorCode.TOO_LARGE, _too_large(most))
                    return
                if self._held > self._limits.bodies:
                    await _refuse(send, ErrorCode.UNAVAILABLE, "too much data is being sent at once; try again")
                    return
            await self._app(scope, whole(b"".join(parts), receive), send)
        finally:
            self._held -= size


def whole(body: bytes, receive: Receive) -> Receive:
    """The body, to be received once more."""
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()  # whether the caller hung up
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _length(scope: Message) -> int | None:
    """Bytes of the body, 0 without one, None if the caller does not say."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
        if name == b"transfer-encoding":
            return None
    return 0


def _too_large(most: float) -> str:
    return f"request body too large (limit {format_size(most)})"


async def _refuse(send: Send, code: ErrorCode, sentence: str) -> None:
    body = error_body(code, sentence)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": code.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_body(code: ErrorCode, sentence: str) -> bytes:
    return json.dumps(error_document(code, sentence)).encode()


def room_for(connections: int) -> int:
    """So many connections, or as many as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(connections + _OWN_FILES, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - _OWN_FILES))
