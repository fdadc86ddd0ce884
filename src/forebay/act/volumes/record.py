"""Forebay's mark on a disk: one small file a volume, written before anything else and removed after everything."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from forebay.act.volumes.volume import BadRequest, check_name, is_name
from forebay.model.errors import BadInput
from forebay.model.units import format_size

Stage = Literal["begun", "making", "whole", "releasing", "unreadable"]
"""`begun`: the mark itself was not in place yet, so there is nothing else of the volume."""
_MOST = 1 << 60
"""Bytes that no disk has: more is a slip of the pen."""
_NOBODY = (1 << 32) - 1  # the id that chown takes for "leave it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was asked of a volume, and how far it is. Sizes in bytes, `ceiling` in bytes per second."""

    name: str
    size: int
    uid: int
    gid: int
    mode: int
    ceiling: int | None = None
    stage: Stage = "making"

    def asked(self) -> tuple[object, ...]:
        """What must be alike for two requests to mean one volume."""
        return self.name, self.size, self.uid, self.gid, self.mode, self.ceiling


def check_request(name: str, size: int, uid: int, gid: int, mode: int, ceiling: float | None) -> Record:
    """A volume to be made, if all of that is possible anywhere."""
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
    """A mark of which no more can be read than whose it is."""
    return Record(name=name, size=0, uid=0, gid=0, mode=0, stage=stage)


_PLACED: tuple[Stage, ...] = ("making", "whole", "releasing")


@dataclass(frozen=True, slots=True)
class Records:
    """The marks in one folder, which only root may enter. `after` is told of each step done.

    The stage is the ending of the file's name: to change it needs no space, so a full disk can be emptied.
    """

    folder: Path
    after: Callable[[str], None]

    def all(self) -> list[Record]:
        """By name; those too that were only begun."""
        if not self.folder.is_dir():
            return []
        found = {file.stem for stage in ("begun", *_PLACED) for file in self.folder.glob(f"*.{stage}")}
        return [self.read(name) or unreadable_record(name, "begun") for name in sorted(filter(is_name, found))]

    def read(self, name: str) -> Record | None:
        """None: there is none in place."""
        for stage in _PLACED:
            with suppress(FileNotFoundError):
                return _parse_record(name, stage, self._path(name, stage).read_text())
        return None

    def write(self, record: Record) -> None:
        """Put it in place whole or not at all, and on the disk before anything else happens."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        begun = self._path(record.name, "begun")
        write_synced(begun, json.dumps({key: value for key, value in asdict(record).items() if key != "stage"}), 0o600)
        self.after(f"begin the mark of {record.name}")
        self._rename(record.name, "begun", record.stage)

    def change(self, record: Record, stage: Stage) -> Record:
        """The same at another stage."""
        self._rename(record.name, record.stage, stage)
        return replace(record, stage=stage)

    def since(self, record: Record) -> float:
        """When it was begun, in seconds since 1970; 0 if it is gone."""
        with suppress(OSError):
            return self._path(record.name, record.stage).stat().st_mtime
        return 0.0

    def drop(self, name: str) -> None:
        """No more mark; that there is none is no error."""
        for stage in ("begun", *_PLACED):
            self._path(name, stage).unlink(missing_ok=True)
        if self.folder.is_dir():
            sync_folder(self.folder)
        self.after(f"remove the mark of {name}")

    def _rename(self, name: str, before: Stage, now: Stage) -> None:
        self._path(name, before).rename(self._path(name, now))
        sync_folder(self.folder)
        self.after(f"mark {name}: {now}")

    def _path(self, name: str, stage: str) -> Path:
        return self.folder / f"{name}.{stage}"


def _parse_record(name: str, stage: Stage, text: str) -> Record:
    try:
        record = Record(**json.loads(text), stage=stage)
        check_request(record.name, record.size, record.uid, record.gid, record.mode, record.ceiling)
    except (ValueError, TypeError, AttributeError, BadInput):
        return unreadable_record(name)
    return record if record.name == name else unreadable_record(name)


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
