"""A logical volume a volume, formatted and left unmounted, behind an NVMe-oF subsystem of its own.

Nobody may connect until hosts are allowed (see `expose`). The mark of the logical volume is its tag, that of the
subsystem the volume's name in its NQN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from forebay.act.volumes.lvm import Lvm
from forebay.act.volumes.record import Record
from forebay.act.volumes.subsystem import CONFIGFS, Subsystem
from forebay.model.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Nvmet(Lvm):
    """`path` of what is made is the device; a client mounts it and finds its top owned by the user."""

    kind: ClassVar[str] = "nvmet"

    local: bool = field(default=False, init=False)
    configfs: Path = CONFIGFS

    def check(self) -> None:
        super().check()
        if not (self.configfs / "subsystems").is_dir():
            raise BadInput("nvmet volumes", "need the NVMe target: modprobe nvmet, and configfs mounted")

    def _up(self, record: Record) -> None:
        super()._up(record)
        self._subsystem(record).make(self._source(record))

    def _down(self, record: Record) -> None:
        self._subsystem(record).remove()
        super()._down(record)

    def _is_up(self, record: Record) -> bool:
        return super()._is_up(record) and self._subsystem(record).serves(self._source(record))

    def _subsystem(self, record: Record) -> Subsystem:
        return Subsystem(name=record.name, configfs=self.configfs, after=self.after)
