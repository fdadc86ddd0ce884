"""What a client holds at the server of the locks: renews its lease meanwhile, and notices if it was lost."""

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

from forebay.act.forward.net.payloads import APPEND, LOCK_LEASE

_RENEWAL = LOCK_LEASE / 5
_PAUSE = 0.5
Token = tuple[int, int, int]
"""A file, a space of locks, and an owner."""


class LockKeeper:
    """Counts what one client holds; while that is anything, a thread calls `renew`, which returns the client's epoch.

    Before each request for a lock, `hold` what it shall bring; call `note` with its answer.
    """

    def __init__(self, renew: Callable[[int], int]) -> None:
        self.client = secrets.randbits(62) | 1
        self.on_loss: Callable[[set[int]], None] = lambda _: None
        self._renew = renew
        self._changed = threading.Condition()
        self._held: set[Token] = set()
        self._releases: list[Callable[[], object]] = []
        self._epoch, self._renewed = 0, 0.0
        self._thread: threading.Thread | None = None

    def hold(self, what: Token) -> None:
        with self._changed:
            if not self._held:
                self._epoch, self._renewed = 0, monotonic()
            self._held.add(what)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, daemon=True, name="locks")
                self._thread.start()
            self._changed.notify()

    def drop(self, what: Token) -> None:
        with self._changed:
            self._held.discard(what)

    def holds(self, what: Token) -> bool:
        return what in self._held

    def note(self, epoch: int, asked: float) -> None:
        """Take note of an answer to a request that was sent at this time of the monotonic clock."""
        with self._changed:
            lost: set[Token] = set()
            if self._epoch not in (0, epoch):
                lost, self._held = self._held, set()
            self._epoch, self._renewed = epoch, max(self._renewed, asked)
        if files := {file for file, space, _ in lost if space != APPEND}:
            self.on_loss(files)

    def check(self) -> None:
        """Make sure that what is held is held: renew the lease if it may have ended; raises OSErrors."""
        if self._held and monotonic() - self._renewed >= LOCK_LEASE - _PAUSE:
            self.renew()

    def renew(self) -> None:
        asked = monotonic()
        epoch = self._renew(self.client)
        if self._held:
            self.note(epoch, asked)

    def release_later(self, release: Callable[[], object]) -> None:
        """Repeat a release that has failed until it succeeds."""
        with self._changed:
            self._releases.append(release)
            self._changed.notify()

    def _keep(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._held or self._releases)
            sleep(_PAUSE if self._releases else _RENEWAL)
            with suppress(OSError):  # the server or the I/O node is away: the next turn tries again
                if self._held and monotonic() - self._renewed >= _RENEWAL / 2:
                    self.renew()
                while self._releases:
                    self._releases[0]()
                    del self._releases[0]
