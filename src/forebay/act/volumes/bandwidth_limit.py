"""Ceilings on the bandwidth of block devices, through control groups of version 1 or 2.

Version 1 limits each group separately, so the ceiling is set in every group. Groups that are created later have no
limit, except for writes through the page cache, which the kernel does. Version 2 cannot limit the root group, so the
ceiling is set in each group at the top and holds for all groups below it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_V1 = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")


def limit_device(device: str, rate: int | None, groups: Path = _GROUPS) -> None:
    """Limit reads and writes on the device (major:minor) to `rate` bytes/s each, if the kernel can. None: no limit."""
    limit = "max" if rate is None else rate
    for file in _limit_files(groups):
        with suppress(OSError):  # the group has just been removed, or the kernel cannot limit the device
            file.write_text(f"{device} {rate or 0}" if file.name in _V1 else f"{device} rbps={limit} wbps={limit}")


def read_limit(device: str, groups: Path = _GROUPS) -> float | None:
    """Return the ceiling in bytes per second, or None."""
    for file in _limit_files(groups):
        with suppress(OSError):
            for line in file.read_text().splitlines():
                number, *limits = line.replace("rbps=", "").split()
                if number == device and limits[0].isdigit():
                    return float(limits[0])
    return None


def _limit_files(groups: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(groups / "blkio"):
        yield from (Path(folder, name) for name in _V1 if name in names)
    yield from sorted(groups.glob("*/io.max"))
