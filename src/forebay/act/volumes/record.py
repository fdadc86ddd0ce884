"""Forebay's mark of a volume: what was requested, and how far it got. Also files that must survive a crash."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forebay.act.volumes.volume import BadRequest, check_name
from forebay.model.units import format_size

Stage = Literal["begun", "making", "whole", "releasing", "unreadable"]
"""`begun`: the mark itself is not in place yet, so nothing else of the volume exists."""
_MOST = 1 << 60
"""Bytes that no disk has: more is a slip of the pen."""
_NOBODY = (1 << 32) - 1  # the id that chown takes for "leave it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The request for a volume, and its stage. Sizes in bytes, `ceiling` in bytes per second."""

    name: str
    size: int
    uid: int
    gid: int
    mode: int
    ceiling: int | None = None
    stage: Stage = "making"

    def request(self) -> tuple[object, ...]:
        """What must be equal for two requests to mean the same volume."""
        return self.name, self.size, self.uid, self.gid, self.mode, self.ceiling


def check_request(name: str, size: int, uid: int, gid: int, mode: int, ceiling: float | None) -> Record:
    """The record of a new volume; raises BadRequest for what is impossible on every disk."""
    where = f"volume {check_name(name)}"
    if not isinstance(size, int) or not 0 < size <= _MOST:
        raise BadRequest(where, f"size must be from 1 byte to {format_size(_MOST)}, not {size!r}")
    for label, number in (("uid", uid), ("gid", gid)):
        if not 0 <= number < _NOBODY:
            raise BadRequest(where, f"{label} must be from 0 to {_NOBODY - 1}, not {number!r}")
    if not 0 <= mode <= 0o777:
        raise BadRequest(where, f"mode must be from 0 to 0777, not {mode:o}")
    if ceiling is not None and not (math.isfinite(ceiling) and ceiling >= 1):
        raise BadRequest(where, f"ceiling must be at least one byte per second, not {ceiling!r}")
    return Record(name=name, size=size, uid=uid, gid=gid, mode=mode, ceiling=None if ceiling is None else int(ceiling))


def unreadable_record(name: str, stage: Stage = "unreadable") -> Record:
    """A mark of which only the volume's name can be read."""
    return Record(name=name, size=0, uid=0, gid=0, mode=0, stage=stage)


def write_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Put a file in place whole or not at all, and on the disk before anything else happens."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    write_synced(new, text, mode)
    new.rename(path)
    sync_folder(path.parent)


def write_synced(path: Path, text: str, mode: int) -> None:
    """Write the file and wait until it is on the disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Write all names in the folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
