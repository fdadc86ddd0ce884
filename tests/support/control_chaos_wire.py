"""A wire between callers and the control service that loses, repeats and delays what goes over it, by a seed."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.processes import PATIENCE

FATES = {
    "request lost": 3,  # the service never hears it
    "answer lost": 4,  # the service did it, and nobody is told
    "caller gone": 2,  # nobody waits for the answer
    "sent twice": 4,  # one after the other
    "sent twice at once": 3,
    "sent again late": 4,  # a copy arrives when much else has happened
    "request slow": 2,
    "answer slow": 2,
}
_LATE = 1.0
_SLOW = 0.2
_LIMIT = 16 * 2**20
_TROUBLE = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


@dataclass(frozen=True, slots=True)
class _Message:
    head: bytes
    body: bytes

    @property
    def words(self) -> list[str]:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")

    @property
    def raw(self) -> bytes:
        return self.head + self.body


async def _read(reader: asyncio.StreamReader) -> _Message:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    ]
    if lengths:
        return _Message(head, await reader.readexactly(lengths[0]))
    return _Message(head, await _chunks(reader) if b"transfer-encoding: chunked" in head.lower() else b"")


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """As they come, to the last one, which is empty: so a service that ends tells of what it could not finish."""
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        body += line + await reader.readexactly(int(line, 16) + 2)
        if not int(line, 16):
            return body


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    of: Callable[[str], bool]
    at_once: Callable[[], None] | None
    event: threading.Event = field(default_factory=threading.Event)


class Wire:
    """Listens at `path`; what comes goes to one of the services. `trouble` is how likely something goes wrong."""

    def __init__(self, path: Path, services: Sequence[Path], chance: random.Random) -> None:
        self.path, self._services, self._chance = path, services, chance
        self.trouble = 0.0
        self.happened: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self._late: set[asyncio.Task[None]] = set()
        self._own: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self._waiting: list[_Waiting] = []
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire")

    def start(self) -> None:
        self._thread.start()
        self._call(self._listen())

    async def _listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self.path, limit=_LIMIT)
        self.path.chmod(0o666)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def calm(self) -> None:
        """Nothing goes wrong any more, and what was late has arrived."""
        self.trouble = 0.0
        self._call(self._arrived())

    async def _arrived(self) -> None:
        while self._late:
            await asyncio.gather(*self._late)

    def stop(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [*self._own, *self._late]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._open:
            writer.close()
        await asyncio.sleep(0.01)  # so that the loop closes what was told to close

    def next(self, of: Callable[[str], bool], at_once: Callable[[], None] | None = None) -> threading.Event:
        """Set when something like this goes over the wire: "ask", "report n1", "orders n1" and others, or "told ask".

        `at_once` is done before anything else goes over it.
        """
        waiting = _Waiting(of, at_once)
        self._waiting.append(waiting)
        return waiting.event

    def _note(self, what: str) -> None:
        for waiting in [waiting for waiting in self._waiting if waiting.of(what)]:
            self._waiting.remove(waiting)
            if waiting.at_once is not None and not waiting.event.is_set():
                waiting.at_once()
            waiting.event.set()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._own.add(task)
        task.add_done_callback(self._own.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(*_TROUBLE):
                while True:
                    answer = await self._fare(await _read(reader))
                    if answer is None:
                        break
                    writer.write(answer.raw)
                    await writer.drain()
        except Exception as error:
            self.errors.append(error)
        finally:
            writer.close()

    async def _fare(self, request: _Message) -> _Message | None:
        """What its sender gets for it; None if the wire breaks."""
        fate = ""
        if self._chance.random() < self.trouble:
            fate = self._chance.choices(list(FATES), list(FATES.values()))[0]
            self.happened[fate] += 1
        if fate == "request lost":
            return None
        if fate == "caller gone":
            await self._send(request)
            return None
        if fate == "request slow":
            await asyncio.sleep(self._chance.uniform(0, _SLOW))
        if fate == "sent again late":
            late = self._loop.create_task(self._again(request, self._chance.uniform(0, _LATE)))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
        answer = await self._delivered(request, fate)
        if fate == "answer slow":
            await asyncio.sleep(self._chance.uniform(0, _SLOW))
        return None if fate == "answer lost" else answer

    async def _delivered(self, request: _Message, fate: str) -> _Message:
        if fate == "sent twice":
            with suppress(*_TROUBLE):
                await self._deliver(request)
        if fate == "sent twice at once":
            both = await asyncio.gather(self._deliver(request), self._deliver(request), return_exceptions=True)
            for answer in both:
                if isinstance(answer, _Message):
                    return answer
            raise OSError("neither arrived")
        return await self._deliver(request)

    async def _again(self, request: _Message, after: float) -> None:
        await asyncio.sleep(after)
        with suppress(*_TROUBLE):
            await self._deliver(request)

    async def _send(self, request: _Message) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To any service that listens."""
        trouble = OSError("there is no service")
        for path in self._chance.sample(self._services, len(self._services)):
            try:
                reader, writer = await asyncio.open_unix_connection(path, limit=_LIMIT)
            except OSError as error:
                trouble = error
                continue
            writer.write(request.raw)
            self._note(_name(request))
            self._open.add(writer)
            return reader, writer
        raise trouble

    async def _deliver(self, request: _Message) -> _Message:
        reader, writer = await self._send(request)
        try:
            answer = await _read(reader)
        finally:
            writer.close()
            self._open.discard(writer)
        self._note(f"told {_name(request)}")
        if answer.body.startswith(b'{"actions":[{'):
            self._note(f"orders {request.words[1].split('/')[3]}")
        return answer


def _name(request: _Message) -> str:
    method, target, _ = request.words
    parts = target.partition("?")[0].split("/")
    if parts[2:] == ["grants"]:
        return "ask" if method == "POST" else "list"
    if parts[2] == "nodes" and parts[4:] == ["reports"]:
        return f"report {parts[3]}"
    return parts[-1]
