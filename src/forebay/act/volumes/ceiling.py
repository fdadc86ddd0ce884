"""A ceiling on the bandwidth of a block device, through the control groups of the kernel, of either version.

Version 1 limits the root group and each group below by itself, so the ceiling is set in every group there is, and holds
in each; groups made later are not limited, but what is written through the page cache is, as the kernel writes it.
Version 2 has no limit in the root group; the ceiling is set in each group at the top, and holds for all below it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_V1 = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")


def limit(device: str, rate: int, groups: Path = _ROOT) -> None:
    """At most `rate` bytes per second from and to the device (major:minor), where the kernel can."""
    for file in _files_v1(groups):
        _write(file, f"{device} {rate}")
    for file in _files_v2(groups):
        _write(file, f"{device} rbps={rate} wbps={rate}")


def lift(device: str, groups: Path = _ROOT) -> None:
    """No ceiling any more: the device's number will be somebody else's."""
    for file in _files_v1(groups):
        _write(file, f"{device} 0")
    for file in _files_v2(groups):
        _write(file, f"{device} rbps=max wbps=max")


def limited(device: str, groups: Path = _ROOT) -> float | None:
    """Bytes per second; None: there is no ceiling."""
    for file in (*_files_v1(groups), *_files_v2(groups)):
        with suppress(OSError):
            for line in file.read_text().splitlines():
                found, *words = line.replace("rbps=", "").split()
                if found == device and words[0].isdigit():
                    return float(words[0])
    return None


def _files_v1(groups: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(groups / "blkio"):
        yield from (Path(folder, name) for name in _V1 if name in names)


def _files_v2(groups: Path) -> Iterator[Path]:
    yield from sorted(groups.glob("*/io.max"))


def _write(file: Path, line: str) -> None:
    with suppress(OSError):  # a group that went just now, or a device that the kernel can't limit
        file.write_text(line)
