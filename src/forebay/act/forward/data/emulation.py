"""Makes a data server as slow as one of another machine: answers wait for their turn at an emulated disk.

The disk serves one request at a time, in the order of arrival. Each takes as long as `ServiceTime` says, times a
dilation: compared with dilated times, the noise of this machine is small.
"""

from __future__ import annotations

import random
import time
from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from math import exp

from forebay.act.forward.net.timer import NEVER, Alarm
from forebay.model.service_time import FITTED, ServiceTime, new_state, service_time

_MASK = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """The model to emulate, how many times slower, and the seed of the noise."""

    model: ServiceTime = FITTED
    dilation: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.dilation <= 1000:
            raise ValueError(f"the time dilation must be above 0 and at most 1000, not {self.dilation:g}")

    def disk(self, loop: AbstractEventLoop) -> Disk:
        return Disk(loop, self)


class Disk:
    """A queue of requests. `clock` returns nanoseconds since 1970."""

    def __init__(self, loop: AbstractEventLoop, emulation: Emulation, clock: Callable[[], int] = time.time_ns) -> None:
        self._emulation, self._clock = emulation, clock
        self._packed, self._state = emulation.model.pack(), new_state()
        self._noise = random.Random(emulation.seed)
        self._free_at = 0
        self._waiting: deque[tuple[int, int, Callable[[], None]]] = deque()
        self._here: Counter[int] = Counter()
        self._nodes: dict[str, int] = {}
        self._alarm = Alarm(loop, self.ring)

    def serve(self, node: str, file: int, offset: int, size: int, write: bool, answer: Callable[[], None]) -> None:
        """Call `answer` when the emulated disk has served this request of an I/O node."""
        number = self._nodes.setdefault(node, len(self._nodes))
        self._here[number] += 1
        took = service_time(self._packed, self._state, number, file & _MASK, offset, size, write, len(self._here))
        factor = exp(self._emulation.model.sigma * self._noise.gauss(0.0, 1.0)) * self._emulation.dilation
        self._free_at = max(self._free_at, self._clock()) + int(took * factor)
        self._waiting.append((self._free_at, number, answer))
        self._alarm.at(self._waiting[0][0])

    def ring(self) -> None:
        """Send the answers that are due."""
        while self._waiting and self._waiting[0][0] <= self._clock():
            _, number, answer = self._waiting.popleft()
            self._here[number] -= 1
            if not self._here[number]:
                del self._here[number]
            answer()
        self._alarm.at(self._waiting[0][0] if self._waiting else NEVER)

    def close(self) -> None:
        self._alarm.close()
