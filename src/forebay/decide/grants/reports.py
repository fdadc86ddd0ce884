"""What agents report, in whatever order and however often it arrives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands import Found, FoundVolume, Gone, Lost, Made, NotMade, Report, Stuck, only_agent_of
from forebay.decide.grants.desk import Desk
from forebay.decide.grants.judging import find_other_disk
from forebay.decide.grants.losing import lose
from forebay.decide.grants.machine import Stray
from forebay.decide.grants.space import ALWAYS, FOREVER
from forebay.decide.grants.suspensions import fail_trial, find_tried_disk, note_failure, resume, tried_disk
from forebay.model.errors import BadInput
from forebay.model.grant import EXISTING, ON_DISK, State, Volume, VolumeState, node_of


def _of(desk: Desk, command: Report) -> Volume | None:
    """The volume, if it is one that may be there; only its own node's agent may speak of it.

    Of a disk on which it could not be made, reports may come late.
    """
    volume, node = desk.tables.volumes.get(command.volume), command.caller.node
    if volume is None or (volume.node != node and node in map(node_of, volume.failed)):
        only_agent_of(command, node)
        return None
    only_agent_of(command, volume.node)
    if command.disk and volume.disk != f"{node}/{command.disk}":
        return None
    known = desk.tables.grants[volume.grant].state in EXISTING and volume.state in ON_DISK
    return volume if known else None


def made(desk: Desk, command: Made) -> None:
    """One that is to be removed meanwhile, or is gone already, is not made by a late report."""
    tried = tried_disk(desk, command)
    if tried is not None:
        resume(desk, tried, "a volume could be made there again")
        return
    volume = _of(desk, command)
    if volume is None or desk.tables.grants[volume.grant].state is State.RELEASING:
        return
    _note_made(desk, volume, command.path, command.device, dict(command.settings), command.number)


def _note_made(desk: Desk, volume: Volume, path: str, device: str, settings: dict[str, str], number: int) -> None:
    if volume.state is not VolumeState.MAKING:
        return
    where = {"path": path, "device": device}
    desk.emit(ev.VolumeMade(at=desk.now, volume=volume.name, settings=settings, report=number, **where))
    grant = desk.tables.grants[volume.grant]
    if grant.state is State.MAKING:
        resume(desk, desk.tables.disks[volume.disk], f"volume {volume.name} could be made there")
    if grant.state is State.MAKING and all(v.state is VolumeState.MADE for v in desk.tables.volumes_of(grant)):
        desk.emit(ev.Ready(at=desk.now, grant=grant.id))


def not_made(desk: Desk, command: NotMade) -> None:
    """It is made on another disk, or else the grant fails. Where something whole can't be mended, that is lost."""
    tried = tried_disk(desk, command)
    if tried is not None:
        fail_trial(desk, tried, command.because)
        return
    volume = _of(desk, command)
    if volume is None or volume.state is not VolumeState.MAKING:
        return
    grant = desk.tables.grants[volume.grant]
    because = f"volume {volume.name} on {volume.disk} could not be made: {command.because}"
    if grant.state is State.MAKING:
        if command.fault == "disk":
            note_failure(desk, volume, grant.ask, command.because)
        if not _make_elsewhere(desk, volume, command):
            disks = len(volume.failed) + 1
            more = f"tried on {disks} disks" if disks > 1 else "no other disk has room for it"
            desk.tell(grant, because)
            desk.release(grant, State.FAILED, f"{because}; {more}")
    elif grant.state is not State.RELEASING:
        lose(desk, volume, command.because, command.number)
        _note_stray(desk, volume, command.number)  # some of it may be there


def _make_elsewhere(desk: Desk, volume: Volume, command: NotMade) -> bool:
    """Have it made on another disk, if one has the room; whether that is so."""
    disk = find_other_disk(desk.tables, desk.tables.grants[volume.grant], volume, desk.now)
    if disk is None:
        return False
    because, number = command.because, command.number
    desk.emit(ev.VolumeMoved(at=desk.now, volume=volume.name, disk=disk, because=because, report=number))
    _note_stray(desk, volume, command.number)  # some of it may be there
    return True


def _note_stray(
    desk: Desk, volume: Volume | FoundVolume, number: int, disk: str = "", because: str = ""
) -> None:  # fmt: skip
    disk = disk or volume.disk
    if f"{disk} {volume.name}" in desk.tables.strays:
        return
    grant = desk.tables.grants.get(volume.name.partition(".")[0])
    held = desk.tables.is_kept(node_of(disk), grant)
    about: dict[str, Any] = {}
    if isinstance(volume, FoundVolume):
        about = {name: getattr(volume, name) for name in _MARKED}
    elif grant is not None:
        ask = grant.ask
        about = {"uid": ask.uid, "gid": ask.gid, "mode": ask.mode, "since": grant.start, "path": volume.path}
    stray = Stray(name=volume.name, disk=disk, size=volume.size, held=held, because=because, **about)
    desk.emit(ev.Strayed(at=desk.now, stray=stray, report=number))


_MARKED = ("uid", "gid", "mode", "ceiling", "since", "path")


def lost(desk: Desk, command: Lost) -> None:
    volume = _of(desk, command)
    if volume is not None:
        lose(desk, volume, command.because, command.number)


def gone(desk: Desk, command: Gone) -> None:
    """Its space is free. What nobody had asked to be removed is lost."""
    stray = desk.tables.strays.get(f"{command.caller.node}/{command.disk} {command.volume}")
    if stray is not None:
        only_agent_of(command, command.caller.node)
        desk.emit(ev.StrayGone(at=desk.now, stray=stray, report=command.number))
        return
    volume = _of(desk, command)
    if volume is None:
        return
    if desk.tables.grants[volume.grant].state is State.RELEASING:
        desk.emit(ev.VolumeGone(at=desk.now, volume=volume.name, report=command.number))
        desk.finish(volume.grant)
    else:
        lose(desk, volume, "it was removed, and not by Forebay", command.number)


def stuck(desk: Desk, command: Stuck) -> None:
    """A grant whose volume can't be removed ends all the same; the volume holds its space until it is gone."""
    stray = desk.tables.strays.get(f"{command.caller.node}/{command.disk} {command.volume}")
    if stray is not None:
        only_agent_of(command, command.caller.node)
        if not stray.because:
            told = replace(stray, because=command.because)
            desk.emit(ev.Strayed(at=desk.now, stray=told, report=command.number))
        return
    volume = _of(desk, command)
    if volume is None or desk.tables.grants[volume.grant].state is not State.RELEASING:
        return
    because, number = command.because, command.number
    desk.emit(ev.VolumeStuck(at=desk.now, volume=volume.name, because=because, report=number))
    _note_stray(desk, volume, command.number, because=command.because)
    desk.finish(volume.grant)


def found(desk: Desk, command: Found) -> None:
    """Reconcile what an agent finds on its disks with what should be there, both ways."""
    only_agent_of(command, command.node)
    tables = desk.tables
    if command.node not in tables.nodes:
        raise BadInput(f"node {command.node}", "must register its disks first")
    if command.number >= tables.nodes[command.node].report:
        reconcile(desk, command)


def reconcile(desk: Desk, command: Found) -> None:
    """Do so for a report that is not older than what its agent told already."""
    tables = desk.tables
    there = _by_place(desk, command)
    if command.number > tables.nodes[command.node].report:
        desk.emit(ev.Reported(at=desk.now, node=command.node, report=command.number))
    for key, each in there.items():
        _reconcile_found(desk, key, each, command)
    unseen = {disk.key for disk in tables.disks.values() if disk.node == command.node and disk.unseen}
    for volume in tables.on_node(command.node):
        if f"{volume.disk} {volume.name}" not in there and volume.disk not in unseen:
            _reconcile_missing(desk, volume.name, command.number)
    for stray in tables.strays_on(command.node):
        if stray.key not in there and stray.disk not in unseen:
            desk.emit(ev.StrayGone(at=desk.now, stray=stray, report=command.number))


def _by_place(desk: Desk, command: Found) -> dict[str, FoundVolume]:
    there: dict[str, FoundVolume] = {}
    for at, each in enumerate(command.volumes):
        disk = desk.tables.disks.get(f"{command.node}/{each.disk}")
        if disk is None or not disk.there:
            raise BadInput(f"node {command.node}: volume[{at}]", f"disk {each.disk!r} is not registered")
        if not 0 <= each.size < 2**62:
            raise BadInput(f"node {command.node}: volume[{at}]", f"size must not be negative, not {each.size}")
        there[f"{disk.key} {each.name}"] = each
    return there


def _reconcile_found(desk: Desk, key: str, each: FoundVolume, command: Found) -> None:
    """Whole or half, wanted or not: what is there is finished, mended, or to be removed."""
    disk = f"{command.node}/{each.disk}"
    volume = desk.tables.volumes.get(each.name)
    tried = find_tried_disk(desk, command.node, each.name)
    if tried is not None and tried.key == disk:
        if each.whole:
            resume(desk, tried, "a volume could be made there again")
    elif volume is None or volume.disk != disk or not _belongs(desk, volume, key):
        _note_stray(desk, each, command.number, disk)
    elif desk.tables.grants[volume.grant].state is not State.RELEASING:
        if volume.state is not VolumeState.MAKING and (volume.state is VolumeState.LOST or not each.whole):
            because = "its agent found only a part of it" if volume.state is VolumeState.MADE else "it is there again"
            desk.emit(ev.VolumeHalf(at=desk.now, volume=volume.name, because=because, report=command.number))
        if each.whole:
            now = desk.tables.volumes[volume.name]
            _note_made(desk, now, each.path, each.device, dict(each.settings), command.number)


def _belongs(desk: Desk, volume: Volume, key: str) -> bool:
    """Whether a grant still wants it. What was given up for lost is wanted again while others of its grant live."""
    grant, tables = desk.tables.grants[volume.grant], desk.tables
    if volume.state is not VolumeState.LOST:
        return volume.state in ON_DISK and grant.state in EXISTING
    alive = grant.state in (State.READY, State.IN_USE) and key not in tables.strays
    return alive and tables.space.free(volume.disk, ALWAYS, FOREVER) >= volume.size


def _reconcile_missing(desk: Desk, name: str, number: int) -> None:
    """What was whole is lost.

    What is to be made may not be there yet. Nor is it a proof that something is gone for good which is to be
    removed: its agent may have made it since it looked, and will say so when it has removed it. But what is kept
    nobody is asked to remove, so nobody will say so.
    """
    volume = desk.tables.volumes[name]
    grant = desk.tables.grants[volume.grant]
    if grant.state is State.RELEASING:
        is_lost = volume.state in ON_DISK and desk.tables.is_kept(volume.node, grant)
    else:
        is_lost = volume.state is VolumeState.MADE and grant.state in EXISTING
    if is_lost:
        lose(desk, volume, "its agent can't find it", number)
