"""Volumes and disks that are lost, and what that means for the grants."""

from __future__ import annotations

from forebay.decide.grants import events as ev
from forebay.decide.grants.desk import Desk
from forebay.decide.grants.machine import LiveDisk
from forebay.decide.grants.space import ALWAYS, FOREVER
from forebay.model.grant import EXISTING, ON_DISK, Grant, State, Volume
from forebay.model.units import format_size


def lose(desk: Desk, volume: Volume, because: str, report: int = 0) -> None:
    """A volume is not there any more. A grant that is still being made fails; one in use keeps what it has left."""
    tables = desk.tables
    grant = tables.grants[volume.grant]
    if grant.state is State.RELEASING:  # it was not wanted any more
        desk.emit(ev.VolumeGone(at=desk.now, volume=volume.name, report=report))
        desk.finish(grant.id)
        return
    desk.emit(ev.VolumeLost(at=desk.now, volume=volume.name, because=because, report=report))
    desk.tell(grant, f"volume {volume.name} is lost: {because}")
    if grant.state is State.MAKING or not any(v.state in ON_DISK for v in tables.volumes_of(grant)):
        desk.release(grant, State.FAILED, f"volume {volume.name} was lost: {because}")


def vanish(desk: Desk, disk: LiveDisk, because: str) -> None:
    """A disk is not there any more, nor is anything that was on it."""
    tables = desk.tables
    desk.emit(ev.DiskVanished(at=desk.now, disk=disk.key, because=because))
    for stray in tables.strays_on(disk.node):
        if stray.disk == disk.key:
            desk.emit(ev.StrayGone(at=desk.now, stray=stray))
    for volume in tables.on_disk(disk.key):
        grant = tables.grants[volume.grant]
        if grant.state is State.GRANTED:
            put_back(desk, grant, because)
        elif volume.name in tables.volumes and tables.volumes[volume.name].state in ON_DISK:
            lose(desk, volume, because)


def put_back(desk: Desk, grant: Grant, because: str) -> None:
    """Nothing was made for it yet: it goes back into the queue, and is tried at once."""
    until = desk.now + desk.tables.rules.interval
    desk.emit(ev.Queued(at=desk.now, grant=grant.id, because=because, until=until, tried=0))
    desk.tell(grant, f"it is placed anew: {because}")
    desk.freed = True


def shrink(desk: Desk, disk: LiveDisk) -> None:
    """A disk has become smaller: what is planned and does not fit any more is placed anew, the last first.

    What is there already stays, as nobody but its agent knows what is still whole; those whose it is are told.
    """
    tables = desk.tables
    planned = {v.grant for v in tables.on_disk(disk.key) if tables.grants[v.grant].state is State.GRANTED}
    for name in sorted(planned, key=lambda name: -tables.grants[name].order):
        if tables.space.free(disk.key, ALWAYS, FOREVER) < 0:
            put_back(desk, tables.grants[name], f"disk {disk.key} has become smaller")
    if tables.space.free(disk.key, ALWAYS, FOREVER) < 0:
        words = f"disk {disk.key} has only {format_size(disk.said.capacity)} left, less than it holds"
        for name in sorted({v.grant for v in tables.on_disk(disk.key)}):
            if tables.grants[name].state in EXISTING - {State.RELEASING}:
                desk.tell(tables.grants[name], words)
