"""A folder a volume: no limit is kept, so it suits trusted users, tests and disks with other means."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from forebay.act.volumes.mounts import mounted_below
from forebay.act.volumes.record import Record, Records, Stage
from forebay.act.volumes.volume import NotOurs
from forebay.act.volumes.volume_lifecycle import VolumeLifecycle, check_vacant

_LONGEST = 3600.0
"""Seconds that it may take to remove all files of a volume; what is left then is removed at the next try."""
_MOST_FILES = 100_000
"""That are counted each time: agents must go on, however many files somebody makes."""
_CLOSED_FOLDERS = ("-type", "d", "!", "-perm", "-700")
"""Folders that their owner closed: only root can empty them as they are."""
_OPEN_FOLDER = ("-execdir", "chmod", "u+rwx", "--", "{}", ";")
HOME = ".forebay"
"""The folder in a disk's root that holds the marks, and what users have no business with."""


@dataclass(frozen=True, kw_only=True)
class OnFiles(VolumeLifecycle):
    """Kinds whose marks are files beside the volumes."""

    @property
    def records(self) -> Records:
        return Records(self.root / HOME, self.after)

    def _records(self) -> list[Record]:
        return self.records.all()

    def _record(self, name: str) -> Record | None:
        return self.records.read(name)

    def _check_vacant(self, record: Record) -> None:
        check_vacant(self.path(record.name))

    def _begin(self, record: Record) -> None:
        self.records.write(record)

    def _mark(self, record: Record, stage: Stage) -> Record:
        return self.records.change(record, stage)

    def _forget(self, record: Record) -> None:
        self.records.drop(record.name)

    def _since(self, record: Record) -> float:
        return self.records.since(record)

    def _bytes_free(self) -> int:
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize


@dataclass(frozen=True, kw_only=True)
class Directory(OnFiles):
    """`root/<name>` is the user's. What it holds is counted against nobody."""

    kind: ClassVar[str] = "directory"
    enforces: ClassVar[bool] = False

    def check(self) -> None:
        self._check_root()

    def _create(self, record: Record) -> None:
        path = self.path(record.name)
        path.mkdir(mode=0o700)  # the agent's alone until it is handed over; without root it could not open less
        self.after(f"mkdir {path}")
        self._hand_over(record)

    def _up(self, record: Record) -> None:
        """There is nothing that a restart takes away."""

    def _down(self, record: Record) -> None:
        """Nor anything to undo; but what others mounted inside must go first, and not by us."""
        for mount in (*mounted_below(self.path(record.name)), *mounted_below(self._gone(record))):
            raise NotOurs(f"{mount.point}: something is mounted there that does not carry Forebay's mark")

    def _clear(self, record: Record) -> None:
        path, gone = self.path(record.name), self._gone(record)
        if path.exists() and not gone.exists():
            if os.geteuid() != 0:
                path.chmod(0o700)  # only root can move a folder that it may not write to
            path.rename(gone)  # from here on nobody finds it, however long it takes to empty it
            self.after(f"rename {path}")
        if gone.exists():
            # Not in Python: folders can lie in one another deeper than it, or a path, can follow.
            if os.geteuid() != 0:
                self._do("find", gone, *_CLOSED_FOLDERS, *_OPEN_FOLDER, seconds=_LONGEST)
            self._do("rm", "-rf", "--", gone, seconds=_LONGEST)

    def _gone(self, record: Record) -> Path:
        return self.root / HOME / f"{record.name}.gone"

    def _is_up(self, record: Record) -> bool:
        return self.path(record.name).is_dir()

    def _gross(self, size: int) -> int:
        return size

    def _net(self, gross: int) -> int:
        return max(0, gross)

    def _held(self, record: Record) -> int:
        """What is written by now: a folder sets nothing aside. Of too many files to count: at least what was asked."""
        found = sizes(self.path(record.name))
        total = sum(islice(found, _MOST_FILES))
        return total if next(found, None) is None else max(total, record.size)


def sizes(top: Path) -> Iterator[int]:
    """Bytes of disk that each file and folder below has, as far as they can be reached by a path."""
    for entry in entries(top):
        with suppress(OSError):  # removed by its owner just now
            yield entry.stat(follow_symlinks=False).st_blocks * 512


def entries(top: Path) -> Iterator[os.DirEntry[str]]:
    """All that is below, however deep; a folder before what is in it."""
    folders = [str(top)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as found:  # removed just now, or its path is too long
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                yield entry
