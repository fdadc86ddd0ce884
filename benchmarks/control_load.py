"""Load on a service that speaks HTTP over a UNIX socket, by a generator that takes little time itself.

Requests are sent when they are due, whether those before them are answered or not, and the time of each is counted
from that moment: a service that falls behind is seen to.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Done = Callable[[bytes], None]
_END = b"\r\n\r\n"


def post(path: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


class Line(asyncio.Protocol):
    """A connection that is kept, with one request at a time."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._done: Done | None = None
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def send(self, request: bytes, done: Done) -> None:
        self._done = done
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(_END)
        if not found or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        done, self._done, self._got = self._done, None, b""
        assert done is not None, data
        done(body if head.startswith(b"HTTP/1.1 20") else b"ERROR " + head[:40] + body)

    def connection_lost(self, _: Exception | None) -> None:
        if self._done is not None:
            self._done(b"ERROR the connection is gone")


class Load:
    """So many connections; a request that finds none free waits for one."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._free = deque(lines)
        self._waiting: deque[tuple[bytes, Done]] = deque()

    @classmethod
    async def on(cls, socket: Path, width: int = 64) -> Load:
        loop = asyncio.get_running_loop()
        return cls([(await loop.create_unix_connection(Line, str(socket)))[1] for _ in range(width)])

    def send(self, request: bytes, done: Done) -> None:
        if not self._free:
            self._waiting.append((request, done))
            return
        line = self._free.popleft()

        def answered(body: bytes) -> None:
            self._free.append(line)
            if self._waiting:
                self.send(*self._waiting.popleft())
            done(body)

        line.send(request, answered)

    async def all_of(self, requests: Sequence[bytes]) -> list[bytes]:
        """As fast as they are answered; their answers."""
        answers, _ = await self.when_due(requests, np.zeros(len(requests)))
        return answers

    async def when_due(
        self, requests: Sequence[bytes], due: npt.NDArray[np.float64]
    ) -> tuple[list[bytes], npt.NDArray[np.float64]]:
        """The answers, and the seconds from when each was due until it was there; `due` is seconds from now."""
        answers: list[bytes] = [b""] * len(requests)
        taken, left = np.zeros(len(requests)), len(requests)
        end = asyncio.get_running_loop().create_future()
        begin = time.perf_counter()
        if not left:
            end.set_result(None)

        def note(at: int, body: bytes) -> None:
            nonlocal left
            answers[at], taken[at] = body, time.perf_counter() - begin - due[at]
            left -= 1
            if not left:
                end.set_result(None)

        for at, (request, moment) in enumerate(zip(requests, due.tolist(), strict=True)):
            wait = begin + moment - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            self.send(request, lambda body, at=at: note(at, body))  # type: ignore[misc]
        await end
        wrong = [body for body in answers if body.startswith(b"ERROR")]
        assert not wrong, wrong[0]
        return answers, taken


def by_chance(rng: np.random.Generator, rate: float, count: int) -> npt.NDArray[np.float64]:
    """Moments of arrival, in seconds, of so many that come independently of one another."""
    return np.cumsum(rng.exponential(1 / rate, count))


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has had, in all its threads, to the nanosecond."""
    return sum(_of_thread(task / "schedstat") for task in Path(f"/proc/{pid}/task").iterdir())


def _of_thread(path: Path) -> float:
    try:
        return int(path.read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return 0.0
