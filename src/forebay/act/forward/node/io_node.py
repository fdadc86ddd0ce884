"""An I/O node: clients on one side, data servers on the other, and a scheduler in between."""

import asyncio
import errno
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import time_ns
from typing import Any

from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import TIMEOUT, Listener
from forebay.act.forward.net.auth import Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import CloseReason, Connection
from forebay.act.forward.net.council_payloads import JobPart
from forebay.act.forward.net.payloads import LOCK_LEASE, LeaseRequest
from forebay.act.forward.net.wire import BadMessage, Kind, Message, pack
from forebay.act.forward.node.backend import Backend, NodeFile
from forebay.act.forward.node.connected_jobs import Jobs
from forebay.act.forward.node.dispatch import Dispatch
from forebay.act.forward.node.end_watch import EndWatch
from forebay.act.forward.node.request_accounting import count_answer, count_arrival
from forebay.act.forward.node.session import Session
from forebay.decide.order.queue import arrive, complete, depth, drop, follower, new_queue, take
from forebay.model.layout import Layout
from forebay.model.observation import Observation
from forebay.profile.request_watch import end_period, forget, new_watch

_TICK = 0.25
_MOST_HOLDERS = 4096
_STALL = 30.0
"""Seconds after which a node drops a client that does not read its answers, or stops within a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How an I/O node works; times in seconds, memory in bytes.

    Servers and the council know it by its `name`; `index` is its number among the I/O nodes. Requests wait at most
    `patience` for a missing server, and a server must answer each within `timeout` (0: no limit). `queue` has the
    arguments of `decide.order.queue.new_queue`.
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

    @property
    def me(self) -> Peer:
        return Peer(role="node", name=self.name, facts={"index": self.index})


class IoNode:
    """Listens at `addresses` from `start` until `close`."""

    def __init__(self, settings: NodeSettings, backend: Backend) -> None:
        self.settings, self.backend = settings, backend
        self.watchers = backend.watchers
        self._loop = asyncio.get_running_loop()
        self.token = f"{settings.name}/{secrets.token_hex(6)}"
        self.dispatch = Dispatch(
            self._loop, backend, settings.scheduler, files=settings.files, flows=settings.flows,
            node=settings.index, **settings.queue,
        )  # fmt: skip
        self.buffers = Buffers(settings.memory)
        self.jobs = Jobs(self.token, settings.flows)
        self.counts: Counter[str] = Counter()  # rejected and dropped peers, by reason, and other events
        self.watch = new_watch(settings.files, time_ns())
        self.sessions: set[Session] = set()
        self.record: Callable[[list[JobPart]], object] = lambda _: None
        self._files: dict[int, NodeFile] = {}
        self._openers: Counter[int] = Counter()  # sessions that have each file open
        self._numbers = list(range(settings.files - 1, -1, -1))
        self.admitted = 0
        self.waits: set[Session] = set()
        self.unfinished: set[Session] = set()
        """Lost ones with requests that servers still carry out."""
        self._holders: dict[int, EndWatch] = {}  # processes that hold locks
        self._listeners: list[Listener] = []
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        compile_kernels()
        await self.backend.start(self.dispatch)
        settings = self.settings
        credentials = Credentials(settings.key, settings.me, ("client",))
        self._listeners += (
            Listener(
                address, credentials, self._admit, buffers=self.buffers, counts=self.counts, timeout=settings.proof
            )
            for address in settings.address
        )
        self._ticker = self._loop.create_task(self._tick())

    @property
    def addresses(self) -> list[Address]:
        return [listener.address for listener in self._listeners]

    async def close(self) -> None:
        """Admit no more clients, answer requests for up to `grace` seconds, and end."""
        for listener in self._listeners:
            listener.close()
        for session in self.sessions:
            session.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.grace):
                while self.dispatch.open or any(not session.is_idle() for session in self.sessions):
                    await asyncio.sleep(0.01)
        for session in tuple(self.sessions):
            session.close(CloseReason.SHUTDOWN, "the I/O node is shutting down")
        for watch in self._holders.values():
            watch.close()
        await asyncio.sleep(0)
        if self._ticker is not None:
            self._ticker.cancel()
        self.dispatch.close()
        await self.backend.close()

    def end_period(self) -> Observation:
        """Observe the requests since the last call."""
        return end_period(
            self.watch,
            time_ns(),
            depths=self.dispatch.depths(),
            clients=len(self.sessions),
            processes=sum({session.process.job: session.process.part.processes for session in self.sessions}.values()),
        )

    # Calls from sessions

    def is_crowded(self) -> bool:
        """Whether clients should send no more for now."""
        return self.admitted > self.settings.memory or bool(self.dispatch.full)

    def resume_waiting(self) -> None:
        """Read again from the clients that had to wait, if the node has room."""
        if not self.is_crowded():
            for session in tuple(self.waits):
                if session.resume():
                    self.waits.discard(session)

    def open_file(self, file: int, layout: Layout) -> NodeFile:
        """Open a file at this node, if it is not open yet, and count one more session that uses it."""
        if file not in self._files:
            if not self._numbers:
                raise OSError(errno.ENFILE, f"too many open files at this I/O node ({len(self._files)}); close some")
            self._files[file] = self.backend.open_file(file, self._numbers[-1], layout)
            self._numbers.pop()
        self._openers[file] += 1
        return self._files[file]

    def close_file(self, file: int) -> None:
        self._openers[file] -= 1
        if not self._openers[file]:
            del self._openers[file]
            closed = self._files.pop(file)
            self.backend.close_file(closed)
            forget(self.watch, closed.number)
            self._numbers.append(closed.number)

    def watch_holder(self, client: int, process: int) -> None:
        """Return the locks of a client once the process ends that has connected here; by TCP, its lease ends."""
        if client in self._holders or not process or len(self._holders) >= _MOST_HOLDERS:
            return
        with suppress(OSError):
            self._holders[client] = EndWatch(self._loop, process, lambda: self._return_locks(client, process))

    async def _return_locks(self, client: int, process: int) -> None:
        """End a client's lease, when nothing that it has sent can change a file any more."""
        del self._holders[client]
        request = LeaseRequest(client=client, ended=True)
        with suppress(OSError, BadMessage):  # the lease ends by itself
            async with asyncio.timeout(LOCK_LEASE):
                while any(each.process_number == process for each in (*self.sessions, *self.unfinished)):
                    await asyncio.sleep(0.01)
                await self.backend.answer(Message(Kind.LEASE, payload=pack(request)), request)

    def remove_session(self, session: Session, reason: CloseReason) -> None:
        """Forget a client that has left, and record its job if it was the last of its processes."""
        self.sessions.discard(session)
        self.waits.discard(session)
        if reason is CloseReason.STALLED:
            self.counts["stalled"] += 1
        elif reason not in (CloseReason.GONE, CloseReason.SHUTDOWN):
            self.counts["malformed"] += 1
        parts = self.jobs.leave(session.process)
        if parts:
            self.record(parts)

    def _admit(self, connection: Connection) -> None:
        self.sessions.add(Session(self, connection, self.jobs.enter(connection.peer, time_ns())))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self.dispatch.drop_overdue(self.settings.patience, self.backend.absence)
            if self.settings.timeout:
                self.backend.drop_overdue(self.settings.timeout)
            for session in tuple(self.sessions):
                session.update_stall(_TICK)
                if session.stalled >= _STALL:
                    session.close(CloseReason.STALLED, "the client does not read its answers")


def compile_kernels() -> None:
    """Compile all kernels of an I/O node. This takes seconds, but only at the first start after an installation."""
    queue = new_queue("fifo", servers=1, slots=2, files=2, flows=2)
    slot = arrive(queue, 1, 0, 0, 0, 0, 1, 1)
    drop(queue, arrive(queue, 1, 0, 0, 0, 1, 1, 1))
    follower(queue, take(queue, 1))
    complete(queue, slot)
    depth(queue, 0)
    watch = new_watch(2, 1)
    process = Jobs("compile").enter(Peer(role="client"), 1)
    process.add_file(0, 1, Layout(count=1))
    count_arrival(watch, process.uses, process.times, 1, 0, 0, 0, 1, 1)
    count_answer(watch, process.times, 2, 1, 1)
    forget(watch, 0)
    end_period(watch, 2)
