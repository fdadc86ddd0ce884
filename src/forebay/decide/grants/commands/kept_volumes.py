"""Volumes that are kept until an administrator decides: their node's agent has acted on another journal than ours.

The store was put back to an earlier copy, or is a new one: volumes that it does not know may be somebody's, and grants
that it knows may have been given more time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.base import Command
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import Stray
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import Ask, NoSuchGrant
from forebay.model.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(Command):
    """What is kept of a grant, or all that is kept on a node, may be removed; the node is trusted again."""

    what: str

    def decide(self, draft: Draft) -> None:
        """An administrator has looked at what is kept: it may be removed."""
        self.require_administrator()
        if self.what in draft.tables.nodes:
            if draft.tables.nodes[self.what].doubted:
                draft.emit(ev.NodeTrusted(at=draft.now, node=self.what))
            return
        kept = {volume.grant for volume in draft.tables.kept_volumes()}
        if self.what not in kept and not _held(draft.tables.strays_of(self.what)):
            raise Refused(f"nothing is kept of {self.what!r}; `forebay storage strays` lists grants and nodes")
        draft.emit(ev.LetGo(at=draft.now, grant=self.what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(Command):
    """What is kept of a grant, or of all on a node, is a grant again, its owner's, for `seconds` from now."""

    what: str
    seconds: float

    def decide(self, draft: Draft) -> None:
        """Make what is kept, and whose owner is known, a grant again."""
        self.require_administrator()
        if not (math.isfinite(self.seconds) and 0 < self.seconds <= draft.tables.rules.longest):
            raise BadInput("seconds", f"must be above 0 and at most {format_duration(draft.tables.rules.longest)}")
        if self.what not in draft.tables.nodes:
            _adopt(draft, self.what, self.seconds)
            return
        names = {stray.grant for stray in _held(draft.tables.strays_on(self.what))}
        for name in sorted(names):
            if _explain_no_adoption(draft, name, _held(draft.tables.strays_of(name))) is None:
                _adopt(draft, name, self.seconds)


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
    if any(draft.tables.disks[part.disk].spec.fields.get("expose", "none") != "none" for part in parts):
        return "it is exposed to other nodes, and the mark does not say to which"
    return None
