"""Nodes whose agents have acted on another journal than ours, and what is kept there until an administrator decides.

The store was put back to an earlier copy, or is a new one: volumes that we don't know may be somebody's, and grants
that we know may have been given more time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands import Adopt, Discard, Register, only_administrators
from forebay.decide.grants.desk import Desk
from forebay.decide.grants.machine import Stray
from forebay.decide.grants.suspensions import find_tried_disk
from forebay.decide.grants.words import lasting
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import Ask, NoSuchGrant

_OTHER = "its agent has acted on a journal that is not this one: an earlier copy of the store, or another store?"
_NONE = "its agent remembers no journal, and has volumes that this one does not know"


def doubt(desk: Desk, command: Register) -> None:
    """Whether all that we don't know of, and all that is over, can be removed from a node's disks."""
    node, seen = desk.tables.nodes[command.node], command.seen
    unknown = any(_is_unknown(desk, command.node, each.name) for each in command.volumes or ())
    if command.ours is False and not (seen and seen == node.other):  # else our answer was lost, and nothing done since
        desk.emit(ev.NodeDoubted(at=desk.now, node=command.node, because=_OTHER, seen=seen))
    elif command.ours is None and unknown and not node.doubted:
        desk.emit(ev.NodeDoubted(at=desk.now, node=command.node, because=_NONE))


def _is_unknown(desk: Desk, node: str, volume: str) -> bool:
    return volume not in desk.tables.volumes and find_tried_disk(desk, node, volume) is None


def discard(desk: Desk, command: Discard) -> None:
    """An administrator has looked at what is kept: it may go."""
    only_administrators(command)
    if command.what in desk.tables.nodes:
        if desk.tables.nodes[command.what].doubted:
            desk.emit(ev.NodeTrusted(at=desk.now, node=command.what))
        return
    kept = {volume.grant for volume in desk.tables.kept()}
    if command.what not in kept and not _held(desk.tables.strays_of(command.what)):
        raise Refused(f"nothing is kept of {command.what!r}; name a grant or a node of `forebay storage strays`")
    desk.emit(ev.LetGo(at=desk.now, grant=command.what))


def adopt(desk: Desk, command: Adopt) -> None:
    """What is kept, and whose it is can be told, is a grant again."""
    only_administrators(command)
    if not (math.isfinite(command.seconds) and 0 < command.seconds <= desk.tables.rules.longest):
        raise BadInput("seconds", f"must be above 0 and at most {lasting(desk.tables.rules.longest)}")
    if command.what not in desk.tables.nodes:
        _adopt(desk, command.what, command.seconds)
        return
    names = {stray.grant for stray in _held(desk.tables.strays_on(command.what))}
    for name in sorted(names):
        if _why_not(desk, name, _held(desk.tables.strays_of(name))) is None:
            _adopt(desk, name, command.seconds)


def _held(strays: Iterable[Stray]) -> list[Stray]:
    return [stray for stray in strays if stray.held]


def _adopt(desk: Desk, name: str, seconds: float) -> None:
    """With the volumes as they are: the agents find them whole, or bring them up."""
    parts = _held(desk.tables.strays_of(name))
    if not parts:
        raise NoSuchGrant(name)
    if because := _why_not(desk, name, parts):
        raise Refused(f"grant {name} can't be adopted: {because}")
    first, now = parts[0], desk.now
    ask = Ask(
        grant=name, key=name, uid=first.uid, gid=first.gid, mode=first.mode, seconds=seconds,
        size=sum(part.size for part in parts), ceiling=sum(part.ceiling for part in parts),
    )  # fmt: skip
    places = tuple((part.disk, part.size) for part in sorted(parts, key=_number))
    desk.emit(ev.Asked(at=now, ask=ask))
    because, policy = "adopted by an administrator", str(desk.tables.facts["policy"])
    end = now + seconds
    desk.emit(ev.Granted(at=now, grant=name, because=because, start=now, end=end, parts=places, policy=policy))
    desk.emit(ev.Making(at=now, grant=name))


def _number(stray: Stray) -> int:
    return int(stray.name.partition(".")[2])


def _why_not(desk: Desk, name: str, parts: list[Stray]) -> str | None:
    if name in desk.tables.grants:
        return f"there is one of that name, which is {desk.tables.grants[name].state.value}"
    if min(part.uid for part in parts) < 0 or min(part.size for part in parts) < 1:
        return "its mark does not tell whose it is"
    if sorted(map(_number, parts)) != list(range(len(parts))):
        return "some of its volumes are not there"
    if any(desk.tables.disks[part.disk].said.fields.get("expose", "none") != "none" for part in parts):
        return "it is exposed to other nodes, and nobody knows to which"
    return None
