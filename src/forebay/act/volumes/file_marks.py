"""Volumes whose marks are files beside them: one small file each, written before all else and removed last.

The stage is the ending of the file's name: changing it needs no space, so a full disk can be emptied.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from forebay.act.volumes.record import Record, Stage, check_request, sync_folder, unreadable_record, write_synced
from forebay.act.volumes.volume import is_name
from forebay.act.volumes.volume_lifecycle import Volumes, check_vacant
from forebay.model.errors import BadInput

HOME = ".forebay"
"""The folder in a disk's root that holds the marks and whatever users need not see. Only root can enter it."""
_PLACED: tuple[Stage, ...] = ("making", "whole", "releasing")


@dataclass(frozen=True, kw_only=True)
class MarkedByFiles(Volumes):
    """The kinds of volumes on an ordinary file system."""

    @property
    def home(self) -> Path:
        return self.root / HOME

    def list_records(self) -> list[Record]:
        if not self.home.is_dir():
            return []
        names = {file.stem for stage in ("begun", *_PLACED) for file in self.home.glob(f"*.{stage}")}
        return [self.read_record(name) or unreadable_record(name, "begun") for name in sorted(filter(is_name, names))]

    def read_record(self, name: str) -> Record | None:
        for stage in _PLACED:
            with suppress(FileNotFoundError):
                return _parse_record(name, stage, self._mark_file(name, stage).read_text())
        return None

    def write_mark(self, record: Record) -> None:
        """Put it in place whole or not at all, and on the disk before anything else happens."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        fields = {key: value for key, value in asdict(record).items() if key != "stage"}
        write_synced(self._mark_file(record.name, "begun"), json.dumps(fields), 0o600)
        self.after(f"begin the mark of {record.name}")
        self._rename_mark(record.name, "begun", record.stage)

    def change_stage(self, record: Record, stage: Stage) -> Record:
        self._rename_mark(record.name, record.stage, stage)
        return replace(record, stage=stage)

    def remove_mark(self, record: Record) -> None:
        for stage in ("begun", *_PLACED):
            self._mark_file(record.name, stage).unlink(missing_ok=True)
        if self.home.is_dir():
            sync_folder(self.home)
        self.after(f"remove the mark of {record.name}")

    def _check_vacant(self, record: Record) -> None:
        check_vacant(self.path(record.name))

    def _begun_at(self, record: Record) -> float:
        with suppress(OSError):
            return self._mark_file(record.name, record.stage).stat().st_mtime
        return 0.0

    def _free_bytes(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize

    def _rename_mark(self, name: str, before: Stage, now: Stage) -> None:
        self._mark_file(name, before).rename(self._mark_file(name, now))
        sync_folder(self.home)
        self.after(f"mark {name}: {now}")

    def _mark_file(self, name: str, stage: str) -> Path:
        return self.home / f"{name}.{stage}"


def _parse_record(name: str, stage: Stage, text: str) -> Record:
    try:
        record = Record(**json.loads(text), stage=stage)
        check_request(record.name, record.size, record.uid, record.gid, record.mode, record.ceiling)
    except (ValueError, TypeError, AttributeError, BadInput):
        return unreadable_record(name)
    return record if record.name == name else unreadable_record(name)
