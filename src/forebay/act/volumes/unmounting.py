"""Unmounts volumes even while programs use them: ext4 and xfs are shut down first, so that the programs fail."""

import fcntl
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from forebay.act.command import CommandFailed
from forebay.act.files import open_folder
from forebay.act.volumes.mounts import mounted_at

_SHUTDOWN = 0x8004587D  # the ioctl after which every call to ext4 or xfs fails
_WITHOUT_LOG = 2  # write nothing more to the disk


def unmount(path: Path, run: Callable[..., str]) -> None:
    """Unmount `path` with `run`. Programs that use it get errors from now on."""
    try:
        run("umount", path)
    except CommandFailed as error:
        if "busy" not in str(error) or (mount := mounted_at(path)) is None:
            raise
        shut_down(path, mount.device)
        run("umount", "--lazy", path)


def shut_down(path: Path, device: str) -> None:
    """Make every call to the file system at `path` fail, if it is on the device (major:minor).

    A job that outlives its grant must not keep writing to space that another grant gets.
    """
    with suppress(OSError), open_folder(path) as descriptor:  # other file systems, and failed ones, are only unmounted
        number = os.fstat(descriptor).st_dev
        if f"{os.major(number)}:{os.minor(number)}" == device:  # otherwise it has just been unmounted
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
