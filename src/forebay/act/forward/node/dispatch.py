"""From clients' requests to messages for servers: requests are cut into pieces, queued, and put together.

All of this runs for every request, thousands of times a second, so it creates no objects that it can do without.
"""

from __future__ import annotations

import errno
from abc import abstractmethod
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, time_ns
from typing import Any, Protocol

from forebay.act.forward.council.parameters import QUEUE_FIELDS
from forebay.act.forward.net.timer import Alarm
from forebay.act.forward.net.wire import Bytes, Message
from forebay.act.forward.node.window_histogram import WindowHistogram
from forebay.act.forward.striping import Piece
from forebay.decide.order.queue import (
    SETTINGS,
    arrive,
    complete,
    depth,
    drop,
    follower,
    new_queue,
    set_option,
    take_of,
    use,
)
from forebay.decide.order.queue_layout import AGGREGATE, NEVER, NONE, WAITING, WAKE
from forebay.decide.registry import find, given_options


class NodeFile(Protocol):
    """A file that clients have open at this node: its number here, and where its bytes are."""

    number: int

    def pieces(self, offset: int, length: int) -> Sequence[Piece]: ...


class Owner(Protocol):
    """Who made a request."""

    def finish(self, request: Request) -> None:
        """All pieces of the request have their answers."""


class Request:
    """One read or write (`write` is 1) of a client, until its answer is sent.

    `parts` holds what the servers sent for each piece, and `given` the messages that contain it. `known_size` is the
    size of the file before it was read for the second time.
    """

    __slots__ = (
        "began", "entered", "file", "flow", "given", "known_size", "left", "message", "owner", "parts", "pieces",
        "reason", "size", "status", "write",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, message: Message, file: NodeFile, size: int, write: int, flow: int, began: int
    ) -> None:
        self.owner, self.message, self.file = owner, message, file
        self.size, self.write, self.flow = size, write, flow
        self.began, self.status = began, 0
        self.pieces = pieces = file.pieces(message.offset, size)
        self.left = left = len(pieces)
        self.entered = 0  # how many pieces have come into the queue so far
        if not write:
            self.parts: list[Bytes | None] = [None] * left
            self.given: list[Message] = []
            self.known_size: int | None = None

    def restart(self, size: int) -> None:
        """Read once more, now that the size of the file is known."""
        self.known_size, self.entered, self.left = size, 0, len(self.pieces)
        self.parts = [None] * self.left

    def release_parts(self) -> None:
        """Give up what the servers sent for a read."""
        for given in self.given:
            given.release()
        self.given.clear()
        self.parts.clear()

    def fail(self, status: int, reason: str) -> None:
        """The request fails; the first reason counts."""
        if not self.status:
            self.status, self.reason = status, reason


_RANG = -1  # the alarm was set, and has rung
Batch = list[tuple[Request, int, int]]
"""Pieces that go to a server as one message: the request of each, its index in the request, and its slot."""


class Servers(Protocol):
    """Where messages go. Each leads to one call of `Dispatch.complete` or `Dispatch.refuse`."""

    count: int
    up: list[bool]
    """Whether each server can receive messages now."""

    @abstractmethod
    def send(self, slot: int, server: int, batch: Batch) -> None:
        """Send these pieces, neighbours in one object, as one message."""

    def flush(self) -> None:
        """Everything that is sent now has been passed to `send`."""
        return


class Dispatch:
    """The queue of one I/O node."""

    def __init__(self, loop: AbstractEventLoop, servers: Servers, scheduler: str, **sizes: Any) -> None:
        """`sizes` are the arguments of `new_queue`."""
        policy = find("order", scheduler)
        self.scheduler = policy.name
        wanted = {name: value for name, value in sizes.items() if name in SETTINGS and value is not None}
        self._settings: dict[str, Any] = given_options("order", scheduler) | wanted
        self.q = new_queue(policy, servers=servers.count, **sizes)
        self._take = take_of(policy)
        self._fields = memoryview(self.q)  # type: ignore[arg-type]
        self._servers = servers
        slots = sizes.get("slots", 4096)
        self._who: list[Request | None] = [None] * slots
        self._which: list[int] = [0] * slots
        self._parked: list[deque[tuple[int, Request, int]]] = [deque() for _ in range(servers.count)]
        self.full: deque[Request] = deque()  # they wait for a slot of the queue; then no more should come
        self.windows = WindowHistogram(self._fields)
        self._loop, self._scheduled, self._wake = loop, False, NEVER
        self._windows = "window" in policy.options
        self._alarm = Alarm(loop, self._on_alarm)
        self._began, self._changed = monotonic(), dict[str, float]()
        self.open = self.lost_servers = 0

    def submit(self, request: Request) -> None:
        """Add a request; `soon` sends what may be sent."""
        self.open += 1
        if not request.left:
            self._settle(request, 0)
        elif self.full or not self._enter(request):
            self.full.append(request)

    def _enter(self, request: Request) -> bool:
        """Put its pieces into the queue; False if the queue is full before the last one."""
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
        """Send what may be sent, once everything that has arrived is processed: then many go out together."""
        if not self._scheduled and self._fields[WAITING]:
            self._scheduled = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        """Send what may be sent now, and set the alarm for when more may be."""
        q, fields, who, take = self.q, self._fields, self._who, self._take
        self._scheduled = False
        now = time_ns()
        slot = take(q, now)
        if slot >= 0:
            which, send, aggregates = self._which, self._servers.send, fields[AGGREGATE]
            while slot >= 0:
                request, i = who[slot], which[slot]
                batch = [(request, i, slot)]
                follows = slot if aggregates else NONE
                while follows >= 0 and (follows := follower(q, follows)) >= 0:
                    batch.append((who[follows], which[follows], follows))
                send(slot, request.pieces[i][0], batch)  # type: ignore[union-attr,arg-type]
                slot = take(q, now) if fields[WAITING] else NONE
            self._servers.flush()
        if self._windows:
            self.windows.observe(now, self._wake != NEVER)
        if fields[WAKE] != self._wake:
            self._wake = fields[WAKE]
            self._alarm.at(self._wake)

    def _on_alarm(self) -> None:
        self._wake = _RANG
        self.pump()

    def complete(self, slot: int, batch: Batch) -> None:
        """A server has carried out these pieces, and the whole message that began with `slot` (NONE: not all of it)."""
        if slot >= 0:
            complete(self.q, slot)
        for request, _, _ in batch:
            self._settle(request, 1)
        if self.full:
            self._admit_waiting()
        self.soon()

    def refuse(self, slot: int, batch: Batch, status: int, reason: str) -> None:
        """A server has not carried out these pieces."""
        for request, _, _ in batch:
            request.fail(status, reason)
        self.complete(slot, batch)

    def _settle(self, request: Request, pieces: int) -> None:
        """So many more pieces of the request are done with."""
        request.left -= pieces
        if not request.left:
            self.open -= 1
            request.owner.finish(request)

    def _admit_waiting(self) -> None:
        """Slots are free: put waiting requests into the queue."""
        while self.full and self._enter(self.full[0]):
            self.full.popleft()
        self.soon()

    def withdraw(self, request: Request, status: int, reason: str) -> None:
        """Drop the pieces that were not sent; those that were sent will be carried out, so their answers must come."""
        request.fail(status, reason)
        gone = sum(1 for slot, other in enumerate(self._who) if other is request and drop(self.q, slot))
        if request in self.full:
            self.full.remove(request)
            gone += len(request.pieces) - request.entered
            request.entered = len(request.pieces)
        for parked in self._parked:
            for entry in [entry for entry in parked if entry[1] is request]:
                parked.remove(entry)
                gone += 1
        if gone:
            self._settle(request, gone)
            self._admit_waiting()

    def park(self, server: int) -> None:
        """The server is away: take its pieces out of the queue, so that they take no turns of others."""
        self.lost_servers += 1
        now = time_ns()
        for slot, (request, i) in enumerate(zip(self._who, self._which, strict=True)):
            if request is not None and request.pieces[i][0] == server and drop(self.q, slot):
                self._parked[server].append((now, request, i))
        self._admit_waiting()

    def unpark(self, server: int) -> None:
        """The server is back: put its pieces into the queue again."""
        parked, now = self._parked[server], time_ns()
        while parked:
            _, request, i = parked[0]
            _, offset, length = request.pieces[i][:3]
            slot = arrive(self.q, now, server, request.file.number, request.flow, offset, length, request.write)
            if slot == NONE:
                break
            parked.popleft()
            self._who[slot], self._which[slot] = request, i
        self.soon()

    def drop_overdue(self, seconds: float, absence: Callable[[int], str]) -> None:
        """Fail the pieces that have waited longer for a missing server; `absence` says why it is missing."""
        before = time_ns() - int(seconds * 1e9)
        for server, parked in enumerate(self._parked):
            if parked and self._servers.up[server]:
                self.unpark(server)  # the queue was full when it came back
            while parked and parked[0][0] < before:
                _, request, _ = parked.popleft()
                request.fail(errno.EIO, absence(server))
                self._settle(request, 1)

    def depths(self) -> tuple[int, ...]:
        """How many pieces wait for each server."""
        return tuple(int(depth(self.q, s)) + len(parked) for s, parked in enumerate(self._parked))

    def parameter(self, name: str) -> tuple[int | str, float]:
        """The value of a parameter of the scheduler, and for how many seconds it has had it."""
        held = monotonic() - self._changed.get(name, self._began)
        return (self.scheduler if name == "scheduler" else self._fields[QUEUE_FIELDS[name]]), held

    def change(self, name: str, value: int | str) -> None:
        """Set a parameter of the scheduler, or the scheduler itself; all other settings stay.

        A new scheduler brings its own defaults only for what nobody has set.
        """
        self._changed[name] = monotonic()
        if name == "scheduler":
            policy = find("order", str(value))
            use(self.q, policy, **self._settings | given_options("order", str(value)))
            self.scheduler, self._take = policy.name, take_of(policy)
            self._windows = "window" in policy.options
        else:
            set_option(self.q, name, int(value))
            self._settings[name] = value
        self.soon()

    def close(self) -> None:
        self._alarm.close()
