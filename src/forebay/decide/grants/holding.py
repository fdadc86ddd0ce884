"""What its holder does with a grant, and what time does to it."""

from __future__ import annotations

import math

from forebay.decide.grants import events as ev
from forebay.decide.grants.asking import begin
from forebay.decide.grants.commands import Extend, Release, Use, only_owners
from forebay.decide.grants.desk import Desk
from forebay.decide.grants.words import lasting
from forebay.model.errors import BadInput
from forebay.model.grant import ENDED, Grant, NotAllowed, State
from forebay.model.units import format_size

_FORGOTTEN_AT_ONCE = 1000
_EXTENDABLE = (State.GRANTED, State.MAKING, State.READY, State.IN_USE)


def release(desk: Desk, command: Release) -> None:
    """Give it back. To do so again changes nothing."""
    grant = desk.grant(command.grant)
    only_owners(command, grant.ask.uid)
    who = "its owner" if command.caller.uid == grant.ask.uid else "an administrator"
    because = command.because or f"released by {who}"
    if grant.state in (State.QUEUED, State.GRANTED):
        desk.end(grant, State.RELEASED, because)
    elif grant.state is not State.RELEASING and grant.state not in ENDED:
        desk.release(grant, State.RELEASED, because)


def extend(desk: Desk, command: Extend) -> None:
    """Let it end later, if the space stays free until then."""
    grant = desk.grant(command.grant)
    only_owners(command, grant.ask.uid)
    if not (math.isfinite(command.end) and abs(command.end) < 1e12):
        raise BadInput("end", f"must be a time, not {command.end:g}")
    if command.end == grant.end and grant.state in _EXTENDABLE:
        return
    because = _why_not(desk, grant, command.end)
    if because is None:
        desk.emit(ev.Extended(at=desk.now, grant=grant.id, end=command.end))
    else:
        desk.emit(ev.Declined(at=desk.now, grant=grant.id, what="extend", because=because))


def _why_not(desk: Desk, grant: Grant, end: float) -> str | None:
    tables = desk.tables
    if grant.state not in _EXTENDABLE:
        return f"it is {grant.state.value}"
    if end < grant.end:
        return "it ends later than that already; to end it sooner, release it"
    if end - grant.start > tables.rules.longest:
        return f"a grant may last {lasting(tables.rules.longest)} in all"
    need: dict[str, int] = {}
    for volume in tables.volumes_of(grant):
        need[volume.disk] = need.get(volume.disk, 0) + volume.size
    for disk, size in need.items():
        if tables.disks[disk].drained or tables.nodes[tables.disks[disk].node].drained:
            return f"disk {disk} is drained"
        free = tables.space.free(disk, grant.end, end)
        if free < size:
            return f"disk {disk} has only {format_size(max(0, free))} of {format_size(size)} free until then"
    return None


def use(desk: Desk, command: Use) -> None:
    """Somebody works with it."""
    grant = desk.grant(command.grant)
    if command.caller.role != "agent":
        only_owners(command, grant.ask.uid)
    elif command.caller.node not in {volume.node for volume in desk.tables.volumes_of(grant)}:
        raise NotAllowed(f"node {command.caller.node!r} has no part of this grant")
    if grant.state is State.READY:
        desk.emit(ev.InUse(at=desk.now, grant=grant.id))
    elif grant.state is not State.IN_USE:
        desk.emit(ev.Declined(at=desk.now, grant=grant.id, what="use", because=f"it is {grant.state.value}"))


def let_time_pass(desk: Desk) -> None:
    """Those whose time is over end, those whose time has come begin. All that is decided comes after this."""
    tables = desk.tables
    for name in tables.ends.due(desk.now):
        grant = tables.grants[name]
        because = f"its time of {lasting(grant.end - grant.start)} is over"
        if grant.state is State.GRANTED:
            desk.end(grant, State.EXPIRED, "its space did not come free while it lasted")
        else:
            desk.release(grant, State.EXPIRED, because)
    for name in tables.starts.due(desk.now):
        begin(desk, tables.grants[name])


def forget(desk: Desk) -> None:
    """What ended long ago; the journal still has it."""
    old = desk.tables.past.due(desk.now - desk.tables.rules.remember)[:_FORGOTTEN_AT_ONCE]
    if old:
        desk.emit(ev.Forgotten(at=desk.now, grants=tuple(old)))
