"""From clients' requests to messages for servers: requests are cut into pieces, wait in the queue, and come together.

Everything here runs for every request, thousands of times a second, so it makes no objects that it can do without.
"""

from __future__ import annotations

import errno
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any, Protocol

from forebay.act.forward.net.timer import Alarm
from forebay.act.forward.net.wire import Bytes, Message
from forebay.act.forward.node.window_histogram import Windows
from forebay.act.forward.striping import Piece
from forebay.decide.order.new import DEFAULTS
from forebay.decide.order.queue import (
    NEVER,
    NONE,
    WAKE,
    arrive,
    depth,
    done,
    drop,
    follower,
    new_queue,
    set_option,
    take_of,
    use,
)
from forebay.decide.order.words import AGGREGATE, WAITING
from forebay.decide.registry import find, given_options


class Opened(Protocol):
    """A file that clients have open at this node: its number here, and where its bytes are."""

    number: int

    def pieces(self, offset: int, length: int) -> Sequence[Piece]: ...


class Owner(Protocol):
    """Who asked."""

    def finish(self, request: Request) -> None:
        """All pieces of the request were answered."""


class Request:
    """One read or write (`write` is 1) of a client, until it is answered.

    `parts` are what the servers gave for each piece, and `given` the messages that those lie in. `known` is how long
    the file was before it was read for the second time.
    """

    __slots__ = (
        "began", "entered", "file", "flow", "given", "known", "left", "message", "owner", "parts", "pieces", "size",
        "status", "words", "write",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, message: Message, file: Opened, size: int, write: int, flow: int, began: int
    ) -> None:
        self.owner = owner
        self.message = message
        self.file = file
        self.size = size
        self.write = write
        self.flow = flow
        self.began = began
        self.status = 0
        self.pieces = pieces = file.pieces(message.offset, size)
        self.left = left = len(pieces)
        self.entered = 0  # how many pieces have come into the queue so far
        if not write:
            self.parts: list[Bytes | None] = [None] * left
            self.given: list[Message] = []
            self.known: int | None = None

    def anew(self, size: int) -> None:
        """It is read once more, of a file that is known to be so long."""
        self.known, self.entered, self.left = size, 0, len(self.pieces)
        self.parts = [None] * self.left

    def failed(self, status: int, words: str) -> None:
        """It can't be done; the first reason counts."""
        if not self.status:
            self.status, self.words = status, words


_RANG = -1  # the alarm was set, and is not any more
Batch = list[tuple[Request, int, int]]
"""Pieces that go to a server as one message: each one's request, its place among that one's pieces, and its slot."""


class Servers(Protocol):
    """Where messages go to. Each is answered by `Dispatch.answered` or `Dispatch.refused`, once."""

    count: int

    up: list[bool]
    """Of each server, whether messages can be sent to it just now."""

    def send(self, slot: int, server: int, batch: Batch) -> None:
        """Send these pieces, neighbours in one object, as one message."""

    def flush(self) -> None:
        """All that is to be sent now has been given."""


class Dispatch:
    """The queue of one I/O node, and what is in it."""

    def __init__(self, loop: AbstractEventLoop, servers: Servers, scheduler: str, **sizes: Any) -> None:
        """`sizes` are those of `new_queue`."""
        policy = find("order", scheduler)
        self.scheduler = policy.name
        wanted = {name: value for name, value in sizes.items() if name in DEFAULTS and value is not None}
        self._settings: dict[str, Any] = given_options("order", scheduler) | wanted
        self.q = new_queue(policy, servers=servers.count, **sizes)
        self._take = take_of(policy)
        self._words = memoryview(self.q)  # type: ignore[arg-type]
        self._servers = servers
        slots = sizes.get("slots", 4096)
        self._who: list[Request | None] = [None] * slots
        self._which: list[int] = [0] * slots
        self._parked: list[deque[tuple[int, Request, int]]] = [deque() for _ in range(servers.count)]
        self._full: deque[Request] = deque()
        self.windows = Windows(self._words)
        self._loop, self._asked, self._wake = loop, False, NEVER
        self._windows = "window" in policy.options
        self._alarm = Alarm(loop, self._rang)
        self.open = 0

    @property
    def full(self) -> bool:
        """Whether requests wait for a place to wait in; then nobody should bring more."""
        return bool(self._full)

    def submit(self, request: Request) -> None:
        """Take a request in; `soon` sends what can go."""
        self.open += 1
        if not request.left:
            self._end(request)
        elif self._full or not self._enter(request):
            self._full.append(request)

    def _enter(self, request: Request) -> bool:
        """Put its pieces into the queue; False if that became full before the last one."""
        q, now, pieces = self.q, time_ns(), request.pieces
        number, flow, write = request.file.number, request.flow, request.write
        who, which, up = self._who, self._which, self._servers.up
        for i in range(request.entered, len(pieces)):
            server, offset, length = pieces[i][:3]
            if not up[server]:
                self._parked[server].append((now, request, i))
                request.entered = i + 1
                continue
            slot = arrive(q, now, server, number, flow, offset, length, write)
            if slot == NONE:
                return False
            who[slot], which[slot] = request, i
            request.entered = i + 1
        return True

    def soon(self) -> None:
        """Send what may be sent, once all that has come by now has been looked at: many go out together then."""
        if not self._asked and self._words[WAITING]:
            self._asked = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        """Send what may be sent now, and see to it that this is asked again when more may be."""
        q, words, who, take = self.q, self._words, self._who, self._take
        self._asked = False
        now = time_ns()
        slot = take(q, now)
        if slot >= 0:
            which, send, aggregates = self._which, self._servers.send, words[AGGREGATE]
            while slot >= 0:
                request, i = who[slot], which[slot]
                batch = [(request, i, slot)]
                if aggregates:
                    self._gather(slot, batch)  # type: ignore[arg-type]
                send(slot, request.pieces[i][0], batch)  # type: ignore[union-attr,arg-type]
                slot = take(q, now) if words[WAITING] else NONE
            self._servers.flush()
        if self._windows:
            self.windows.seen(now, self._wake != NEVER)
        if words[WAKE] != self._wake:
            self._wake = words[WAKE]
            self._alarm.at(self._wake)

    def _rang(self) -> None:
        self._wake = _RANG
        self.pump()

    def _gather(self, slot: int, batch: Batch) -> None:
        while (slot := follower(self.q, slot)) >= 0:
            request = self._who[slot]
            assert request is not None
            batch.append((request, self._which[slot], slot))

    def answered(self, slot: int, batch: Batch) -> None:
        """A server has done these pieces, and with them all of the message that began with `slot`; NONE: not all."""
        if slot >= 0:
            done(self.q, slot)
        for request, _, _ in batch:
            request.left -= 1
            if not request.left:
                self.open -= 1
                request.owner.finish(request)
        if self._full:
            self._let_in()
        if self._words[WAITING] and not self._asked:
            self._asked = True
            self._loop.call_soon(self.pump)

    def refused(self, slot: int, batch: Batch, status: int, words: str) -> None:
        """A server has not done it, for this reason."""
        for request, _, _ in batch:
            request.failed(status, words)
        self.answered(slot, batch)

    def _end(self, request: Request) -> None:
        self.open -= 1
        request.owner.finish(request)

    def _let_in(self) -> None:
        """Places have become free: those who wait for one come in."""
        while self._full and self._enter(self._full[0]):
            self._full.popleft()
        self.soon()

    def withdraw(self, request: Request, status: int, words: str) -> None:
        """Forget what of a request has not been sent; what was sent is waited for, since it will be done."""
        request.failed(status, words)
        gone = 0
        for slot, other in enumerate(self._who):
            if other is request and drop(self.q, slot):
                gone += 1
        if request in self._full:
            self._full.remove(request)
            gone += len(request.pieces) - request.entered
            request.entered = len(request.pieces)
        for parked in self._parked:
            stay = [entry for entry in parked if entry[1] is not request]
            gone += len(parked) - len(stay)
            if len(parked) != len(stay):
                parked.clear()
                parked.extend(stay)
        if gone:
            request.left -= gone
            if not request.left:
                self._end(request)
            self._let_in()

    def lost(self, server: int) -> None:
        """The server is away: what waits for it waits aside, so that it takes no turn of the others."""
        now = time_ns()
        for slot, request in enumerate(self._who):
            if request is None:
                continue
            i = self._which[slot]
            if request.pieces[i][0] == server and drop(self.q, slot):
                self._parked[server].append((now, request, i))
        self._let_in()

    def found(self, server: int) -> None:
        """The server is back: what waited aside goes into the queue."""
        parked, self._parked[server] = self._parked[server], deque()
        now = time_ns()
        while parked:
            when, request, i = parked.popleft()
            _, offset, length = request.pieces[i][:3]
            slot = arrive(self.q, now, server, request.file.number, request.flow, offset, length, request.write)
            if slot == NONE:
                parked.appendleft((when, request, i))
                break
            self._who[slot], self._which[slot] = request, i
        self._parked[server].extendleft(reversed(parked))
        self.soon()

    def impatient(self, seconds: float, words: Callable[[int], str]) -> None:
        """Give up what has waited longer for a server that is away; `words` says of which."""
        before = time_ns() - int(seconds * 1e9)
        for server in range(len(self._parked)):
            if self._parked[server] and self._servers.up[server]:
                self.found(server)  # the queue was full when it came back
            parked = self._parked[server]
            while parked and parked[0][0] < before:
                _, request, _ = parked.popleft()
                request.failed(errno.EIO, words(server))
                request.left -= 1
                if not request.left:
                    self._end(request)

    def depths(self) -> tuple[int, ...]:
        """How many pieces wait for each server."""
        return tuple(int(depth(self.q, s)) + len(parked) for s, parked in enumerate(self._parked))

    def change(self, name: str, value: Any) -> None:
        """Set a parameter of the scheduler, or the scheduler itself, from now on; all others stay as they were set.

        Another scheduler brings its own defaults only for what nobody has set.
        """
        if name == "scheduler":
            policy = find("order", value)
            use(self.q, policy, **self._settings | given_options("order", value))
            self.scheduler, self._take = policy.name, take_of(policy)
            self._windows = "window" in policy.options
        else:
            set_option(self.q, name, value)
            self._settings[name] = value
        self.soon()

    def close(self) -> None:
        self._alarm.close()
