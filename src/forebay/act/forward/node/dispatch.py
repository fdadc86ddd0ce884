"""Turns clients' requests into messages for servers: cuts them into pieces, queues these, and joins the answers.

This code runs thousands of times a second, so it avoids creating objects.
"""

from __future__ import annotations

import errno
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Protocol

from forebay.act.forward.council.parameters import QUEUE_FIELDS
from forebay.act.forward.net.timer import Alarm
from forebay.act.forward.net.wire import Bytes, Message
from forebay.act.forward.node.window_histogram import WindowHistogram
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

if TYPE_CHECKING:
    from forebay.act.forward.node.backend import Batch, NodeFile, Part, Servers


class Owner(Protocol):
    """The session that made a request."""

    def finish(self, requests: list[Request]) -> None:
        """Called once all pieces of each of these requests have answers."""


class Request:
    """One read or write (`write` is 1) of a client, until its answer is sent.

    `left` counts the `pieces` without an answer. `entered` counts those that have entered the queue while it has no
    room for the others. `parts` holds the bytes that servers sent for each piece, and `replies` the messages that own
    these bytes. `known_size` is None at first; a second attempt at a read sets it to the size of the file. `object` is
    the status of the object after a write, if the client wants it and there is only one.
    """

    __slots__ = (
        "began", "entered", "file", "flow", "known_size", "left", "message", "object", "owner", "parts", "pieces",
        "reason", "replies", "size", "status", "write",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, message: Message, file: NodeFile, size: int, write: int, flow: int, began: int
    ) -> None:
        self.owner, self.message, self.file = owner, message, file
        self.size, self.write, self.flow = size, write, flow
        self.began, self.status = began, 0
        self.pieces = pieces = file.pieces(message.offset, size)
        self.left = left = len(pieces)
        self.entered = 0
        if not write:
            self.parts: list[Bytes | None] = [None] * left
            self.replies: list[Message] = []
            self.known_size: int | None = None
        else:
            self.object: Bytes = b""

    def restart(self, size: int) -> None:
        """Prepare to read again, now that the size of the file is known."""
        self.known_size, self.entered, self.left = size, 0, len(self.pieces)
        self.parts = [None] * self.left

    def release_parts(self) -> None:
        """Free the bytes that servers sent for a read."""
        for reply in self.replies:
            reply.release()
        self.replies.clear()
        self.parts.clear()

    def fail(self, status: int, reason: str) -> None:
        """Record why the request fails, unless an earlier reason is recorded."""
        if not self.status:
            self.status, self.reason = status, reason


_RANG = -1  # the alarm has rung


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
        self._parts: list[Any] = [None] * slots  # by slot: its latest part
        self._parked: list[deque[tuple[int, Request, int]]] = [deque() for _ in range(servers.count)]
        self.full: deque[Request] = deque()  # requests that wait for a free slot; meanwhile clients must not send more
        self.windows = WindowHistogram(self._fields)
        self._loop, self._scheduled, self._wake = loop, False, NEVER
        self._windows = "window" in policy.options
        self._alarm = Alarm(loop, self._on_alarm)
        self._began, self._changed = monotonic(), dict[str, float]()
        self.open = self.lost_servers = 0

    def submit(self, request: Request, now: int) -> None:
        """Queue a request; `pump` sends it in its turn."""
        self.open += 1
        if not request.left:
            self._settle(request, 0)
        elif self.full or not self._enter(request, now):
            self.full.append(request)

    def _enter(self, request: Request, now: int) -> bool:
        """Queue the pieces of a request; return False if the queue is full before the last one."""
        i = request.entered
        for server, offset, length, _, _ in request.pieces[i:] if i else request.pieces:
            if self._servers.up[server]:
                slot = arrive(self.q, now, server, request.file.number, request.flow, offset, length, request.write)
                if slot == NONE:
                    request.entered = i
                    return False
                self._parts[slot] = request, i, slot
            else:
                self._parked[server].append((now, request, i))
            i += 1
        return True

    def pump_arrival(self) -> None:
        """Call `pump` now; or, if requests are aggregated, once all those that arrived together are queued."""
        if self._fields[AGGREGATE]:
            self.pump_soon()
        else:
            self.pump()

    def pump_soon(self) -> None:
        """Call `pump` once all requests that have arrived are queued, so that many go out together."""
        if not self._scheduled and self._fields[WAITING]:
            self._scheduled = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        """Send everything that may go now, and set the alarm for the next time that something may."""
        fields = self._fields
        self._scheduled = False
        now = time_ns()
        take = self._take
        slot = take(self.q, now)
        if slot >= 0:
            if fields[WAITING] or fields[AGGREGATE]:
                self._send_several(slot, now)
            else:
                request, i, _ = part = self._parts[slot]
                self._servers.send_alone(slot, request.pieces[i][0], [part])
        if self._windows:
            self.windows.observe(now, self._wake != NEVER)
        if fields[WAKE] != self._wake:
            self._wake = fields[WAKE]
            self._alarm.at(self._wake)

    def _send_several(self, slot: int, now: int) -> None:
        """Send the message that begins with this slot, and all others that may go now."""
        q, fields, parts, take, send = self.q, self._fields, self._parts, self._take, self._servers.send
        aggregates = fields[AGGREGATE]
        while slot >= 0:
            request, i, _ = first = parts[slot]
            batch = [first]
            follows = slot if aggregates else NONE
            while follows >= 0 and (follows := follower(q, follows)) >= 0:
                batch.append(parts[follows])
            send(slot, request.pieces[i][0], batch)
            slot = take(q, now) if fields[WAITING] else NONE
        self._servers.flush()

    def _on_alarm(self) -> None:
        self._wake = _RANG
        self.pump()

    def complete(self, answered: Sequence[tuple[int, Batch]]) -> None:
        """Finish the pieces of messages that a server carried out, so that each client gets its answers together.

        The slot is that of the message (NONE: it has more in progress).
        """
        finished: dict[Owner, list[Request]] = {}
        for slot, batch in answered:
            if slot >= 0:
                complete(self.q, slot)
            for request, _, _ in batch:
                request.left = left = request.left - 1
                if not left:
                    self.open -= 1
                    finished.setdefault(request.owner, []).append(request)
        for owner, requests in finished.items():
            owner.finish(requests)
        if self.full:
            self._admit_waiting()
        self.pump_soon()

    def refuse(self, slot: int, batch: Batch, status: int, reason: str) -> None:
        """Fail pieces that a server did not carry out."""
        for request, _, _ in batch:
            request.fail(status, reason)
        self.complete([(slot, batch)])

    def _settle(self, request: Request, pieces: int) -> None:
        """Count this many pieces of the request as finished."""
        request.left -= pieces
        if not request.left:
            self.open -= 1
            request.owner.finish([request])

    def _admit_waiting(self) -> None:
        """Queue the requests that waited for a free slot."""
        while self.full and self._enter(self.full[0], time_ns()):
            self.full.popleft()
        self.pump_soon()

    def _queued(self) -> Iterator[Part]:
        """All parts that wait, and some that don't any more."""
        return (part for part in self._parts if part is not None)

    def withdraw(self, request: Request, status: int, reason: str) -> None:
        """Drop the pieces that were not sent. Servers carry out the others, so the request waits for their answers."""
        request.fail(status, reason)
        gone = sum(1 for part in self._queued() if part[0] is request and drop(self.q, part[2]))
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
        """Take the pieces for a missing server out of the queue, so that they don't delay those for other servers."""
        self.lost_servers += 1
        now = time_ns()
        for request, i, slot in self._queued():
            if request.pieces[i][0] == server and drop(self.q, slot):
                self._parked[server].append((now, request, i))
        self._admit_waiting()

    def unpark(self, server: int) -> None:
        """Queue the pieces for a server again, now that it is back."""
        parked, now = self._parked[server], time_ns()
        while parked:
            _, request, i = parked[0]
            _, offset, length = request.pieces[i][:3]
            slot = arrive(self.q, now, server, request.file.number, request.flow, offset, length, request.write)
            if slot == NONE:
                break
            parked.popleft()
            self._parts[slot] = request, i, slot
        self.pump_soon()

    def drop_overdue(self, seconds: float, absence: Callable[[int], str]) -> None:
        """Fail pieces that have waited longer than this for a missing server; `absence` says why it is missing."""
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
        """The value of a scheduler's parameter, and for how many seconds it has had that value."""
        held = monotonic() - self._changed.get(name, self._began)
        return (self.scheduler if name == "scheduler" else self._fields[QUEUE_FIELDS[name]]), held

    def set_parameter(self, name: str, value: int | str) -> None:
        """Set a scheduler's parameter, or the scheduler itself; a new one keeps all parameters that were set."""
        self._changed[name] = monotonic()
        if name == "scheduler":
            policy = find("order", str(value))
            use(self.q, policy, **self._settings | given_options("order", str(value)))
            self.scheduler, self._take = policy.name, take_of(policy)
            self._windows = "window" in policy.options
        else:
            set_option(self.q, name, int(value))
            self._settings[name] = value
        self.pump_soon()

    def close(self) -> None:
        self._alarm.close()
