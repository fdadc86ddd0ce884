"""Grants locks to the clients of a layer, at one place for all, and takes them back from clients that are gone.

A client renews its lease while it holds something. Its locks end with the lease, or at once when its I/O node sees that
its process has ended. What is held survives a restart of the server (lock_log.py); then all leases begin again.
"""

import asyncio
import errno
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forebay.act.forward.data.lock_log import LockLog
from forebay.act.forward.data.lock_table import Lock, would_deadlock
from forebay.act.forward.data.permissions import system_error
from forebay.act.forward.net.payloads import (
    APPEND,
    EXCLUSIVE,
    FLOCK,
    LOCK_LEASE,
    POSIX,
    UNLOCKED,
    LeaseAnswer,
    LeaseRequest,
    LockAnswer,
    LockRequest,
)

_LOOK = 1.0
_MOST_LOCKS = 1 << 14
"""Locks of one client."""
_MOST_CLIENTS, _MOST_WAITING = 1 << 14, 1 << 14
Reply = Callable[[LockAnswer], None]


@dataclass(eq=False, slots=True, kw_only=True)
class _Waiter:
    file: int
    lock: Lock
    key: int
    source: object
    reply: Reply
    timer: asyncio.TimerHandle | None = None


class LockServer:
    """The locks in `folder`, in a running loop until `close`. Without `enabled`, only turns to append are granted."""

    def __init__(self, folder: Path, *, enabled: bool = True, lease: float = LOCK_LEASE) -> None:
        self._loop = asyncio.get_running_loop()
        self._log, self._enabled, self._lease = LockLog(folder), enabled, lease
        self._locks, self._epochs = self._log.locks, self._log.epochs
        self._until = dict.fromkeys(self._epochs, self._loop.time() + lease)
        self._waiters: dict[int, list[_Waiter]] = {}  # by file, in the order of their arrival
        self._waiting = 0
        self._looked = self._loop.time()
        self._timer = self._loop.call_later(_LOOK, self._end_leases)

    def close(self) -> None:
        self._timer.cancel()
        for waiter in self._all_waiters():
            self._remove(waiter)
        self._log.close()

    def ask(self, file: int, request: LockRequest, source: object, reply: Reply) -> None:
        """Answer a request through `reply`, now or later; `source` is the connection that it came by."""
        if request.cancel:
            self._cancel(file, request, reply)
            return
        wanted = Lock(
            request.space, request.client, request.owner, request.kind, request.begin, request.end, request.process
        )
        if wanted.begin > wanted.end:
            raise system_error(errno.EINVAL)
        if request.test:
            reply(_refusal(self._locks.find_conflicts(file, wanted), 0))
            return
        if wanted.kind == UNLOCKED:
            self._release(file, wanted)
            reply(LockAnswer(granted=True, epoch=self._epochs.get(wanted.client, 0)))
            return
        if not self._enabled and wanted.space != APPEND:
            raise system_error(errno.ENOLCK)
        epoch = self._begin_client(wanted.client)
        if wanted.space == FLOCK and self._locks.kind_of(file, wanted) not in (UNLOCKED, wanted.kind):
            self._release(file, wanted._replace(kind=UNLOCKED))  # flock(2): the change of a lock releases it first
        blockers = self._locks.find_conflicts(file, wanted)
        if not blockers:
            self._grant(file, wanted, reply)
        elif not request.wait:
            reply(_refusal(blockers, epoch))
        elif wanted.space == POSIX and would_deadlock(wanted, blockers, self._blockers()):
            raise system_error(errno.EDEADLK)
        elif self._waiting >= _MOST_WAITING:
            raise system_error(errno.ENOLCK)
        else:
            waiter = _Waiter(file=file, lock=wanted, key=request.key, source=source, reply=reply)
            waiter.timer = self._loop.call_later(request.wait, self._give_up, waiter)
            self._waiters.setdefault(file, []).append(waiter)
            self._waiting += 1

    def renew(self, request: LeaseRequest) -> LeaseAnswer:
        """Renew or end a client's lease."""
        client = request.client
        if request.ended:
            self._end_client(client)
        elif client in self._epochs:
            self._until[client] = self._loop.time() + self._lease
        return LeaseAnswer(epoch=self._epochs.get(client, 0))

    def lose(self, source: object) -> None:
        """Forget what waits through a lost connection: its clients ask again."""
        for waiter in self._all_waiters():
            if waiter.source is source:
                self._remove(waiter)

    # Steps

    def _begin_client(self, client: int) -> int:
        if client not in self._epochs:
            if len(self._epochs) >= _MOST_CLIENTS:
                raise system_error(errno.ENOLCK)
            self._log.begin_client(client, secrets.randbits(62) | 1)
        self._until[client] = self._loop.time() + self._lease
        return self._epochs[client]

    def _grant(self, file: int, lock: Lock, reply: Reply) -> None:
        if self._locks.count(lock.client) >= _MOST_LOCKS:
            raise system_error(errno.ENOLCK)
        self._log.set(file, lock)
        reply(LockAnswer(granted=True, epoch=self._epochs[lock.client]))
        if lock.kind != EXCLUSIVE:
            self._serve_waiters(file)  # it may have been exclusive before

    def _release(self, file: int, lock: Lock) -> None:
        if self._locks.kind_of(file, lock) != UNLOCKED:
            self._log.set(file, lock)
            self._serve_waiters(file)

    def _serve_waiters(self, file: int) -> None:
        """Grant what can be granted now, in the order of arrival."""
        while (waiter := self._next_waiter(file)) is not None:
            self._remove(waiter)
            try:
                self._grant(file, waiter.lock, waiter.reply)
            except OSError:  # the client asks again, and gets the error
                waiter.reply(LockAnswer(granted=False, epoch=self._epochs.get(waiter.lock.client, 0)))

    def _next_waiter(self, file: int) -> _Waiter | None:
        waiters = self._waiters.get(file, ())
        return next((waiter for waiter in waiters if not self._locks.find_conflicts(file, waiter.lock)), None)

    def _give_up(self, waiter: _Waiter) -> None:
        self._remove(waiter)
        epoch = self._epochs.get(waiter.lock.client, 0)
        waiter.reply(_refusal(self._locks.find_conflicts(waiter.file, waiter.lock), epoch))

    def _cancel(self, file: int, request: LockRequest, reply: Reply) -> None:
        for waiter in tuple(self._waiters.get(file, ())):
            if (waiter.lock.client, waiter.key) == (request.client, request.key):
                self._give_up(waiter)
        reply(LockAnswer(granted=False, epoch=self._epochs.get(request.client, 0)))

    def _remove(self, waiter: _Waiter) -> None:
        waiters = self._waiters[waiter.file]
        waiters.remove(waiter)
        self._waiting -= 1
        if not waiters:
            del self._waiters[waiter.file]
        if waiter.timer is not None:
            waiter.timer.cancel()

    def _all_waiters(self) -> list[_Waiter]:
        return [waiter for waiters in self._waiters.values() for waiter in waiters]

    def _blockers(self) -> dict[tuple[int, int, int], list[Lock]]:
        """By whom each holder that waits for a POSIX lock is blocked."""
        blockers: dict[tuple[int, int, int], list[Lock]] = {}
        for waiter in self._all_waiters():
            if waiter.lock.space == POSIX:
                blocked = self._locks.find_conflicts(waiter.file, waiter.lock)
                blockers.setdefault(waiter.lock.holder, []).extend(blocked)
        return blockers

    def _end_leases(self) -> None:
        now = self._loop.time()
        late = now - self._looked - _LOOK
        if late > _LOOK:  # this process stood still, and renewals wait to be read
            self._until = {client: until + late for client, until in self._until.items()}
        for client in [client for client, until in self._until.items() if until < now]:
            self._end_client(client)
        self._looked = now
        self._timer = self._loop.call_later(_LOOK, self._end_leases)

    def _end_client(self, client: int) -> None:
        for waiter in self._all_waiters():
            if waiter.lock.client == client:
                self._remove(waiter)
        self._until.pop(client, None)
        if client in self._epochs:
            files = {file for file, lock in self._locks if lock.client == client}
            self._log.end_client(client)
            for file in files:
                self._serve_waiters(file)


def _refusal(conflicts: list[Lock], epoch: int) -> LockAnswer:
    if not conflicts:
        return LockAnswer(granted=False, epoch=epoch)
    first = min(conflicts, key=lambda lock: lock.begin)
    return LockAnswer(
        granted=False, epoch=epoch, kind=first.kind, begin=first.begin, end=first.end, process=first.process
    )
