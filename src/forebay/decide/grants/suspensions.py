"""Disks on which volumes can't be made: they get no new grants until a volume that nobody uses can be made there."""

import hashlib

from forebay.decide.grants import events as ev
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import LiveDisk, Stray, Suspension, Trial
from forebay.model.grant import Ask, Volume

_FAILURES = 3  # volumes in a row that can't be made before a disk is suspended
_FIRST_TRIAL, _LONGEST_PAUSE = 30.0, 600.0
"""Seconds until a suspended disk is tried; each time twice as long, up to the longest."""


def note_failure(draft: Draft, volume: Volume, ask: Ask, because: str) -> None:
    """A volume could not be made, and the disk is to blame."""
    disk = draft.tables.disks[volume.disk]
    failures = disk.failures + 1
    draft.emit(ev.DiskFailed(at=draft.now, disk=disk.key, because=because, failures=failures))
    if failures >= _FAILURES and disk.suspension is None:
        trial = Trial(
            size=volume.size, uid=ask.uid, gid=ask.gid, mode=ask.mode, expose=ask.expose, hosts=ask.hosts
        )  # fmt: skip
        text = f"{failures} volumes in a row could not be made: {because}"
        due = draft.now + _FIRST_TRIAL
        draft.emit(ev.DiskSuspended(at=draft.now, disk=disk.key, because=text, trial=trial, due=due))


def try_disks(draft: Draft) -> None:
    """Have volumes made on those suspended disks whose time has come; a full one waits until it has room."""
    tables, now = draft.tables, draft.now
    late = tables.trials.after(now + _LONGEST_PAUSE)  # the clock was put back
    for key in [*tables.trials.due(now), *late]:
        suspension = tables.disks[key].suspension
        assert suspension is not None
        size = min(suspension.trial.size, tables.space.free(key))
        if size > 0:
            name = hashlib.sha256(f"{key} {now} {suspension.tries}".encode()).hexdigest()[:32]
            draft.emit(ev.DiskTried(at=now, disk=key, volume=f"{name}.0", size=size))
        else:
            _suspend_again(draft, key, suspension, suspension.because, suspension.tries)


def _suspend_again(draft: Draft, disk: str, old: Suspension, because: str, tries: int) -> None:
    due = draft.now + min(_LONGEST_PAUSE, _FIRST_TRIAL * 2 ** min(tries, 10))
    draft.emit(ev.DiskSuspended(at=draft.now, disk=disk, because=because, trial=old.trial, due=due, tries=tries))


def find_tried_disk(draft: Draft, node: str, volume: str) -> LiveDisk | None:
    for key in draft.tables.to_do(node):
        disk = draft.tables.disks.get(key)
        if disk is not None and disk.suspension is not None and disk.suspension.volume == volume:
            return disk
    return None


def fail_trial(draft: Draft, disk: LiveDisk, because: str) -> None:
    """It does not work yet."""
    suspension = disk.suspension
    assert suspension is not None
    text = f"volumes still cannot be made: {because}"
    _suspend_again(draft, disk.key, suspension, text, suspension.tries + 1)


def resume_disk(draft: Draft, disk: LiveDisk, because: str) -> None:
    """New grants there again; what was made to try it belongs to nobody, and goes."""
    suspension = disk.suspension
    if suspension is None:
        return
    draft.emit(ev.DiskResumed(at=draft.now, disk=disk.key, because=because))
    if suspension.volume:
        stray = Stray(name=suspension.volume, disk=disk.key, size=suspension.held)
        draft.emit(ev.Strayed(at=draft.now, stray=stray))
