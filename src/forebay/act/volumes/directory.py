"""A folder a volume: nothing enforces its size, so it suits trusted users, tests and disks with other limits."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from forebay.act.volumes.mounts import mounted_below
from forebay.act.volumes.volume import Record
from forebay.act.volumes.volume_lifecycle import Volumes, foreign_mount

_LONGEST = 3600.0  # seconds to remove all files of a volume; the next try removes the rest
_MOST_FILES = 100_000  # that are counted: agents must go on, however many files a user creates
_CLOSED_FOLDERS = ("-type", "d", "!", "-perm", "-700")
"""Folders that their owner closed: only root can empty them."""
_OPEN_FOLDER = ("-execdir", "chmod", "u+rwx", "--", "{}", ";")


@dataclass(frozen=True, kw_only=True)
class Directory(Volumes):
    """`root/<name>` is the user's."""

    kind: ClassVar[str] = "directory"
    enforces: ClassVar[bool] = False

    def _create(self, record: Record) -> None:
        path = self.path(record.name)
        path.mkdir(mode=0o700)  # the agent's own until it is handed over; without root it could not open it otherwise
        self.after(f"mkdir {path}")
        self._hand_over(record)

    def _take_down(self, record: Record) -> None:
        super()._take_down(record)
        for mount in mounted_below(self._removed_path(record)):
            raise foreign_mount(mount)

    def _delete(self, record: Record) -> None:
        path, removed = self.path(record.name), self._removed_path(record)
        if path.exists() and not removed.exists():
            if os.geteuid() != 0:
                path.chmod(0o700)  # only root can rename a folder without write permission
            path.rename(removed)  # users no longer see it, however long it takes to empty it
            self.after(f"rename {path}")
        if removed.exists():
            # Not in Python: folders can be nested deeper than it, or a path, can follow.
            if os.geteuid() != 0:
                self._run("find", removed, *_CLOSED_FOLDERS, *_OPEN_FOLDER, seconds=_LONGEST)
            self._run("rm", "-rf", "--", removed, seconds=_LONGEST)

    def _removed_path(self, record: Record) -> Path:
        return self.home / f"{record.name}.gone"

    def _is_up(self, record: Record) -> bool:
        return self.path(record.name).is_dir()

    def _gross_size(self, size: int) -> int:
        return size

    def _net_size(self, gross: int) -> int:
        return max(0, gross)

    def _occupied_bytes(self, record: Record) -> int:
        """What is written: a folder reserves nothing. With too many files to count, at least the requested size."""
        sizes = _file_sizes(self.path(record.name))
        total = sum(islice(sizes, _MOST_FILES))
        return total if next(sizes, None) is None else max(total, record.size)


def _file_sizes(top: Path) -> Iterator[int]:
    """Bytes of disk of each file and folder below, as far as a path can reach."""
    for entry in walk_entries(top):
        with suppress(OSError):  # removed by its owner just now
            yield entry.stat(follow_symlinks=False).st_blocks * 512


def walk_entries(top: Path) -> Iterator[os.DirEntry[str]]:
    """All entries below, however deep; a folder before its entries."""
    folders = [str(top)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:  # removed just now, or its path is too long
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                yield entry
