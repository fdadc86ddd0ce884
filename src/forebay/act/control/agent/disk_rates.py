"""How much of its disks' bandwidth a node uses now: told to the service, which shows it and does nothing else with it.

The kernel counts sectors by block device, so that a disk is known by the device that its folder is on. One that is on
none (a network, memory, several devices) is not measured.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from forebay.act.control.agent.disks import AgentDisk
from forebay.model.errors import ForebayError

EVERY = 10.0
"""Seconds between looks."""
_SECTOR = 512
_READ, _WRITTEN = 2, 6  # where the kernel's line has its sectors
_AGAIN = 60.0  # seconds after which it is told anyway, as the service forgets it
_ALIKE = 0.05  # what changes by less is not told again
Counts = dict[str, tuple[int, int]]
"""Bytes written and read so far, by disk."""
Rates = dict[str, tuple[float, float]]
"""Bytes per second written and read, by disk."""


def counts(disks: Iterable[AgentDisk], blocks: Path = Path("/sys/dev/block")) -> Counts:
    """Of the disks whose device counts; those that share one have equal parts of what it did."""
    devices: dict[int, list[str]] = {}
    for disk in disks:
        with suppress(OSError):
            if disk.root is not None:
                devices.setdefault(disk.root.stat().st_dev, []).append(disk.name)
    found: Counts = {}
    for device, names in devices.items():
        with suppress(OSError, ValueError, IndexError):
            written, read = _counted(blocks / f"{os.major(device)}:{os.minor(device)}" / "stat")
            found |= dict.fromkeys(names, (written // len(names), read // len(names)))
    return found


def _counted(stat: Path) -> tuple[int, int]:
    words = stat.read_text().split()
    return _SECTOR * int(words[_WRITTEN]), _SECTOR * int(words[_READ])


def rates(before: Counts, after: Counts, seconds: float) -> Rates:
    """Between two looks; a count that went back began anew and says nothing.

    >>> rates({"d": (0, 500)}, {"d": (1000, 500)}, 2.0)
    {'d': (500.0, 0.0)}
    """
    found = {}
    for disk, now in after.items():
        was = before.get(disk)
        if was is not None and was[0] <= now[0] and was[1] <= now[1]:
            found[disk] = ((now[0] - was[0]) / seconds, (now[1] - was[1]) / seconds)
    return found


def differ(told: Rates, new: Rates) -> bool:
    """Whether anything is worth telling."""
    if set(told) != set(new):
        return True
    pairs = ((told[disk][at], new[disk][at]) for disk in new for at in (0, 1))
    return any(abs(one - other) > _ALIKE * max(one, other) for one, other in pairs)


class RateTeller:
    """Looks and tells in the background, from `start` to `stop`; a service that is away is not told."""

    def __init__(self, disks: Mapping[str, AgentDisk], tell: Callable[[Rates], None], *, every: float = EVERY) -> None:
        self._disks, self._tell, self._every = disks, tell, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        before, began = counts(self._disks.values()), time.monotonic()
        told: Rates = {}
        last = began - _AGAIN
        while before and not self._ended.wait(self._every):
            after, now = counts(self._disks.values()), time.monotonic()
            new = rates(before, after, now - began)
            before, began = after, now
            if now - last >= _AGAIN or differ(told, new):
                with suppress(ForebayError, OSError):
                    self._tell(new)
                    told, last = new, now
