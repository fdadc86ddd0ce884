"""Failures: lost volumes, lost disks, and disks on which volumes cannot be made.

A disk on which volumes fail is suspended: it gets no new grants until the agent can make a test volume there.
"""

import hashlib

from forebay.decide.grants import events as ev
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import LiveDisk, Stray, Trial
from forebay.model.grant import EXISTING, ON_DISK, Ask, Grant, State, Volume
from forebay.model.reasons import Because, Reason
from forebay.model.units import format_size

_FAILURES = 3  # failed volumes in a row before a disk is suspended
_FIRST_TRIAL, _LONGEST_PAUSE = 30.0, 600.0
"""Seconds until a suspended disk is tried again; the pause doubles each time, up to the longest."""


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


def note_failure(draft: Draft, volume: Volume, ask: Ask, because: str) -> None:
    """Record that a volume could not be made because of its disk; suspend the disk after several failures."""
    disk = draft.tables.disks[volume.disk]
    failures = disk.failures + 1
    draft.emit(ev.DiskFailed(at=draft.now, disk=disk.key, because=because, failures=failures))
    if failures >= _FAILURES and disk.suspension is None:
        trial = Trial(size=volume.size, uid=ask.uid, gid=ask.gid, mode=ask.mode, expose=ask.expose, hosts=ask.hosts)
        _suspend(draft, disk.key, trial, f"{failures} volumes in a row could not be made: {because}")


def try_disks(draft: Draft) -> None:
    """Have a test volume made on each suspended disk whose trial is due; a full disk waits until it has room."""
    tables, now = draft.tables, draft.now
    late = tables.trials.after(now + _LONGEST_PAUSE)  # the clock was set back
    for key in [*tables.trials.due(now), *late]:
        suspension = tables.disks[key].suspension
        assert suspension is not None
        size = min(suspension.trial.size, tables.space.free(key))
        if size > 0:
            name = hashlib.sha256(f"{key} {now} {suspension.tries}".encode()).hexdigest()[:32]
            draft.emit(ev.DiskTried(at=now, disk=key, volume=f"{name}.0", size=size))
        else:
            _suspend(draft, key, suspension.trial, suspension.because, suspension.tries)


def _suspend(draft: Draft, disk: str, trial: Trial, because: str, tries: int = 0) -> None:
    due = draft.now + min(_LONGEST_PAUSE, _FIRST_TRIAL * 2 ** min(tries, 10))
    draft.emit(ev.DiskSuspended(at=draft.now, disk=disk, because=because, trial=trial, due=due, tries=tries))


def find_tried_disk(draft: Draft, node: str, volume: str) -> LiveDisk | None:
    for key in draft.tables.to_do(node):
        disk = draft.tables.disks.get(key)
        if disk is not None and disk.suspension is not None and disk.suspension.volume == volume:
            return disk
    return None


def fail_trial(draft: Draft, disk: LiveDisk, because: str) -> None:
    suspension = disk.suspension
    assert suspension is not None
    _suspend(draft, disk.key, suspension.trial, f"volumes still cannot be made: {because}", suspension.tries + 1)


def resume_disk(draft: Draft, disk: LiveDisk, because: str) -> None:
    """Allow new grants on a disk again, and have its test volume removed."""
    suspension = disk.suspension
    if suspension is None:
        return
    draft.emit(ev.DiskResumed(at=draft.now, disk=disk.key, because=because))
    if suspension.volume:
        stray = Stray(name=suspension.volume, disk=disk.key, size=suspension.held)
        draft.emit(ev.Strayed(at=draft.now, stray=stray))
