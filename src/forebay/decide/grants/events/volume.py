"""What happens to volumes, those of grants and those that belong to none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from forebay.decide.grants.events.base import Event, Group, event
from forebay.decide.grants.machine import Stray
from forebay.decide.grants.state import Tables
from forebay.model.grant import State, VolumeState, node_of
from forebay.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeEvent(Event):
    """`report` is the number of the report that it comes from; 0 if from none."""

    volume: str
    report: int = 0
    group: ClassVar[Group | None] = "machine"

    @property
    def grant_id(self) -> str:
        return self.volume.partition(".")[0]

    def _move(self, tables: Tables, state: VolumeState, **changes: Any) -> None:
        volume = tables.volumes[self.volume]
        tables.move_volume(volume, state, **changes)
        tables.note_report(volume.node, self.report)


@event
class VolumeMade(VolumeEvent):
    """A volume is there."""

    path: str = ""
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    group = None
    is_logged = False

    def apply(self, tables: Tables) -> None:
        place = {"path": self.path, "device": self.device, "settings": self.settings}
        self._move(tables, VolumeState.MADE, because="", **place)
        volume = tables.volumes[self.volume]
        disk = tables.disks[volume.disk]
        if disk.failures and tables.grants[volume.grant].state is State.MAKING:  # else it was there before
            tables.disks.set(disk.key, replace(disk, failures=0))

    def sentence(self) -> str:
        return f"volume {self.volume} is made" + (f": {self.path}" if self.path else "")


@event
class VolumeHalf(VolumeEvent):
    """It was whole and is incomplete now: its agent makes what is missing."""

    because: str
    is_warning = True
    says = "volume {self.volume} is incomplete: {self.because}"

    def apply(self, tables: Tables) -> None:
        self._move(tables, VolumeState.MAKING, because=self.because)


@event
class VolumeGone(VolumeEvent):
    """A volume is not there any more, as it should be."""

    group = None
    is_logged = False
    frees_space = True
    says = "volume {self.volume} is removed"

    def apply(self, tables: Tables) -> None:
        self._move(tables, VolumeState.GONE)


@event
class VolumeLost(VolumeEvent):
    """A volume is not there any more, or can't be made, and somebody needed it."""

    because: str
    reason: Reason = Reason.NONE
    is_warning = True
    frees_space = True
    says = "volume {self.volume} is lost: {self.because}"

    def apply(self, tables: Tables) -> None:
        self._move(tables, VolumeState.LOST, because=self.because)


@event
class VolumeMoved(VolumeEvent):
    """It could not be made where it was planned, and is to be made on another disk."""

    disk: str
    because: str
    is_warning = True
    says = "volume {self.volume} moves to {self.disk}, as it could not be made on the planned disk: {self.because}"

    def apply(self, tables: Tables) -> None:
        volume, disk = tables.volumes[self.volume], tables.disks[self.disk].key
        grant = tables.grants[volume.grant]
        tables.note_report(volume.node, self.report)
        tables.volumes.set(volume.name, replace(volume, disk=disk, failed=(*volume.failed, volume.disk)))
        because = f"{disk}, as volume {volume.name} could not be made on {volume.disk}"
        tables.grants.set(grant.id, replace(grant, because=because))


@event
class VolumeStuck(VolumeEvent):
    """It can't be removed: its grant ends without that, and what is on the disk is a stray."""

    because: str
    is_warning = True
    says = "volume {self.volume} cannot be removed: {self.because}"

    def apply(self, tables: Tables) -> None:
        self._move(tables, VolumeState.LOST, because=self.because)
        grant = tables.grants[tables.volumes[self.volume].grant]
        because = f"{grant.because}; volume {self.volume} could not be removed: {self.because}"
        tables.grants.set(grant.id, replace(grant, because=because))


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayEvent(Event):
    """`report` is the number of the report that it comes from; 0 if from none."""

    stray: Stray
    report: int = 0
    group: ClassVar[Group | None] = "machine"

    @property
    def node_name(self) -> str:
        return node_of(self.stray.disk)


@event
class Strayed(StrayEvent):
    """Something was found on a disk that belongs to no grant."""

    is_warning = True
    says = "volume {self.stray.name} on {self.stray.disk} belongs to no grant"

    def apply(self, tables: Tables) -> None:
        node = tables.disks[self.stray.disk].node
        tables.strays.set(self.stray.key, self.stray)
        tables.note_report(node, self.report)


@event
class StrayGone(StrayEvent):
    """It is not there any more."""

    frees_space = True
    says = "volume {self.stray.name} on {self.stray.disk}, which belonged to no grant, is removed"

    def apply(self, tables: Tables) -> None:
        tables.strays.set(self.stray.key, None)
        tables.note_report(self.node_name, self.report)
