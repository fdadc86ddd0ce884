"""Disks on which volumes cannot be made.

Such a disk is suspended: it gets no new grants until the agent can make a test volume there.
"""

import hashlib

from forebay.decide.grants import events as ev
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import LiveDisk, Stray, Trial
from forebay.model.grant import Ask, Volume

_FAILURES = 3  # failed volumes in a row before a disk is suspended
_FIRST_TRIAL, _LONGEST_PAUSE = 30.0, 600.0
"""Seconds until a suspended disk is tried again; the pause doubles each time, up to the longest."""


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
