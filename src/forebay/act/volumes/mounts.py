"""Lists the mounts of this node."""

import re
from dataclasses import dataclass
from pathlib import Path

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount; `device` is major:minor."""

    device: str
    point: Path
    filesystem: str


def list_mounts() -> list[Mount]:
    """List all mounts that this process sees; a later mount covers an earlier one at the same point."""
    return [_parse_mount(line) for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _parse_mount(line: str) -> Mount:
    """
    >>> _parse_mount(r"36 35 7:3 / /mnt/my\\040disk rw,noatime shared:1 - ext4 /dev/loop3 rw").point.name
    'my disk'
    """
    before, _, after = line.partition(" - ")
    fields = before.split(" ")
    point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), fields[4])
    return Mount(device=fields[2], point=Path(point), filesystem=after.split(" ")[0])


def mounted_at(path: Path) -> Mount | None:
    """Return the visible mount at `path`, or None if it is not a mount point."""
    real = path.parent.resolve() / path.name
    return next((mount for mount in reversed(list_mounts()) if mount.point == real), None)


def mounted_below(path: Path) -> list[Mount]:
    """List the mounts at `path` or below it."""
    real = path.parent.resolve() / path.name
    return [mount for mount in list_mounts() if mount.point.is_relative_to(real)]


def filesystem_of(path: Path) -> str:
    """Return the type of the file system that holds the folder, such as `ext4`."""
    real = path.resolve()
    above = [mount for mount in list_mounts() if real.is_relative_to(mount.point)]
    # Of two mounts at one point, the later one is visible; `max` returns the first of equal items.
    return max(reversed(above), key=lambda mount: len(mount.point.parts)).filesystem if above else ""
