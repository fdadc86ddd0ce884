"""What agents report, in whatever order and however often it arrives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands import Found, FoundVolume, Gone, Lost, Made, NotMade, Report, Stuck, require_agent
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.losses import lose_volume
from forebay.decide.grants.machine import Stray
from forebay.decide.grants.placement import find_other_disk
from forebay.decide.grants.space import ALWAYS, FOREVER
from forebay.decide.grants.suspensions import disk_on_trial, fail_trial, find_tried_disk, note_failure, resume_disk
from forebay.model.errors import BadInput
from forebay.model.grant import EXISTING, ON_DISK, State, Volume, VolumeState, node_of
from forebay.model.reasons import Because, Reason


def _find_volume(draft: Draft, command: Report) -> Volume | None:
    """The volume, if it is one that may be there; only its own node's agent may speak of it.

    Of a disk on which it could not be made, reports may come late.
    """
    volume, node = draft.tables.volumes.get(command.volume), command.caller.node
    if volume is None or (volume.node != node and node in map(node_of, volume.failed)):
        require_agent(command, node)
        return None
    require_agent(command, volume.node)
    if command.disk and volume.disk != f"{node}/{command.disk}":
        return None
    known = draft.tables.grants[volume.grant].state in EXISTING and volume.state in ON_DISK
    return volume if known else None


def note_made(draft: Draft, command: Made) -> None:
    """One that is to be removed meanwhile, or is gone already, is not made by a late report."""
    tried = disk_on_trial(draft, command)
    if tried is not None:
        resume_disk(draft, tried, "a volume could be made there again")
        return
    volume = _find_volume(draft, command)
    if volume is None or draft.tables.grants[volume.grant].state is State.RELEASING:
        return
    _mark_made(draft, volume, command.path, command.device, dict(command.settings), command.number)


def _mark_made(draft: Draft, volume: Volume, path: str, device: str, settings: dict[str, str], number: int) -> None:
    if volume.state is not VolumeState.MAKING:
        return
    where = {"path": path, "device": device}
    draft.emit(ev.VolumeMade(at=draft.now, volume=volume.name, settings=settings, report=number, **where))
    grant = draft.tables.grants[volume.grant]
    if grant.state is State.MAKING:
        resume_disk(draft, draft.tables.disks[volume.disk], f"volume {volume.name} could be made there")
    if grant.state is State.MAKING and all(v.state is VolumeState.MADE for v in draft.tables.volumes_of(grant)):
        draft.emit(ev.Ready(at=draft.now, grant=grant.id))


def note_not_made(draft: Draft, command: NotMade) -> None:
    """It is made on another disk, or else the grant fails. Where something whole can't be mended, that is lost."""
    tried = disk_on_trial(draft, command)
    if tried is not None:
        fail_trial(draft, tried, command.because)
        return
    volume = _find_volume(draft, command)
    if volume is None or volume.state is not VolumeState.MAKING:
        return
    grant = draft.tables.grants[volume.grant]
    because = f"volume {volume.name} on {volume.disk} could not be made: {command.because}"
    if grant.state is State.MAKING:
        if command.fault == "disk":
            note_failure(draft, volume, grant.ask, command.because)
        if not _make_elsewhere(draft, volume, command):
            disks = len(volume.failed) + 1
            more = f"tried on {disks} disks" if disks > 1 else "no other disk has room for it"
            draft.notify_owner(grant, because)
            draft.release(grant, State.FAILED, Because(Reason.NOT_MADE, f"{because}; {more}"))
    elif grant.state is not State.RELEASING:
        lose_volume(draft, volume, Because(Reason.NOT_REPAIRED, command.because), command.number)
        _note_stray(draft, volume, command.number)  # some of it may be there


def _make_elsewhere(draft: Draft, volume: Volume, command: NotMade) -> bool:
    """Have it made on another disk, if one has the room; whether that is so."""
    disk = find_other_disk(draft.tables, draft.tables.grants[volume.grant], volume, draft.now)
    if disk is None:
        return False
    because, number = command.because, command.number
    draft.emit(ev.VolumeMoved(at=draft.now, volume=volume.name, disk=disk, because=because, report=number))
    _note_stray(draft, volume, command.number)  # some of it may be there
    return True


def _note_stray(
    draft: Draft, volume: Volume | FoundVolume, number: int, disk: str = "", because: str = ""
) -> None:  # fmt: skip
    disk = disk or volume.disk
    if f"{disk} {volume.name}" in draft.tables.strays:
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


_MARKED = ("uid", "gid", "mode", "ceiling", "since", "path")


def note_lost(draft: Draft, command: Lost) -> None:
    volume = _find_volume(draft, command)
    if volume is not None:
        lose_volume(draft, volume, Because(Reason.REPORTED, command.because), command.number)


def note_gone(draft: Draft, command: Gone) -> None:
    """Its space is free. What nobody had asked to be removed is lost."""
    stray = draft.tables.strays.get(f"{command.caller.node}/{command.disk} {command.volume}")
    if stray is not None:
        require_agent(command, command.caller.node)
        draft.emit(ev.StrayGone(at=draft.now, stray=stray, report=command.number))
        return
    volume = _find_volume(draft, command)
    if volume is None:
        return
    if draft.tables.grants[volume.grant].state is State.RELEASING:
        draft.emit(ev.VolumeGone(at=draft.now, volume=volume.name, report=command.number))
        draft.finish(volume.grant)
    else:
        why = Because(Reason.REMOVED, "something other than Forebay removed it")
        lose_volume(draft, volume, why, command.number)


def note_stuck(draft: Draft, command: Stuck) -> None:
    """A grant whose volume can't be removed ends all the same; the volume holds its space until it is gone."""
    stray = draft.tables.strays.get(f"{command.caller.node}/{command.disk} {command.volume}")
    if stray is not None:
        require_agent(command, command.caller.node)
        if not stray.because:
            stray = replace(stray, because=command.because)
            draft.emit(ev.Strayed(at=draft.now, stray=stray, report=command.number))
        return
    volume = _find_volume(draft, command)
    if volume is None or draft.tables.grants[volume.grant].state is not State.RELEASING:
        return
    because, number = command.because, command.number
    draft.emit(ev.VolumeStuck(at=draft.now, volume=volume.name, because=because, report=number))
    _note_stray(draft, volume, command.number, because=command.because)
    draft.finish(volume.grant)


def note_found(draft: Draft, command: Found) -> None:
    """Reconcile what an agent finds on its disks with what should be there, both ways."""
    require_agent(command, command.node)
    tables = draft.tables
    if command.node not in tables.nodes:
        raise BadInput(f"node {command.node}", "must register its disks first")
    if command.number >= tables.nodes[command.node].report:
        reconcile(draft, command)


def reconcile(draft: Draft, command: Found) -> None:
    """Do so for a report that is not older than what its agent told already."""
    tables = draft.tables
    there = _by_place(draft, command)
    if command.number > tables.nodes[command.node].report:
        draft.emit(ev.Reported(at=draft.now, node=command.node, report=command.number))
    for key, each in there.items():
        _reconcile_found(draft, key, each, command)
    unseen = {disk.key for disk in tables.disks.values() if disk.node == command.node and disk.unseen}
    for volume in tables.on_node(command.node):
        if f"{volume.disk} {volume.name}" not in there and volume.disk not in unseen:
            _reconcile_missing(draft, volume.name, command.number)
    for stray in tables.strays_on(command.node):
        if stray.key not in there and stray.disk not in unseen:
            draft.emit(ev.StrayGone(at=draft.now, stray=stray, report=command.number))


def _by_place(draft: Draft, command: Found) -> dict[str, FoundVolume]:
    there: dict[str, FoundVolume] = {}
    for at, each in enumerate(command.volumes):
        disk = draft.tables.disks.get(f"{command.node}/{each.disk}")
        if disk is None or not disk.there:
            raise BadInput(f"node {command.node}: volume[{at}]", f"disk {each.disk!r} is not registered")
        if not 0 <= each.size < 2**62:
            raise BadInput(f"node {command.node}: volume[{at}]", f"size must not be negative, not {each.size}")
        there[f"{disk.key} {each.name}"] = each
    return there


def _reconcile_found(draft: Draft, key: str, each: FoundVolume, command: Found) -> None:
    """Whole or half, wanted or not: what is there is finished, mended, or to be removed."""
    disk = f"{command.node}/{each.disk}"
    volume = draft.tables.volumes.get(each.name)
    tried = find_tried_disk(draft, command.node, each.name)
    if tried is not None and tried.key == disk:
        if each.whole:
            resume_disk(draft, tried, "a volume could be made there again")
    elif volume is None or volume.disk != disk or not _belongs(draft, volume, key):
        _note_stray(draft, each, command.number, disk)
    elif draft.tables.grants[volume.grant].state is not State.RELEASING:
        if volume.state is not VolumeState.MAKING and (volume.state is VolumeState.LOST or not each.whole):
            because = "its agent found only a part of it" if volume.state is VolumeState.MADE else "it is there again"
            draft.emit(ev.VolumeHalf(at=draft.now, volume=volume.name, because=because, report=command.number))
        if each.whole:
            now = draft.tables.volumes[volume.name]
            _mark_made(draft, now, each.path, each.device, dict(each.settings), command.number)


def _belongs(draft: Draft, volume: Volume, key: str) -> bool:
    """Whether a grant still wants it. What was given up for lost is wanted again while others of its grant live."""
    grant, tables = draft.tables.grants[volume.grant], draft.tables
    if volume.state is not VolumeState.LOST:
        return volume.state in ON_DISK and grant.state in EXISTING
    alive = grant.state in (State.READY, State.IN_USE) and key not in tables.strays
    return alive and tables.space.free(volume.disk, ALWAYS, FOREVER) >= volume.size


def _reconcile_missing(draft: Draft, name: str, number: int) -> None:
    """What was whole is lost.

    What is to be made may not be there yet. Nor is it a proof that something is gone for good which is to be
    removed: its agent may have made it since it looked, and will say so when it has removed it. But what is kept
    nobody is asked to remove, so nobody will say so.
    """
    volume = draft.tables.volumes[name]
    grant = draft.tables.grants[volume.grant]
    if grant.state is State.RELEASING:
        is_lost = volume.state in ON_DISK and draft.tables.is_kept(volume.node, grant)
    else:
        is_lost = volume.state is VolumeState.MADE and grant.state in EXISTING
    if is_lost:
        lose_volume(draft, volume, Because(Reason.NOT_FOUND, "its agent does not find it"), number)
