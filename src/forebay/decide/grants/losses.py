"""Lost volumes, and disks that are lost or became smaller: which grants fail, wait again, or go on."""

from forebay.decide.grants import events as ev
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import LiveDisk
from forebay.model.grant import EXISTING, ON_DISK, Grant, State, Volume
from forebay.model.reasons import Because, Reason
from forebay.model.units import format_size


def lose_volume(draft: Draft, volume: Volume, why: Because, report: int = 0) -> None:
    """Record that a volume is lost. A grant that is being made fails; a grant in use keeps its other volumes.

    A shared file system fails: each of its files has stripes on several volumes.
    """
    tables = draft.tables
    grant = tables.grants[volume.grant]
    if grant.state is State.RELEASING:  # its owner no longer needs it
        draft.emit(ev.VolumeGone(at=draft.now, volume=volume.name, report=report))
        draft.finish(grant.id)
        return
    event = ev.VolumeLost(at=draft.now, volume=volume.name, because=why.text, reason=why.reason, report=report)
    draft.emit(event)
    draft.notify_owner(grant, f"volume {volume.name} is lost: {why.text}")
    is_useless = grant.ask.is_shared or not any(v.state in ON_DISK for v in tables.volumes_of(grant))
    if grant.state is State.MAKING or is_useless:
        because = f"volume {volume.name} was lost: {why.text}"
        draft.release(grant, State.FAILED, Because(Reason.VOLUME_LOST, because))


def lose_disk(draft: Draft, disk: LiveDisk, why: Because) -> None:
    """Record that a disk is lost, with everything on it."""
    tables = draft.tables
    draft.emit(ev.DiskVanished(at=draft.now, disk=disk.key, because=why.text, reason=why.reason))
    for stray in tables.strays_on(disk.node):
        if stray.disk == disk.key:
            draft.emit(ev.StrayGone(at=draft.now, stray=stray))
    for volume in tables.on_disk(disk.key):
        grant = tables.grants[volume.grant]
        if grant.state is State.GRANTED:
            _queue_again(draft, grant, why)
        elif volume.name in tables.volumes and tables.volumes[volume.name].state in ON_DISK:
            lose_volume(draft, volume, why)


def _queue_again(draft: Draft, grant: Grant, why: Because) -> None:
    """Put a grant without volumes back into the queue, and retry it at once."""
    until = draft.now + draft.tables.rules.interval
    draft.emit(
        ev.Queued(
            at=draft.now, grant=grant.id, because=why.text, reason=why.reason, until=until, tried=0,
            first=grant.first, avoids=grant.avoids,
        )
    )  # fmt: skip
    draft.notify_owner(grant, f"the grant is back in the queue: {why.text}")
    draft.frees_space = True


def shrink_disk(draft: Draft, disk: LiveDisk) -> None:
    """Handle a disk that became smaller: place planned grants that no longer fit again, the newest first.

    Existing volumes stay, because only the agent knows which are intact. Their owners are notified.
    """
    tables = draft.tables
    planned = {v.grant for v in tables.on_disk(disk.key) if tables.grants[v.grant].state is State.GRANTED}
    for name in sorted(planned, key=lambda name: -tables.grants[name].order):
        if tables.space.free(disk.key) < 0:
            why = Because(Reason.DISK_SMALLER, f"disk {disk.key} became smaller")
            _queue_again(draft, tables.grants[name], why)
    if tables.space.free(disk.key) < 0:
        text = f"disk {disk.key} shrank to {format_size(disk.spec.capacity)}, less than its volumes need"
        notify_owners_on(draft, tables.on_disk(disk.key), text, EXISTING)


def notify_owners_on(draft: Draft, volumes: list[Volume], text: str, states: frozenset[State]) -> None:
    """Notify the owners of these volumes, if their grants are in one of these states and not being released."""
    for name in sorted({volume.grant for volume in volumes}):
        grant = draft.tables.grants[name]
        if grant.state in states - {State.RELEASING}:
            draft.notify_owner(grant, text)
