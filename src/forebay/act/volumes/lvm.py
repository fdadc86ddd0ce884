"""A logical volume a volume, in a volume group given to Forebay or shared with others; the mark is a tag.

The tag is made in one step with the logical volume, so there is no moment in which one is without the other. The
blocks are as the one before left them. Through a file system nobody sees that; but who reaches the device itself could,
so one that is to be exposed is filled with zeros first, by the disk itself where it can.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from forebay.act.command import run
from forebay.act.volumes.block import Block
from forebay.act.volumes.mounts import Mount
from forebay.act.volumes.record import Record, Stage, unreadable_record
from forebay.act.volumes.volume import is_name
from forebay.act.volumes.volume_lifecycle import check_vacant
from forebay.model.errors import BadInput

_MARK = "forebay"
_DETAILS = re.compile(r"forebay=(making|whole|releasing):(\d+):(\d+):(\d+):(\d+):(\d*)")
_SLOWEST = 50e6
"""Bytes per second that every disk can write."""
_GROUP = re.compile(r"[A-Za-z0-9_+.][A-Za-z0-9_+.-]*")


@dataclass(frozen=True, kw_only=True)
class Lvm(Block):
    """`root/<name>` is where the logical volume `forebay.<name>` of the volume group is mounted."""

    kind: ClassVar[str] = "lvm"

    group: str

    def check(self) -> None:
        made_by = f"mkfs.{self.filesystem.name}"
        if not _GROUP.fullmatch(self.group):
            raise BadInput("volume group", f"{self.group!r} is no name of one")
        self._needs_root()
        self._check_root("lvcreate", "lvs", "vgs", "blkdiscard", made_by)
        if "device-mapper" not in Path("/proc/devices").read_text():
            raise BadInput(f"{self.kind} volumes", "need the device mapper: modprobe dm-mod")
        self._bytes_free()

    def _records(self) -> list[Record]:
        found = []
        for row in self._rows("lvs", "lv_name,lv_tags", "lv", self.group):
            name = row["lv_name"].removeprefix("forebay.")
            if is_name(name) and _MARK in row["lv_tags"].split(","):
                found.append(_parsed(name, row["lv_tags"]))
        return sorted(found, key=lambda record: record.name)

    def _check_vacant(self, record: Record) -> None:
        check_vacant(self.path(record.name))  # lvcreate refuses a name that is taken

    def _begin(self, record: Record) -> None:
        tags = ("--addtag", _MARK, "--addtag", _details(record))
        fresh = ("--yes", "--zero", "n", "--wipesignatures", "n")  # mkfs overwrites what it has to
        size = f"{self._gross(record.size)}b"
        self._do("lvcreate", "--quiet", *fresh, *tags, "--size", size, "--name", _lv(record), self.group)

    def _mark(self, record: Record, stage: Stage) -> Record:
        changed = replace(record, stage=stage)
        tags = ("--deltag", _details(record), "--addtag", _details(changed))
        self._do("lvchange", "--quiet", *tags, self._full(record))
        return changed

    def _forget(self, record: Record) -> None:
        ours = f"lv_name={_lv(record)} && lv_tags={{{_MARK}}}"  # LVM itself makes sure that nothing unmarked goes
        self._do("lvremove", "--quiet", "--yes", "--select", ours, self.group)

    def _allocate(self, record: Record) -> None:
        """It was, with the mark; but it may not be active since the node started."""
        if not self._source(record).exists():
            self._do("lvchange", "--quiet", "--activate", "y", self._full(record))

    def _create(self, record: Record) -> None:
        self._allocate(record)
        if not self.local:
            size = self._gross(record.size)
            self._do("blkdiscard", "--zeroout", self._source(record), seconds=size / _SLOWEST)
        super()._create(record)

    def _clear(self, record: Record) -> None:
        """It goes with the mark."""

    def _up(self, record: Record) -> None:
        self._allocate(record)
        super()._up(record)

    def _source(self, record: Record) -> Path:
        return Path("/dev", self.group, _lv(record))

    def _is_ours(self, mount: Mount, record: Record) -> bool:
        return mount.device == self._number(record)

    def _number(self, record: Record) -> str:
        try:
            found = self._source(record).stat()
        except FileNotFoundError:
            return ""
        return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"

    def _device(self, record: Record) -> str:
        source = self._source(record)
        return str(source) if source.exists() else ""

    def _bytes_free(self) -> int:
        return int(self._rows("vgs", "vg_free", "vg", self.group)[0]["vg_free"])

    def _held(self, record: Record) -> int:
        return int(self._rows("lvs", "lv_size", "lv", self._full(record))[0]["lv_size"])

    def _full(self, record: Record) -> str:
        return f"{self.group}/{_lv(record)}"

    def _rows(self, command: str, columns: str, kind: str, what: str) -> list[dict[str, str]]:
        # Not by `_do`: to look changes nothing, so it is no step after which a crash could matter.
        asked = (command, "--reportformat", "json", "--units", "b", "--nosuffix", "-o", columns, what)
        rows: list[dict[str, str]] = json.loads(run(asked, timeout=self.timeout))["report"][0][kind]
        return rows


def _lv(record: Record) -> str:
    return f"forebay.{record.name}"


def _details(record: Record) -> str:
    """
    >>> _details(Record(name="0a.0", size=5, uid=1000, gid=100, mode=0o700, ceiling=None, stage="whole"))
    'forebay=whole:5:1000:100:448:'
    """
    ceiling = "" if record.ceiling is None else record.ceiling
    return f"forebay={record.stage}:{record.size}:{record.uid}:{record.gid}:{record.mode}:{ceiling}"


def _parsed(name: str, tags: str) -> Record:
    found = next(filter(None, map(_DETAILS.fullmatch, tags.split(","))), None)
    if found is None:
        return unreadable_record(name)
    size, uid, gid, mode = (int(word) for word in found.groups()[1:5])
    ceiling = int(found[6]) if found[6] else None
    stage: Stage = next(s for s in ("making", "whole", "releasing") if s == found[1])
    return Record(name=name, size=size, uid=uid, gid=gid, mode=mode, ceiling=ceiling, stage=stage)
