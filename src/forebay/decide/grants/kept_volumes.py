"""Volumes that are kept until an administrator decides: their node's agent has acted on another journal than ours.

The store was put back to an earlier copy, or is a new one: volumes that it does not know may be somebody's, and grants
that it knows may have been given more time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands import Adopt, Discard, Register, require_administrator
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import Stray
from forebay.decide.grants.suspensions import find_tried_disk
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import Ask, NoSuchGrant
from forebay.model.units import format_duration

_OTHER = "its agent acted on another journal; was the store replaced, or restored from a backup?"
_NONE = "its agent remembers no journal, and has volumes that this one does not know"


def check_journal(draft: Draft, command: Register) -> None:
    """Keep what is on a node's disks if its agent has acted on another journal."""
    node, seen = draft.tables.nodes[command.node], command.seen
    unknown = any(_is_unknown(draft, command.node, each.name) for each in command.volumes or ())
    if command.ours is False and not (seen and seen == node.other):  # else our answer was lost, and nothing done since
        draft.emit(ev.NodeDoubted(at=draft.now, node=command.node, because=_OTHER, seen=seen))
    elif command.ours is None and unknown and not node.doubted:
        draft.emit(ev.NodeDoubted(at=draft.now, node=command.node, because=_NONE))


def _is_unknown(draft: Draft, node: str, volume: str) -> bool:
    return volume not in draft.tables.volumes and find_tried_disk(draft, node, volume) is None


def discard_kept(draft: Draft, command: Discard) -> None:
    """An administrator has looked at what is kept: it may be removed."""
    require_administrator(command)
    if command.what in draft.tables.nodes:
        if draft.tables.nodes[command.what].doubted:
            draft.emit(ev.NodeTrusted(at=draft.now, node=command.what))
        return
    kept = {volume.grant for volume in draft.tables.kept_volumes()}
    if command.what not in kept and not _held(draft.tables.strays_of(command.what)):
        raise Refused(f"nothing is kept of {command.what!r}; `forebay storage strays` lists grants and nodes")
    draft.emit(ev.LetGo(at=draft.now, grant=command.what))


def adopt_kept(draft: Draft, command: Adopt) -> None:
    """Make what is kept, and whose owner is known, a grant again."""
    require_administrator(command)
    if not (math.isfinite(command.seconds) and 0 < command.seconds <= draft.tables.rules.longest):
        raise BadInput("seconds", f"must be above 0 and at most {format_duration(draft.tables.rules.longest)}")
    if command.what not in draft.tables.nodes:
        _adopt(draft, command.what, command.seconds)
        return
    names = {stray.grant for stray in _held(draft.tables.strays_on(command.what))}
    for name in sorted(names):
        if _explain_no_adoption(draft, name, _held(draft.tables.strays_of(name))) is None:
            _adopt(draft, name, command.seconds)


def _held(strays: Iterable[Stray]) -> list[Stray]:
    return [stray for stray in strays if stray.held]


def _adopt(draft: Draft, name: str, seconds: float) -> None:
    """With the volumes as they are: the agents find them whole, or bring them up."""
    parts = _held(draft.tables.strays_of(name))
    if not parts:
        raise NoSuchGrant(name)
    if because := _explain_no_adoption(draft, name, parts):
        raise Refused(f"grant {name} cannot be adopted: {because}")
    first, now = parts[0], draft.now
    ask = Ask(
        grant=name, key=name, uid=first.uid, gid=first.gid, mode=first.mode, seconds=seconds,
        size=sum(part.size for part in parts), ceiling=sum(part.ceiling for part in parts),
    )  # fmt: skip
    places = tuple((part.disk, part.size) for part in sorted(parts, key=_number))
    draft.emit(ev.Asked(at=now, ask=ask))
    because, policy = "adopted by an administrator", draft.tables.facts.policy
    end = now + seconds
    draft.emit(ev.Granted(at=now, grant=name, because=because, start=now, end=end, parts=places, policy=policy))
    draft.emit(ev.Making(at=now, grant=name))


def _number(stray: Stray) -> int:
    return int(stray.name.partition(".")[2])


def _explain_no_adoption(draft: Draft, name: str, parts: list[Stray]) -> str | None:
    if name in draft.tables.grants:
        return f"a grant of that name is {draft.tables.grants[name].state}"
    if min(part.uid for part in parts) < 0 or min(part.size for part in parts) < 1:
        return "its mark does not name the owner"
    if sorted(map(_number, parts)) != list(range(len(parts))):
        return "some of its volumes are missing"
    if any(draft.tables.disks[part.disk].said.fields.get("expose", "none") != "none" for part in parts):
        return "it is exposed to other nodes, and the mark does not say to which"
    return None
