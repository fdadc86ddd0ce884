"""How much of its disks' bandwidth a node uses now. The agent reports it to the service, which only shows it.

The kernel counts sectors by block device, so that a disk is known by the device that its folder is on. A disk on none
(a network, memory, several devices) is not measured.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from forebay.act.control.agent.node import AgentDisk
from forebay.model.errors import ForebayError

EVERY = 10.0  # seconds between measurements
_SECTOR = 512
_READ, _WRITTEN = 2, 6  # where the kernel's line has its sectors
_AGAIN = 60.0  # seconds after which unchanged rates are reported, as the service forgets them
_ALIKE = 0.05  # smaller changes are not reported
Counts = dict[str, tuple[int, int]]  # bytes written and read so far, by disk
Rates = dict[str, tuple[float, float]]  # bytes per second written and read, by disk


def count_bytes(disks: Iterable[AgentDisk], blocks: Path = Path("/sys/dev/block")) -> Counts:
    """Of the disks whose device counts. Disks that share a device have equal parts of its counts."""
    devices: dict[int, list[str]] = {}
    for disk in disks:
        with suppress(OSError):
            if disk.root is not None:
                devices.setdefault(disk.root.stat().st_dev, []).append(disk.name)
    counts: Counts = {}
    for device, names in devices.items():
        with suppress(OSError, ValueError, IndexError):
            stat = (blocks / f"{os.major(device)}:{os.minor(device)}" / "stat").read_text().split()
            written, read = (_SECTOR * int(stat[column]) // len(names) for column in (_WRITTEN, _READ))
            counts |= dict.fromkeys(names, (written, read))
    return counts


def rates(before: Counts, after: Counts, seconds: float) -> Rates:
    """Between two measurements; a count that went back began anew and says nothing.

    >>> rates({"d": (0, 500)}, {"d": (1000, 500)}, 2.0)
    {'d': (500.0, 0.0)}
    """
    return {
        disk: ((written - before[disk][0]) / seconds, (read - before[disk][1]) / seconds)
        for disk, (written, read) in after.items()
        if disk in before and before[disk][0] <= written and before[disk][1] <= read
    }


def differ(old: Rates, new: Rates) -> bool:
    """Whether any rate has changed enough to be reported."""
    if set(old) != set(new):
        return True
    pairs = ((old[disk][at], new[disk][at]) for disk in new for at in (0, 1))
    return any(abs(before - after) > _ALIKE * max(before, after) for before, after in pairs)


class RateReporter:
    """Measures and reports in the background, from `start` to `stop`, as long as the service answers."""

    def __init__(
        self, disks: Mapping[str, AgentDisk], report: Callable[[Rates], None], *, every: float = EVERY
    ) -> None:
        self._disks, self._report, self._every = disks, report, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        before, began = count_bytes(self._disks.values()), time.monotonic()
        reported: Rates = {}
        last = began - _AGAIN
        while before and not self._ended.wait(self._every):
            after, now = count_bytes(self._disks.values()), time.monotonic()
            new = rates(before, after, now - began)
            before, began = after, now
            if now - last >= _AGAIN or differ(reported, new):
                with suppress(ForebayError, OSError):
                    self._report(new)
                    reported, last = new, now
