"""Volumes as plain folders. Nothing enforces their size, so they suit trusted users, tests and disks with quotas."""

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

_LONGEST = 3600.0  # seconds to remove all files of a volume; the next try removes those that are left
_MOST_FILES = 100_000  # files to count: an agent must not stall, however many files a user creates
_CLOSED_FOLDERS = ("-type", "d", "!", "-perm", "-700")
"""Folders that their owner closed: only root can empty them."""
_OPEN_FOLDER = ("-execdir", "chmod", "u+rwx", "--", "{}", ";")


@dataclass(frozen=True, kw_only=True)
class Directory(Volumes):
    """Each `root/<name>` is a folder that belongs to the user."""

    kind: ClassVar[str] = "directory"
    enforces: ClassVar[bool] = False

    def _create(self, record: Record) -> None:
        path = self.path(record.name)
        path.mkdir(mode=0o700)  # only for the agent until the user gets it; an agent without root must open it, too
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
            path.rename(removed)  # so that users no longer see it, however long its removal takes
            self.after(f"rename {path}")
        if removed.exists():
            # Not in Python: folders can be nested too deeply for its recursion or for a path.
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
        """Return the written bytes, as a folder reserves none; with too many files, at least the requested size."""
        sizes = _file_sizes(self.path(record.name))
        total = sum(islice(sizes, _MOST_FILES))
        return total if next(sizes, None) is None else max(total, record.size)


def _file_sizes(top: Path) -> Iterator[int]:
    """Yield the bytes on disk of each file and folder below `top`, as far as a path can reach."""
    for entry in walk_entries(top):
        with suppress(OSError):  # its owner has just removed it
            yield entry.stat(follow_symlinks=False).st_blocks * 512


def walk_entries(top: Path) -> Iterator[os.DirEntry[str]]:
    """Yield all entries below `top`, each folder before its entries."""
    folders = [str(top)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:  # it was just removed, or its path is too long
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                yield entry
