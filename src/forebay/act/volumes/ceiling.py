"""A ceiling on the bandwidth of a block device, through the kernel's control groups of either version.

Version 1 limits each group by itself, so the ceiling is set in every group, and holds in each. Later groups are not
limited, except for writes through the page cache, which the kernel does. Version 2 has no limit in the root group; the
ceiling is set in each group at the top, and holds for all below it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_V1 = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")


def limit_device(device: str, rate: int, groups: Path = _ROOT) -> None:
    """At most `rate` bytes per second from and to the device (major:minor), if the kernel can."""
    for file in _files_v1(groups):
        _write(file, f"{device} {rate}")
    for file in _files_v2(groups):
        _write(file, f"{device} rbps={rate} wbps={rate}")


def unlimit_device(device: str, groups: Path = _ROOT) -> None:
    """Remove the ceiling: another device will get this number."""
    for file in _files_v1(groups):
        _write(file, f"{device} 0")
    for file in _files_v2(groups):
        _write(file, f"{device} rbps=max wbps=max")


def read_limit(device: str, groups: Path = _ROOT) -> float | None:
    """The ceiling in bytes per second; None if there is none."""
    for file in (*_files_v1(groups), *_files_v2(groups)):
        with suppress(OSError):
            for line in file.read_text().splitlines():
                number, *limits = line.replace("rbps=", "").split()
                if number == device and limits[0].isdigit():
                    return float(limits[0])
    return None


def _files_v1(groups: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(groups / "blkio"):
        yield from (Path(folder, name) for name in _V1 if name in names)


def _files_v2(groups: Path) -> Iterator[Path]:
    yield from sorted(groups.glob("*/io.max"))


def _write(file: Path, line: str) -> None:
    with suppress(OSError):  # a group that was removed just now, or a device that the kernel cannot limit
        file.write_text(line)
