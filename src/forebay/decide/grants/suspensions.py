"""Disks on which volumes can't be made: they get no new grants until a volume that nobody uses can be made there."""

from __future__ import annotations

import hashlib

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands import Report, only_agent_of
from forebay.decide.grants.desk import Desk
from forebay.decide.grants.machine import LiveDisk, Stray, Suspension, Trial
from forebay.decide.grants.space import ALWAYS, FOREVER
from forebay.model.grant import Ask, Volume

_FAILURES = 3
"""Volumes in a row that can't be made before a disk is suspended."""
_FIRST_TRIAL, _LONGEST_PAUSE = 30.0, 600.0
"""Seconds until a suspended disk is tried; each time twice as long, up to the longest."""


def note_failure(desk: Desk, volume: Volume, ask: Ask, because: str) -> None:
    """A volume could not be made, and the disk is to blame."""
    disk = desk.tables.disks[volume.disk]
    failures = disk.failures + 1
    desk.emit(ev.DiskFailed(at=desk.now, disk=disk.key, because=because, failures=failures))
    if failures >= _FAILURES and disk.suspension is None:
        trial = Trial(
            size=volume.size, uid=ask.uid, gid=ask.gid, mode=ask.mode, expose=ask.expose, hosts=ask.hosts
        )  # fmt: skip
        words = f"{failures} volumes in a row could not be made: {because}"
        due = desk.now + _FIRST_TRIAL
        desk.emit(ev.DiskSuspended(at=desk.now, disk=disk.key, because=words, trial=trial, due=due))


def try_disks(desk: Desk) -> None:
    """Have volumes made on those suspended disks whose time has come; a full one waits until it has room."""
    tables, now = desk.tables, desk.now
    late = tables.trials.after(now + _LONGEST_PAUSE)  # the clock was put back
    for key in [*tables.trials.due(now), *late]:
        suspension = tables.disks[key].suspension
        assert suspension is not None
        size = min(suspension.trial.size, tables.space.free(key, ALWAYS, FOREVER))
        if size > 0:
            name = hashlib.sha256(f"{key} {now} {suspension.tries}".encode()).hexdigest()[:32]
            desk.emit(ev.DiskTried(at=now, disk=key, volume=f"{name}.0", size=size))
        else:
            _suspend_again(desk, key, suspension, suspension.because, suspension.tries)


def _suspend_again(desk: Desk, disk: str, old: Suspension, because: str, tries: int) -> None:
    due = desk.now + min(_LONGEST_PAUSE, _FIRST_TRIAL * 2 ** min(tries, 10))
    desk.emit(ev.DiskSuspended(at=desk.now, disk=disk, because=because, trial=old.trial, due=due, tries=tries))


def tried_disk(desk: Desk, command: Report) -> LiveDisk | None:
    """The disk for whose trial an agent was asked to make this volume."""
    disk = find_tried_disk(desk, command.caller.node, command.volume)
    if disk is not None:
        only_agent_of(command, disk.node)
    return disk


def find_tried_disk(desk: Desk, node: str, volume: str) -> LiveDisk | None:
    for key in desk.tables.to_do(node):
        disk = desk.tables.disks.get(key)
        if disk is not None and disk.suspension is not None and disk.suspension.volume == volume:
            return disk
    return None


def fail_trial(desk: Desk, disk: LiveDisk, because: str) -> None:
    """It does not work yet."""
    suspension = disk.suspension
    assert suspension is not None
    words = f"volumes still can't be made: {because}"
    _suspend_again(desk, disk.key, suspension, words, suspension.tries + 1)


def resume(desk: Desk, disk: LiveDisk, because: str) -> None:
    """New grants there again; what was made to try it belongs to nobody, and goes."""
    suspension = disk.suspension
    if suspension is None:
        return
    desk.emit(ev.DiskResumed(at=desk.now, disk=disk.key, because=because))
    if suspension.volume:
        stray = Stray(name=suspension.volume, disk=disk.key, size=suspension.held)
        desk.emit(ev.Strayed(at=desk.now, stray=stray))
