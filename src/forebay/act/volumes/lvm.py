"""Volumes as logical volumes, in a volume group that Forebay owns or shares. The mark is a tag.

LVM creates the tag and the logical volume in one step, so neither ever exists without the other. The blocks still hold
the data of earlier volumes. A file system hides that data, but a client that reads the device could see it. So a volume
that will be exposed is filled with zeros first, by the disk itself if it can.
"""

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from forebay.act.command import run
from forebay.act.volumes.block import BlockVolumes
from forebay.act.volumes.mounts import Mount
from forebay.act.volumes.volume import Record, Stage, is_name
from forebay.act.volumes.volume_lifecycle import PLACED
from forebay.model.errors import BadInput

_MARK = "forebay"
_DETAILS = re.compile(r"forebay=(making|whole|releasing):(\d+):(\d+):(\d+):(\d+):(\d*)")
_SLOWEST = 50e6  # bytes per second that every disk can write
_GROUP = re.compile(r"[A-Za-z0-9_+.][A-Za-z0-9_+.-]*")


@dataclass(frozen=True, kw_only=True)
class Lvm(BlockVolumes):
    """The logical volume `forebay.<name>` of the volume group is mounted at `root/<name>`."""

    kind: ClassVar[str] = "lvm"

    group: str

    def check(self) -> None:
        if not _GROUP.fullmatch(self.group):
            raise BadInput("volume group", f"{self.group!r} is not a valid name")
        self._check_root("lvcreate", "lvs", "vgs", "blkdiscard", f"mkfs.{self.format.name}")
        if "device-mapper" not in Path("/proc/devices").read_text():
            raise BadInput(f"{self.kind} volumes", "need the device mapper; load it with modprobe dm-mod")
        self._free_bytes()

    def list_records(self) -> list[Record]:
        rows = self._read_rows("lvs", "lv_name,lv_tags", self.group)
        tags = {row["lv_name"].removeprefix("forebay."): row["lv_tags"].split(",") for row in rows}
        return [_parse_record(name, tags[name]) for name in sorted(tags) if is_name(name) and _MARK in tags[name]]

    def read_record(self, name: str) -> Record | None:
        return next((record for record in self.list_records() if record.name == name), None)

    def write_mark(self, record: Record) -> None:
        tags = ("--addtag", _MARK, "--addtag", _format_details(record))
        fresh = ("--yes", "--zero", "n", "--wipesignatures", "n")  # mkfs overwrites what it must
        size = f"{self._gross_size(record.size)}b"
        self._run("lvcreate", "--quiet", *fresh, *tags, "--size", size, "--name", _lv_name(record), self.group)

    def change_stage(self, record: Record, stage: Stage) -> Record:
        changed = replace(record, stage=stage)
        tags = ("--deltag", _format_details(record), "--addtag", _format_details(changed))
        self._run("lvchange", "--quiet", *tags, self._full_name(record))
        return changed

    def remove_mark(self, record: Record) -> None:
        # LVM selects by the mark, so it removes nothing else.
        ours = f"lv_name={_lv_name(record)} && lv_tags={{{_MARK}}}"
        self._run("lvremove", "--quiet", "--yes", "--select", ours, self.group)

    def _allocate_space(self, record: Record) -> None:
        """Activate the volume, which may be inactive since the node started. `write_mark` reserved its space."""
        if not self._backing_path(record).exists():
            self._run("lvchange", "--quiet", "--activate", "y", self._full_name(record))

    def _create(self, record: Record) -> None:
        self._allocate_space(record)
        if not self.local:
            size = self._gross_size(record.size)
            self._run("blkdiscard", "--zeroout", self._backing_path(record), seconds=size / _SLOWEST)
        super()._create(record)

    def _delete(self, record: Record) -> None:
        """Do nothing: `remove_mark` removes the volume."""

    def _bring_up(self, record: Record) -> None:
        self._allocate_space(record)
        super()._bring_up(record)

    def _backing_path(self, record: Record) -> Path:
        return Path("/dev", self.group, _lv_name(record))

    def _is_ours(self, mount: Mount, record: Record) -> bool:
        return mount.device == self._device_number(record)

    def _device_number(self, record: Record) -> str:
        if not (device := self._device(record)):
            return ""
        number = Path(device).stat().st_rdev
        return f"{os.major(number)}:{os.minor(number)}"

    def _device(self, record: Record) -> str:
        backing = self._backing_path(record)
        return str(backing) if backing.exists() else ""

    def _free_bytes(self) -> int:
        return int(self._read_rows("vgs", "vg_free", self.group)[0]["vg_free"])

    def _occupied_bytes(self, record: Record) -> int:
        return int(self._read_rows("lvs", "lv_size", self._full_name(record))[0]["lv_size"])

    def _full_name(self, record: Record) -> str:
        return f"{self.group}/{_lv_name(record)}"

    def _read_rows(self, command: str, columns: str, what: str) -> list[dict[str, str]]:
        # Not by `_run`: reading changes nothing, so tests need not simulate a crash after it.
        query = (command, "--reportformat", "json", "--units", "b", "--nosuffix", "-o", columns, what)
        rows: list[dict[str, str]] = json.loads(run(query, timeout=self.timeout))["report"][0][columns[:2]]
        return rows


def _lv_name(record: Record) -> str:
    return f"forebay.{record.name}"


def _format_details(record: Record) -> str:
    """
    >>> _format_details(Record(name="0a.0", size=5, uid=1000, gid=100, mode=0o700, ceiling=None, stage="whole"))
    'forebay=whole:5:1000:100:448:'
    """
    ceiling = "" if record.ceiling is None else record.ceiling
    return f"forebay={record.stage}:{record.size}:{record.uid}:{record.gid}:{record.mode}:{ceiling}"


def _parse_record(name: str, tags: list[str]) -> Record:
    details = next(filter(None, map(_DETAILS.fullmatch, tags)), None)
    if details is None:
        return Record(name=name, stage="unreadable")
    size, uid, gid, mode = map(int, details.groups()[1:5])
    stage: Stage = next(stage for stage in PLACED if stage == details[1])
    ceiling = int(details[6]) if details[6] else None
    return Record(name=name, size=size, uid=uid, gid=gid, mode=mode, ceiling=ceiling, stage=stage)
