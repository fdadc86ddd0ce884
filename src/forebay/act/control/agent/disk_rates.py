"""Measures the bandwidth that a node's disks use. The agent reports it to the service, which only shows it.

The kernel counts sectors by block device, so a disk is measured by the device of its folder. A folder without one
block device (on a network, in memory, on several devices) is not measured.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from forebay.act.control.agent.disk import AgentDisk
from forebay.model.errors import ForebayError

EVERY = 10.0  # seconds between measurements
_SECTOR = 512
_READ, _WRITTEN = 2, 6  # columns of sectors in the kernel's `stat` file
_AGAIN = 60.0  # seconds before unchanged rates are reported again, because the service forgets them
_ALIKE = 0.05  # smaller changes are not reported
Counts = dict[str, tuple[int, int]]  # bytes written and read so far, by disk
Rates = dict[str, tuple[float, float]]  # bytes per second written and read, by disk


def count_bytes(disks: Iterable[AgentDisk], blocks: Path = Path("/sys/dev/block")) -> Counts:
    """Read the counts of all measured disks. Disks that share a device get equal shares of its counts."""
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
    """The rates between two measurements, without disks whose counts were reset.

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
    """Measures and reports in the background, from `start` to `stop`."""

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
