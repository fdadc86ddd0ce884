"""The burst buffer's space over the month: the storage policy's own kernel on the ledger, a grant for each job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.decide.policy import Policy
from forebay.decide.storage.policies import OTHER, number
from forebay.decide.storage.policy_memory import turn
from forebay.decide.storage.request_placement import PART, PLACING, try_place
from forebay.model.errors import BadInput
from forebay.model.kernels import kernel
from forebay.model.ledger import book, has_room, ledger, shorten, widen
from forebay.model.system import Platform

_MORE = 3600.0  # seconds by which a grant is prolonged whose job still runs


@dataclass(slots=True)
class _Grant:
    parts: Any  # PART
    start: float
    end: float


class Space:
    """Who holds what; times in seconds must not go back."""

    def __init__(self, platform: Platform, policy: Policy, split: int, seed: int) -> None:
        if number(policy) == OTHER:
            raise BadInput("policies.storage", f"must be a built-in policy, not {policy.name!r}")
        self._ledger = ledger(platform, bookings=4096)
        self._turn = turn(self._ledger, seed=seed)
        self._policy, self._split = number(policy), split
        self._scratch = np.zeros(4096, dtype=PART)
        self._held: dict[int, _Grant] = {}
        self.refused = 0

    def ask(self, job: int, size: int, now: float, end: float) -> Any:
        """The job's parts as disks and bytes; None if it is refused."""
        self._at(now)
        pieces = max(self._ledger.disks.size, size // self._split + 1)
        self._widen(pieces)
        if pieces > self._scratch.size:
            self._scratch = np.zeros(2 * pieces, dtype=PART)
        cursor = np.zeros(1, dtype=np.dtype(PLACING))
        window = (now, end, end - now)
        found = try_place(self._ledger, self._turn, self._scratch, cursor, size, *window, self._policy, self._split)
        if not found:
            self.refused += 1
            return None
        grant = _Grant(self._scratch[:found].copy(), now, end)
        _book_all(self._ledger, grant.parts, grant.start, grant.end)
        self._held[job] = grant
        return grant.parts

    def release(self, job: int, now: float) -> None:
        """What the job holds is free again."""
        self._at(now)
        grant = self._held.pop(job, None)
        if grant is not None:
            _shorten_all(self._ledger, grant.parts, grant.start, grant.end, now)

    def _at(self, now: float) -> None:
        """Prolong what should have ended and hasn't, and forget the past."""
        for grant in self._held.values():
            while grant.end <= now:
                self._widen(len(grant.parts))
                grant.start, grant.end = grant.end, grant.end + _MORE
                _book_all(self._ledger, grant.parts, grant.start, grant.end)
        self._ledger.horizon[0] = now

    def _widen(self, bookings: int) -> None:
        while not has_room(self._ledger, bookings):
            self._ledger = widen(self._ledger)


@kernel
def _book_all(space: Any, parts: Any, start: float, end: float) -> None:
    for part in parts:
        part.booking = book(space, part.disk, start, end, part.bytes)


@kernel
def _shorten_all(space: Any, parts: Any, start: float, end: float, sooner: float) -> None:
    for part in parts:
        shorten(space, part.disk, start, end, sooner, part.booking)
