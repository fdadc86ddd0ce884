"""What an I/O node tells the council each second, and what it hears from it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from time import monotonic
from typing import Any

from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Denied, Peer
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.admission import connect
from forebay.act.forward.net.wire import LONGEST, BadMessage, Flag, Kind, Message, packed, unpacked
from forebay.act.forward.node.io_node import IoNode
from forebay.decide.order.words import AGGREGATE, QUANTUM, WINDOW
from forebay.decide.registry import given_options
from forebay.model.errors import BadInput, ForebayError
from forebay.model.observation import Observation

EVERY = 1.0
RANGES = {"window": (10_000, 1_000_000_000), "aggregate": (0, LONGEST), "quantum": (1, 1 << 20)}
"""What a council may set: nanoseconds, bytes, messages."""
_WORDS = {"window": WINDOW, "aggregate": AGGREGATE, "quantum": QUANTUM}
_SOONEST, _LATEST = 0.1, 5.0
_MOST_QUEUED = 1 << 20
_MOST_JOBS = 1000
_AT_ONCE = 64
"""Processes of a job in one message."""


class Settings:
    """The scheduler's parameters as they are now, and since when."""

    def __init__(self, node: IoNode) -> None:
        self._node = node
        self._changed: dict[str, float] = {}
        self._began = monotonic()

    def now(self, parameter: str) -> tuple[int | str, float]:
        """A parameter's value, and for how many seconds it has been that."""
        held = monotonic() - self._changed.get(parameter, self._began)
        if parameter == "scheduler":
            return self._node.dispatch.scheduler, held
        return int(self._node.dispatch.q[_WORDS[parameter]]), held

    def set(self, parameter: object, value: object) -> None:
        """Raises BadInput for what no council may set."""
        name, wanted = checked(parameter, value)
        if self.now(name)[0] != wanted:
            self._node.dispatch.change(name, wanted)
            self._changed[name] = monotonic()


def checked(parameter: object, value: object) -> tuple[str, int | str]:
    """A parameter and a value that it can have.

    >>> checked("window", 500_000)
    ('window', 500000)
    """
    if parameter == "scheduler" and isinstance(value, str):
        for name, option in given_options("order", value).items():
            if name in RANGES:
                checked(name, option)
        return "scheduler", value
    if not isinstance(parameter, str) or parameter not in RANGES:
        raise BadInput("decision", f"there is no parameter {parameter!r}")
    low, high = RANGES[parameter]
    if type(value) is not int or not low <= value <= high:
        raise BadInput("decision", f"{parameter} must be from {low} to {high}, not {value!r}")
    return parameter, value


class Announcer:
    """Observes every `every` seconds, whether there is a council or not; `seen` is the last period."""

    def __init__(self, node: IoNode, council: Address | None, *, every: float = EVERY) -> None:
        self._node, self._council, self._every = node, council, every
        self.settings = Settings(node)
        self._connection: Connection | None = None
        self._gone = asyncio.Event()
        self._jobs: deque[tuple[int, list[dict[str, Any]]]] = deque()
        self._serial = 0
        self._ignored = False
        self.seen = Observation(seconds=every)
        self.told: Callable[[Observation], None] = lambda _: None
        self.parameter = "window"

    @property
    def connected(self) -> bool:
        return self._connection is not None

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._observe())
            if self._council is not None:
                group.create_task(self._keep(self._council))

    def record(self, parts: list[dict[str, Any]]) -> None:
        """A job has gone: tell the council, now or when it is there again."""
        for begin in range(0, len(parts), _AT_ONCE):
            if len(self._jobs) >= _MOST_JOBS:
                self._jobs.popleft()
                self._node.counts["jobs_lost"] += 1
            self._serial += 1
            self._jobs.append((self._serial, parts[begin : begin + _AT_ONCE]))
            self._tell_job(*self._jobs[-1])

    async def flush(self, seconds: float) -> None:
        """Give the council so long to take the jobs that it has not heard of."""
        end = monotonic() + seconds
        while self._jobs and self._connection is not None and monotonic() < end:
            await asyncio.sleep(0.02)

    async def _observe(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self.seen = self._node.observed()
            self.told(self.seen)
            self._announce()

    def _announce(self) -> None:
        connection = self._connection
        if connection is None or connection.queued > _MOST_QUEUED:
            return  # there is none, or it does not listen
        value, held = self.settings.now(self.parameter)
        words = {
            "observed": asdict(self.seen),
            "parameter": self.parameter,
            "value": value,
            "held": held,
            "servers": self._node.backend.count,
        }
        self._send(connection, Kind.ANNOUNCE, 0, words)

    def _tell_job(self, serial: int, parts: list[dict[str, Any]]) -> None:
        if self._connection is not None:
            self._send(self._connection, Kind.JOB, serial, {"parts": parts})

    def _send(self, connection: Connection, kind: Kind, tag: int, words: Mapping[str, Any]) -> None:
        payload = packed(words)
        if len(payload) <= LONGEST:
            connection.send([Message(kind, tag=tag, payload=payload).header(), payload])

    async def _keep(self, address: Address) -> None:
        """Be connected, for ever; without a council the node goes on as it is."""
        pause = _SOONEST
        me = Peer(role="node", name=self._node.settings.name, facts={"index": self._node.settings.index})
        while True:
            try:
                connection = await connect(
                    address, self._node.settings.key, me, ("council",), self._received, self._lost,
                    buffers=self._node.buffers,
                )  # fmt: skip
            except (OSError, Denied, BadMessage, TimeoutError):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LATEST)
                continue
            pause = _SOONEST
            self._gone.clear()
            if not connection.closed:
                self._connection = connection
                for job in self._jobs:
                    self._tell_job(*job)
                await self._gone.wait()
            self._connection = None

    def _lost(self, _connection: Connection, _why: str) -> None:
        self._connection = None
        self._gone.set()

    def _received(self, _connection: Connection, message: Message) -> None:
        try:
            if message.kind == Kind.JOB and message.flags & Flag.REPLY:
                self._jobs = deque(job for job in self._jobs if job[0] != message.tag)
            elif message.kind == Kind.DECIDE:
                self._decided(unpacked(message.payload))
            else:
                raise BadInput("council", f"says {message!r}")
        except (ForebayError, TypeError, AttributeError):
            self._node.counts["nonsense"] += 1  # the node goes on as it is
        finally:
            message.release()

    def _decided(self, words: Any) -> None:
        if not isinstance(words, dict):
            raise BadInput("decision", "says nothing")
        name, value = checked(words.get("parameter"), words.get("value"))
        self.parameter = name
        self._node.counts["decisions"] += 1
        if not words.get("ignore"):
            self.settings.set(name, value)
