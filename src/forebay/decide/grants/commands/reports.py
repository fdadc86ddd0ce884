"""Reports of agents. They can arrive late, out of order and more than once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.permissions import Command, NodeCommand
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.losses import lose_volume
from forebay.decide.grants.machine import Fault, Stray, stray_key
from forebay.decide.grants.placement import MOST_DISKS, explain_impossible, find_other_disk
from forebay.decide.grants.suspensions import fail_trial, find_tried_disk, note_failure, resume_disk
from forebay.model.errors import BadInput
from forebay.model.grant import EXISTING, ON_DISK, Grant, State, Volume, VolumeState, node_of
from forebay.model.reasons import Because, Reason

_MARKED = ("uid", "gid", "mode", "ceiling", "since", "path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Command):
    """An agent reports on one volume. A later report has a higher number."""

    volume: str
    number: int = 0
    disk: str = ""  # its name on its node; "" means the disk of the volume

    def _find_volume(self, draft: Draft) -> Volume | None:
        """The volume, if it may exist on a disk. Only the agent of its node may report on it."""
        volume, node = draft.tables.volumes.get(self.volume), self.caller.node
        if volume is None or (volume.node != node and _was_on(draft, volume, node)):
            self.require_agent(node)
            return None
        self.require_agent(volume.node)
        if self.disk and volume.disk != f"{node}/{self.disk}":
            return None
        known = draft.tables.grants[volume.grant].state in EXISTING and volume.state in ON_DISK
        return volume if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Report):
    """The volume exists. A late report changes nothing if the volume is gone, or is being removed."""

    path: str = ""
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def decide(self, draft: Draft) -> None:
        tables, tried = draft.tables, find_tried_disk(draft, self.caller.node, self.volume)
        if tried is not None:
            self.require_agent(tried.node)
            resume_disk(draft, tried, "its agent could make a volume there again")
            return
        volume = self._find_volume(draft)
        if volume is None or volume.state is not VolumeState.MAKING:
            return
        grant = tables.grants[volume.grant]
        if grant.state is State.RELEASING:
            return
        if grant.ask.is_shared and not self.settings:
            old = f"the agent of node {volume.node} is too old to run data servers; upgrade it"
            NotMade(caller=self.caller, volume=self.volume, number=self.number, because=old).decide(draft)
            return
        place = {"path": self.path, "device": self.device}
        settings, number = dict(self.settings), self.number
        draft.emit(ev.VolumeMade(at=draft.now, volume=volume.name, settings=settings, report=number, **place))
        if grant.state is State.MAKING:
            resume_disk(draft, tables.disks[volume.disk], f"its agent made volume {volume.name} there")
            if all(each.state is VolumeState.MADE for each in tables.volumes_of(grant)):
                draft.emit(ev.Ready(at=draft.now, grant=grant.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade(Report):
    """The volume could not be made. `fault` is the disk, a lack of room on it, or the request."""

    because: str
    fault: Fault = "disk"

    def decide(self, draft: Draft) -> None:
        """Make it on another disk, or queue the grant until one has room, or else fail it.

        A volume that was whole and cannot be repaired is lost.
        """
        tried = find_tried_disk(draft, self.caller.node, self.volume)
        if tried is not None:
            self.require_agent(tried.node)
            fail_trial(draft, tried, self.because)
            return
        volume = self._find_volume(draft)
        if volume is None or volume.state is not VolumeState.MAKING:
            return
        tables, because = draft.tables, self.because
        grant = tables.grants[volume.grant]
        if grant.state is State.RELEASING:
            return
        if grant.state is not State.MAKING:
            lose_volume(draft, volume, Because(Reason.NOT_REPAIRED, because), self.number)
            _note_stray(draft, volume, self.number)  # remains of it may be on the disk
            return
        if self.fault == "disk":
            note_failure(draft, volume, grant.ask, because)
        disk = find_other_disk(tables, grant, volume, draft.now)
        if disk is not None:
            number = self.number
            draft.emit(ev.VolumeMoved(at=draft.now, volume=volume.name, disk=disk, because=because, report=number))
            _note_stray(draft, volume, number)  # remains of it may be on the old disk
            return
        if self.fault != "request" and self._queue_again(draft, grant, volume):
            return
        disks = len(volume.failed) + 1
        more = f"tried on {disks} disks" if disks > 1 else "no other disk has room for it"
        text = f"volume {volume.name} on {volume.disk} could not be made: {because}"
        draft.notify_owner(grant, text)
        draft.release(grant, State.FAILED, Because(Reason.NOT_MADE, f"{text}; {more}"))

    def _queue_again(self, draft: Draft, grant: Grant, volume: Volume) -> bool:
        """Whether it waits for other disks; what there is of its volumes is removed, and new ones have new names."""
        tables, now = draft.tables, draft.now
        failed = tuple(dict.fromkeys((*grant.avoids, *volume.failed, volume.disk)))
        is_extended = grant.end > grant.start + grant.ask.seconds  # which would be taken back
        is_last_try = grant.tried + 1 >= tables.rules.tries or len(failed) >= MOST_DISKS
        if is_extended or is_last_try or explain_impossible(tables, grant.ask, failed):
            return False
        text = f"volume {volume.name} could not be made on {volume.disk}: {self.because}"
        volumes = [each for each in tables.volumes_of(grant) if each.state in ON_DISK]
        draft.emit(
            ev.Queued(
                at=now, grant=grant.id, because=f"no room on another disk now; {text}", reason=Reason.NO_ROOM,
                until=now + tables.rules.interval, tried=grant.tried + 1, first=grant.first + grant.volumes,
                avoids=failed,
            )
        )  # fmt: skip
        draft.notify_owner(grant, f"it waits for room on another disk: {text}")
        for each in volumes:
            _note_stray(draft, each, self.number if each.node == volume.node else 0)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Report):
    """The volume no longer exists."""

    because: str

    def decide(self, draft: Draft) -> None:
        volume = self._find_volume(draft)
        if volume is not None:
            lose_volume(draft, volume, Because(Reason.REPORTED, self.because), self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone(Report):
    """The volume was removed from the disk, and its space is free. A volume that should have stayed is lost."""

    def decide(self, draft: Draft) -> None:
        stray = draft.tables.strays.get(stray_key(f"{self.caller.node}/{self.disk}", self.volume))
        if stray is not None:
            self.require_agent(self.caller.node)
            draft.emit(ev.StrayGone(at=draft.now, stray=stray, report=self.number))
            return
        volume = self._find_volume(draft)
        if volume is None:
            return
        if draft.tables.grants[volume.grant].state is State.RELEASING:
            draft.emit(ev.VolumeGone(at=draft.now, volume=volume.name, report=self.number))
            draft.finish(volume.grant)
        else:
            why = Because(Reason.REMOVED, "something other than Forebay removed it")
            lose_volume(draft, volume, why, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck(Report):
    """Several tries to remove the volume failed. Its grant ends, and the volume holds its space until it is gone."""

    because: str

    def decide(self, draft: Draft) -> None:
        stray = draft.tables.strays.get(stray_key(f"{self.caller.node}/{self.disk}", self.volume))
        if stray is not None:
            self.require_agent(self.caller.node)
            if not stray.because:
                stray = replace(stray, because=self.because)
                draft.emit(ev.Strayed(at=draft.now, stray=stray, report=self.number))
            return
        volume = self._find_volume(draft)
        if volume is None or draft.tables.grants[volume.grant].state is not State.RELEASING:
            return
        because, number = self.because, self.number
        draft.emit(ev.VolumeStuck(at=draft.now, volume=volume.name, because=because, report=number))
        _note_stray(draft, volume, number, because=because)
        draft.finish(volume.grant)


def _was_on(draft: Draft, volume: Volume, node: str) -> bool:
    """Whether late reports may come from there: it could not be made there, or another journal may have placed it."""
    known = draft.tables.nodes.get(node)
    return node in map(node_of, volume.failed) or (known is not None and known.doubted > 0)


def _note_stray(draft: Draft, volume: Volume | FoundVolume, number: int, disk: str = "", because: str = "") -> None:
    disk = disk or volume.disk
    if stray_key(disk, volume.name) in draft.tables.strays:
        return
    grant = draft.tables.grants.get(volume.name.partition(".")[0])
    held = draft.tables.is_kept(node_of(disk), grant)
    about: dict[str, Any] = {}
    if isinstance(volume, FoundVolume):
        about = {name: getattr(volume, name) for name in _MARKED}
    elif grant is not None:
        ask = grant.ask
        about = {"uid": ask.uid, "gid": ask.gid, "mode": ask.mode, "since": grant.start, "path": volume.path}
    stray = Stray(name=volume.name, disk=disk, size=volume.size, held=held, because=because, **about)
    draft.emit(ev.Strayed(at=draft.now, stray=stray, report=number))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVolume(Stray):
    """A volume that an agent found: a stray, unless a grant owns it. `disk` is without its node's name."""

    whole: bool = True  # it is complete, mounted and exposed
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(NodeCommand):
    """All volumes with Forebay's mark on a node's disks. After this report, the agent gets its actions again."""

    number: int
    volumes: tuple[FoundVolume, ...]

    def decide(self, draft: Draft) -> None:
        self.require_agent(self.node)
        if self.node not in draft.tables.nodes:
            raise BadInput(f"node {self.node}", "must register its disks first")
        if self.number >= draft.tables.nodes[self.node].report:
            self.reconcile(draft)

    def reconcile(self, draft: Draft) -> None:
        """Compare the volumes that exist with those that should. The report is not older than the last one."""
        tables, there = draft.tables, {}
        for at, each in enumerate(self.volumes):
            disk = tables.disks.get(f"{self.node}/{each.disk}")
            if disk is None or not disk.there:
                raise BadInput(f"node {self.node}: volume[{at}]", f"disk {each.disk!r} is not registered")
            if not 0 <= each.size < 2**62:
                raise BadInput(f"node {self.node}: volume[{at}]", f"size must not be negative, not {each.size}")
            there[stray_key(disk.key, each.name)] = each
        if self.number > tables.nodes[self.node].report:
            draft.emit(ev.Reported(at=draft.now, node=self.node, report=self.number))
        for key, each in there.items():
            _reconcile_found(draft, key, each, self)
        unseen = {disk.key for disk in tables.disks_of(self.node) if disk.unseen}
        for volume in tables.on_node(self.node):
            if stray_key(volume.disk, volume.name) not in there and volume.disk not in unseen:
                _reconcile_missing(draft, volume.name, self.number)
        for stray in tables.strays_on(self.node):
            if stray.key not in there and stray.disk not in unseen:
                draft.emit(ev.StrayGone(at=draft.now, stray=stray, report=self.number))


def _reconcile_found(draft: Draft, key: str, each: FoundVolume, command: Found) -> None:
    """Mark a volume that exists as made, to be repaired, or to be removed."""
    disk = f"{command.node}/{each.disk}"
    volume = draft.tables.volumes.get(each.name)
    if volume is not None and draft.tables.grants[volume.grant].ask.is_shared and not each.settings:
        each = replace(each, whole=False)  # the agent has lost its plan of the data server
    tried = find_tried_disk(draft, command.node, each.name)
    if tried is not None and tried.key == disk:
        if each.whole:
            resume_disk(draft, tried, "its agent could make a volume there again")
    elif volume is None or volume.disk != disk or not _belongs(draft, volume, key):
        _note_stray(draft, each, command.number, disk)
    elif draft.tables.grants[volume.grant].state is not State.RELEASING:
        if volume.state is not VolumeState.MAKING and (volume.state is VolumeState.LOST or not each.whole):
            because = "its agent found it incomplete" if volume.state is VolumeState.MADE else "it was found again"
            draft.emit(ev.VolumeHalf(at=draft.now, volume=volume.name, because=because, report=command.number))
        if each.whole:
            Made(
                caller=command.caller, number=command.number, volume=each.name, disk=each.disk, path=each.path,
                device=each.device, settings=each.settings,
            ).decide(draft)  # fmt: skip


def _belongs(draft: Draft, volume: Volume, key: str) -> bool:
    """Whether a grant still owns a volume. A live grant takes a lost volume back if its space is free."""
    grant, tables = draft.tables.grants[volume.grant], draft.tables
    if volume.state is not VolumeState.LOST:
        return volume.state in ON_DISK and grant.state in EXISTING
    alive = grant.state in (State.READY, State.IN_USE) and key not in tables.strays
    return alive and tables.space.free(volume.disk) >= volume.size


def _reconcile_missing(draft: Draft, name: str, number: int) -> None:
    """Count a complete volume that its agent did not find as lost.

    A volume that is to be made may not exist yet. A volume that is to be removed may have been made after the agent
    looked; the agent reports its removal later. But no agent is asked to remove a kept volume, so no report follows.
    """
    volume = draft.tables.volumes[name]
    grant = draft.tables.grants[volume.grant]
    if grant.state is State.RELEASING:
        is_lost = volume.state in ON_DISK and draft.tables.is_kept(volume.node, grant)
    else:
        is_lost = volume.state is VolumeState.MADE and grant.state in EXISTING
    if is_lost:
        lose_volume(draft, volume, Because(Reason.NOT_FOUND, "its agent did not find it"), number)
