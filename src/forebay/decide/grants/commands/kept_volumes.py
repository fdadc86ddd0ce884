"""Commands about volumes that are kept until an administrator decides.

If a node's agent has acted on another journal (the store is new, or was restored from an earlier copy), its volumes
are kept: volumes that the journal does not know may have an owner, and grants that it knows may have been extended.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.permissions import PlaceCommand
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import Stray
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import Ask, NoSuchGrant
from forebay.model.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(PlaceCommand):
    """Let the kept volumes of a grant, or of a node, be removed. The node is then trusted again."""

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        tables = draft.tables
        if self.what in tables.nodes:
            if tables.nodes[self.what].doubted:
                draft.emit(ev.NodeTrusted(at=draft.now, node=self.what))
            return
        kept = {volume.grant for volume in tables.kept_volumes()}
        if self.what not in kept and not _only_held(tables.strays_of(self.what)):
            raise Refused(f"no volumes of {self.what!r} are kept; `forebay storage strays` lists grants and nodes")
        draft.emit(ev.LetGo(at=draft.now, grant=self.what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(PlaceCommand):
    """Make the kept volumes of a grant, or of a node, their owner's grant again, for `seconds` from now."""

    seconds: float

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        tables, longest = draft.tables, draft.tables.rules.longest
        if not (math.isfinite(self.seconds) and 0 < self.seconds <= longest):
            raise BadInput("seconds", f"must be above 0 and at most {format_duration(longest)}")
        if self.what in tables.nodes:
            for name in sorted({stray.grant for stray in _only_held(tables.strays_on(self.what))}):
                parts = _only_held(tables.strays_of(name))
                if not _explain_no_adoption(draft, name, parts):
                    self._adopt(draft, name, parts)
            return
        parts = _only_held(tables.strays_of(self.what))
        if not parts and self.what in tables.grants:
            raise Refused(f"grant {self.what} is {tables.grants[self.what].state}; there is nothing to adopt")
        if not parts:
            raise NoSuchGrant(self.what)
        if because := _explain_no_adoption(draft, self.what, parts):
            raise Refused(f"grant {self.what} cannot be adopted: {because}")
        self._adopt(draft, self.what, parts)

    def _adopt(self, draft: Draft, name: str, parts: list[Stray]) -> None:
        """Adopt the volumes as they are. The agents find them intact, or bring them up."""
        first, now, policy = parts[0], draft.now, draft.tables.facts.policy
        ask = Ask(
            grant=name, key=name, uid=first.uid, gid=first.gid, mode=first.mode, seconds=self.seconds,
            size=sum(part.size for part in parts), ceiling=sum(part.ceiling for part in parts),
        )  # fmt: skip
        draft.emit(ev.Asked(at=now, ask=ask))
        places = tuple((part.disk, part.size) for part in sorted(parts, key=_number))
        because, end = "adopted by an administrator", now + self.seconds
        draft.emit(ev.Granted(at=now, grant=name, because=because, start=now, end=end, parts=places, policy=policy))
        draft.emit(ev.Making(at=now, grant=name))


def _only_held(strays: Iterable[Stray]) -> list[Stray]:
    return [stray for stray in strays if stray.held]


def _number(stray: Stray) -> int:
    return int(stray.name.partition(".")[2])


def _explain_no_adoption(draft: Draft, name: str, parts: list[Stray]) -> str:
    if name in draft.tables.grants:
        return f"a grant of that name exists and is {draft.tables.grants[name].state}"
    if min(part.uid for part in parts) < 0 or min(part.size for part in parts) < 1:
        return "its mark does not name the owner"
    if sorted(map(_number, parts)) != list(range(len(parts))):
        return "some of its volumes are missing"
    if any(draft.tables.disks[part.disk].spec.fields.get("expose", "none") != "none" for part in parts):
        return "it is exposed, and its mark does not name the hosts"
    return ""
