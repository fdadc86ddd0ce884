"""What is mounted where on this node, and taking it away again even while somebody still holds on to it."""

from __future__ import annotations

import fcntl
import os
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import CommandFailed

_SHUTDOWN = 0x8004587D  # the ioctl of ext4 and xfs that makes a file system answer every call with an error
_WITHOUT_LOG = 2  # what is not on the disk yet need not get there
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount: `device` is major:minor."""

    device: str
    point: Path
    filesystem: str


def mounts() -> list[Mount]:
    """All of this process's mounts, the later ones over the earlier ones."""
    return [_parsed(line) for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _parsed(line: str) -> Mount:
    """
    >>> _parsed(r"36 35 7:3 / /mnt/my\\040disk rw,noatime shared:1 - ext4 /dev/loop3 rw").point.name
    'my disk'
    """
    before, _, after = line.partition(" - ")
    fields = before.split(" ")
    point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4])
    return Mount(device=fields[2], point=Path(point), filesystem=after.split(" ")[0])


def mounted_at(path: Path) -> Mount | None:
    """What one sees at `path`, if it is a mount point."""
    real = path.parent.resolve() / path.name
    return next((mount for mount in reversed(mounts()) if mount.point == real), None)


def mounted_below(path: Path) -> list[Mount]:
    """What is mounted at `path` or anywhere inside it."""
    real = path.parent.resolve() / path.name
    return [mount for mount in mounts() if mount.point.is_relative_to(real)]


def filesystem_of(path: Path) -> str:
    """The type of the file system that holds the folder, `ext4` for example."""
    real = path.resolve()
    held = [mount for mount in mounts() if real.is_relative_to(mount.point)]
    # Of two mounts at one point the later one is seen, and max gives the first of equals.
    return max(reversed(held), key=lambda mount: len(mount.point.parts)).filesystem if held else ""


def unmount(path: Path, do: Callable[..., str]) -> None:
    """Unmount what is at `path`; if it is in use, whoever uses it gets errors from now on."""
    try:
        do("umount", path)
    except CommandFailed as error:
        if "busy" not in str(error) or (mount := mounted_at(path)) is None:
            raise
        shut_down(path, mount.device)
        do("umount", "--lazy", path)


def shut_down(path: Path, device: str) -> None:
    """Every call to the file system at `path` is an error from now on, if it is that of the device (major:minor).

    A job that outlives its grant must not go on writing to space that is somebody else's next.
    """
    with suppress(OSError):  # one that can't, or has done so by itself, is only unmounted
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found = os.fstat(descriptor).st_dev
            if f"{os.major(found)}:{os.minor(found)}" == device:  # else unmounted just now: that is the disk below
                fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(descriptor)
