"""An I/O node: clients come in on one side, data servers are on the other, and a scheduler stands between."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.admission import TIMEOUT, Door
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.node.backend import Backend
from forebay.act.forward.node.dispatch import Dispatch, Opened
from forebay.act.forward.node.job_accounting import Jobs
from forebay.act.forward.node.session import Session
from forebay.act.forward.node.warm import warm
from forebay.model.layout import Layout
from forebay.model.observation import Observation
from forebay.profile.request_watch import end_period, forget, new_watch

_TICK = 0.25
_STALL = 30.0
"""Seconds after which a client is dropped that does not read what it asked for, or stops within a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How an I/O node works; times in seconds, memory in bytes.

    `name` is what servers and the council know it by, `index` its place among the I/O nodes. `patience` is how long
    requests wait for a server that is away, `timeout` how long a server may take for one (0: for ever). `queue` has
    the settings of `decide.order.queue.new_queue`.
    """

    name: str
    address: tuple[Address, ...]
    key: bytes
    index: int = 0
    scheduler: str = "fifo"
    patience: float = 30.0
    timeout: float = 0.0
    memory: int = 256 << 20
    files: int = 65536
    flows: int = 1024
    grace: float = 10.0
    proof: float = TIMEOUT
    queue: dict[str, Any] = field(default_factory=dict)


class IoNode:
    """Listens once `start` was awaited; `addresses` say where, `close` ends it."""

    def __init__(self, settings: NodeSettings, backend: Backend) -> None:
        self.settings, self.backend = settings, backend
        self._loop = asyncio.get_running_loop()
        self.token = f"{settings.name}/{secrets.token_hex(6)}"
        self.dispatch = Dispatch(
            self._loop, backend, settings.scheduler, files=settings.files, flows=settings.flows,
            node=settings.index, **settings.queue,
        )  # fmt: skip
        backend.tell(self.dispatch.answered, self.dispatch.refused, self._changed)
        self.buffers = Buffers(settings.memory)
        self.jobs = Jobs(self.token)
        self.counts: Counter[str] = Counter()
        self.watch = new_watch(settings.files, time_ns())
        self.sessions: set[Session] = set()
        self.record: Callable[[list[dict[str, Any]]], None] = _nowhere
        self._files: dict[int, list[Any]] = {}  # by id: the file, and by how many it is open
        self._numbers = list(range(settings.files - 1, -1, -1))
        self._flows: dict[tuple[Any, ...], list[int]] = {}
        self._free_flows = list(range(settings.flows - 1, 0, -1))
        self.admitted = 0
        self.waits: set[Session] = set()
        self._doors: list[Door] = []
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        warm()
        await self.backend.start()
        me = Peer(role="node", name=self.settings.name, facts={"index": self.settings.index})
        for address in self.settings.address:
            self._doors.append(
                Door(
                    address, self.settings.key, me, ("client",), self._entered, buffers=self.buffers,
                    timeout=self.settings.proof,
                )
            )  # fmt: skip
        self._ticker = self._loop.create_task(self._tick())

    @property
    def addresses(self) -> list[Address]:
        return [door.address for door in self._doors]

    @property
    def dropped(self) -> Counter[str]:
        """Peers that were sent away before or after they had proved themselves, by reason."""
        return sum((door.dropped for door in self._doors), Counter(self.counts))

    async def close(self) -> None:
        """End: no client is let in any more, what is under way is answered, as far as it can be in `grace` seconds."""
        for door in self._doors:
            door.close()
        for session in self.sessions:
            session.quiet()
        try:
            async with asyncio.timeout(self.settings.grace):
                while self.dispatch.open or any(not session.idle for session in self.sessions):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass
        for session in tuple(self.sessions):
            session.close("the I/O node ends")
        await asyncio.sleep(0)
        if self._ticker is not None:
            self._ticker.cancel()
        self.dispatch.close()
        await self.backend.close()

    def observed(self) -> Observation:
        """What passed since this was last asked."""
        return end_period(
            self.watch,
            time_ns(),
            depths=self.dispatch.depths(),
            clients=len(self.sessions),
            processes=sum({session.client.job: session.client.processes for session in self.sessions}.values()),
        )

    # What sessions tell

    def crowded(self) -> bool:
        """Whether nobody should bring more just now."""
        return self.admitted > self.settings.memory or self.dispatch.full

    def let_in(self) -> None:
        """Listen again to those clients that had to wait, if there is room."""
        if not self.crowded():
            for session in tuple(self.waits):
                if session.resume():
                    self.waits.discard(session)

    def open_file(self, file: int, layout: Layout) -> Opened:
        """The file under its number here."""
        known = self._files.get(file)
        if known is None:
            if not self._numbers:
                raise OSError(errno.ENFILE, f"{len(self._files)} files are open at this I/O node")
            number = self._numbers.pop()
            known = self._files[file] = [self.backend.opened(file, number, layout), 0]
        known[1] += 1
        opened: Opened = known[0]
        return opened

    def close_file(self, file: int) -> None:
        known = self._files[file]
        known[1] -= 1
        if not known[1]:
            del self._files[file]
            self.backend.closed(known[0])
            forget(self.watch, known[0].number)
            self._numbers.append(known[0].number)

    def gone(self, session: Session, why: str) -> None:
        """A client has left."""
        self.sessions.discard(session)
        self.waits.discard(session)
        if why not in ("the peer is gone", "the I/O node ends"):
            self.counts["malformed" if not session.stalled >= _STALL else "stalled"] += 1
        self._leave_flow(session.client.job)
        parts = self.jobs.leave(session.client)
        if parts:
            self.record(parts)

    def _entered(self, connection: Connection) -> None:
        assert connection.peer is not None
        session = Session(self, connection, self.jobs.enter(connection.peer, time_ns()))
        session.flow = self._enter_flow(session.client.job)
        self.sessions.add(session)

    def _enter_flow(self, job: tuple[Any, ...]) -> int:
        """A job's number for schedulers that share among jobs; 0 is shared by all that are too many."""
        if job not in self._flows:
            self._flows[job] = [self._free_flows.pop() if self._free_flows else 0, 0]
        self._flows[job][1] += 1
        return self._flows[job][0]

    def _leave_flow(self, job: tuple[Any, ...]) -> None:
        flow = self._flows[job]
        flow[1] -= 1
        if not flow[1]:
            del self._flows[job]
            if flow[0]:
                self._free_flows.append(flow[0])

    # What the back end tells

    def _changed(self, server: int, up: bool) -> None:
        if up:
            self.dispatch.found(server)
        else:
            self.counts["servers_lost"] += 1
            self.dispatch.lost(server)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self.dispatch.impatient(self.settings.patience, self.backend.away)
            if self.settings.timeout:
                self.backend.check(self.settings.timeout)
            for session in tuple(self.sessions):
                session.watch(_TICK)
                if session.stalled >= _STALL:
                    session.close("it stalls")


def _nowhere(_: list[dict[str, Any]]) -> None:
    pass


async def run_node(
    settings: NodeSettings,
    backend: Backend,
    end: asyncio.Event,
    ready: Callable[[IoNode], Awaitable[None]] | None = None,
) -> None:
    """Run an I/O node until `end` is set; `ready` is told once it listens."""
    node = IoNode(settings, backend)
    await node.start()
    try:
        if ready is not None:
            await ready(node)
        await end.wait()
    finally:
        await node.close()


def own_name(index: int) -> str:
    """A name for the I/O node with this number on this machine."""
    return f"{socket.gethostname()}-ion{index}-{os.getuid()}"
