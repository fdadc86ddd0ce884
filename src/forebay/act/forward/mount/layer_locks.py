"""The locks of the programs of one mount, which the server of the locks keeps for all mounts."""

from __future__ import annotations

import asyncio
import errno
import secrets
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any

from forebay.act.forward.clients.aio import AsyncClient, AsyncFile
from forebay.act.forward.clients.lock_lease import Token
from forebay.act.forward.clients.sync import Client, File
from forebay.act.forward.mount.file_system import FileLock
from forebay.act.forward.net.loop import new_loop
from forebay.act.forward.net.payloads import FLOCK, LAST_BYTE, POSIX, UNLOCKED, LockRequest

_WAIT = 5.0
"""Seconds for which a request waits at the server."""


class LayerLocks:
    """Asks for locks through one client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waits = LockWaits(client)

    def find(self, file: File, wanted: FileLock) -> FileLock | None:
        request = self._request(wanted)
        request.test = True
        answer = file.lock(request)
        if answer.kind == UNLOCKED:
            return None
        return FileLock(wanted.flock, 0, answer.kind, answer.begin, answer.end, answer.process)

    def set(self, file: File, wanted: FileLock) -> bool:
        """Get or release a lock; return False if another one is in the way."""
        request, token, keeper = self._request(wanted), _token(file, wanted), self._client.locks
        if wanted.kind == UNLOCKED:
            self._release(file, request, token)
            return True
        keeper.hold(token)  # until its last descriptor is closed, as another thread may get more of the file
        asked = monotonic()
        answer = file.lock(request)
        keeper.note(answer.epoch, asked)
        return answer.granted

    def wait(self, file: File, wanted: FileLock, number: int, done: Callable[[int], None]) -> None:
        """Wait for a lock in another thread, which calls `done` with 0 or an errno."""
        request, token = self._request(wanted), _token(file, wanted)
        request.wait, request.key = _WAIT, secrets.randbits(62) | 1
        self._client.locks.hold(token)
        self._waits.begin(number, file, request, done)

    def interrupt(self, number: int) -> bool:
        return self._waits.interrupt(number)

    def close(self, file: File, owner: int, *, flock: bool) -> None:
        """Release all that an owner has locked of a file."""
        everything = FileLock(flock, owner, UNLOCKED, 0, LAST_BYTE, 0)
        if self._client.locks.holds(_token(file, everything)):
            self.set(file, everything)

    def _release(self, file: File, request: LockRequest, token: Token) -> None:
        keeper = self._client.locks
        if keeper.holds(token):
            if (request.begin, request.end) == (0, LAST_BYTE):
                keeper.drop(token)  # first, as another thread may get a lock next
            self._client.release_lock(file, request)

    def _request(self, wanted: FileLock) -> LockRequest:
        return LockRequest(
            client=self._client.locks.client, owner=wanted.owner, space=FLOCK if wanted.flock else POSIX,
            kind=wanted.kind, begin=wanted.begin, end=wanted.end, process=wanted.process,
        )  # fmt: skip


def _token(file: File, lock: FileLock) -> Token:
    return file.id, FLOCK if lock.flock else POSIX, lock.owner


class LockWaits:
    """Waits for locks, each in a task of one loop, in a thread that begins with the first one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asker: AsyncClient | None = None
        self._waiting: dict[int, tuple[File, LockRequest]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, number: int, file: File, request: LockRequest, done: Callable[[int], None]) -> None:
        with self._starting:
            if self._loop is None:
                self._loop = new_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True, name="waits for locks").start()
        self._waiting[number] = file, request
        self._loop.call_soon_threadsafe(self._start, self._wait(number, file, request, done))

    def interrupt(self, number: int) -> bool:
        """End a wait; its request is granted before, or gets EINTR."""
        file, request = self._waiting.pop(number, (None, None))
        if file is None or request is None or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(self._start, self._cancel(file, request))
        return True

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self, number: int, file: File, request: LockRequest, done: Callable[[int], None]) -> None:
        status = errno.EINTR
        try:
            async with AsyncFile(self._get_asker(), file.handle) as waiting:
                while number in self._waiting:
                    asked = monotonic()
                    answer = await waiting.lock(request)
                    self._client.locks.note(answer.epoch, asked)
                    if answer.granted:
                        status = 0
                        break
        except OSError as error:
            status = error.errno or errno.EIO
        self._waiting.pop(number, None)
        done(status)

    async def _cancel(self, file: File, request: LockRequest) -> None:
        cancel = LockRequest(client=request.client, cancel=True, key=request.key)
        with suppress(OSError):  # then the wait ends soon by itself
            async with AsyncFile(self._get_asker(), file.handle) as waiting:
                await waiting.lock(cancel)

    def _get_asker(self) -> AsyncClient:
        if self._asker is None:
            self._asker = self._client.asynchronous()
        return self._asker
