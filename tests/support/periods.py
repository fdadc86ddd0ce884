"""Periods at I/O nodes in front of servers that can do so much and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.model.observation import Observation

PROCESSES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """By arm: requests a second at most, and seconds that each takes at least."""

    most: Any
    least: Any
    size: int = 32768
    noise: float = 0.05

    def period(self, arm: int, think: float, rng: Any) -> Observation:
        """A second in which all processes have one request each, and think between two (mean value analysis)."""
        queued, rate, wait = 0.0, 0.0, 0.0
        for n in range(1, PROCESSES + 1):
            wait = (1 + queued) / self.most[arm]
            rate = n / (wait + self.least[arm] + think)
            queued = rate * wait
        rate *= np.exp(rng.normal(0, self.noise))
        load = min(PROCESSES, rate * (wait + self.least[arm]))
        return Observation(
            seconds=1.0,
            reads=int(rate),
            bytes_read=int(rate) * self.size,
            load=load,
            busy=1 - (1 - load / PROCESSES) ** PROCESSES,
            processes=PROCESSES,
        )


def busy_times(kind: str, steps: int, rng: Any) -> list[bool]:
    """Whether there is much to do: always, by turns, by chance, or after a while seldom."""
    if kind == "always":
        return [True] * steps
    if kind == "by turns":
        return [(step // 30) % 2 == 0 for step in range(steps)]
    if kind == "by chance":
        return [bool(rng.random() < 0.5) for _ in range(steps)]
    return [step < 20 or (step // 40) % 4 == 0 for step in range(steps)]
