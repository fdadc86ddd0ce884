"""What its holder does with a grant, and what time does to it."""

from __future__ import annotations

import math
from collections import Counter

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands import Extend, Release, Use, require_owner
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.requests import begin_grant
from forebay.model.errors import BadInput
from forebay.model.grant import ENDED, Grant, NotAllowed, State
from forebay.model.reasons import Because, Reason
from forebay.model.units import format_duration, format_size

_FORGOTTEN_AT_ONCE = 1000
_EXTENDABLE = (State.GRANTED, State.MAKING, State.READY, State.IN_USE)


def release_grant(draft: Draft, command: Release) -> None:
    """Give it back. To do so again changes nothing."""
    grant = draft.grant(command.grant)
    require_owner(command, grant.ask.uid)
    is_owner = command.caller.uid == grant.ask.uid
    because = command.because or f"released by {'its owner' if is_owner else 'an administrator'}"
    why = Because(Reason.OWNER if is_owner else Reason.ADMINISTRATOR, because)
    if grant.state in (State.QUEUED, State.GRANTED):
        draft.end(grant, State.RELEASED, why)
    elif grant.state is not State.RELEASING and grant.state not in ENDED:
        draft.release(grant, State.RELEASED, why)


def extend_grant(draft: Draft, command: Extend) -> None:
    """Let it end later, if the space stays free until then."""
    grant = draft.grant(command.grant)
    require_owner(command, grant.ask.uid)
    if not (math.isfinite(command.end) and abs(command.end) < 1e12):
        raise BadInput("end", f"must be a time, not {command.end:g}")
    if command.end == grant.end and grant.state in _EXTENDABLE:
        return
    why = _explain_no_extension(draft, grant, command.end)
    if why is None:
        draft.emit(ev.Extended(at=draft.now, grant=grant.id, end=command.end))
    else:
        _decline(draft, grant, "extend", why)


def _decline(draft: Draft, grant: Grant, what: str, why: Because) -> None:
    draft.emit(ev.Declined(at=draft.now, grant=grant.id, what=what, because=why.text, reason=why.reason))


def _explain_no_extension(draft: Draft, grant: Grant, end: float) -> Because | None:
    tables = draft.tables
    if grant.state not in _EXTENDABLE:
        return Because(Reason.WRONG_STATE, f"it is {grant.state}")
    if end < grant.end:
        return Because(Reason.ENDS_LATER, "it already ends later; to end it sooner, release it")
    if end - grant.start > tables.rules.longest:
        return Because(Reason.TOO_LONG, f"a grant lasts at most {format_duration(tables.rules.longest)} in all")
    sizes: Counter[str] = Counter()
    for volume in tables.volumes_of(grant):
        sizes[volume.disk] += volume.size
    for disk, size in sizes.items():
        if tables.disks[disk].drained or tables.nodes[tables.disks[disk].node].drained:
            return Because(Reason.CLOSED, f"disk {disk} is drained")
        free = tables.space.free(disk, grant.end, end)
        if free < size:
            have, need = format_size(max(0, free)), format_size(size)
            return Because(Reason.NO_ROOM, f"disk {disk} has only {have} of {need} free until then")
    return None


def use_grant(draft: Draft, command: Use) -> None:
    """Somebody works with it."""
    grant = draft.grant(command.grant)
    if command.caller.role != "agent":
        require_owner(command, grant.ask.uid)
    elif command.caller.node not in {volume.node for volume in draft.tables.volumes_of(grant)}:
        raise NotAllowed(f"node {command.caller.node!r} has no part of this grant")
    if grant.state is State.READY:
        draft.emit(ev.InUse(at=draft.now, grant=grant.id))
    elif grant.state is not State.IN_USE:
        _decline(draft, grant, "use", Because(Reason.WRONG_STATE, f"it is {grant.state}"))


def let_time_pass(draft: Draft) -> None:
    """End those whose time is over, begin those whose time has come. All that is decided comes after this."""
    tables = draft.tables
    for name in tables.ends.due(draft.now):
        grant = tables.grants[name]
        if grant.state is State.GRANTED:
            draft.end(grant, State.EXPIRED, Because(Reason.NO_ROOM, "its space did not come free while it lasted"))
        else:
            because = f"its time of {format_duration(grant.end - grant.start)} is over"
            draft.release(grant, State.EXPIRED, Because(Reason.TIME_OVER, because))
    for name in tables.starts.due(draft.now):
        begin_grant(draft, tables.grants[name])


def forget_grants(draft: Draft) -> None:
    """Forget what ended long ago; the journal still has it."""
    old = draft.tables.past.due(draft.now - draft.tables.rules.remember)[:_FORGOTTEN_AT_ONCE]
    if old:
        draft.emit(ev.Forgotten(at=draft.now, grants=tuple(old)))
