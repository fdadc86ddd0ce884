"""Commands of users: request, release, extend and use space."""

import math
from collections import Counter
from dataclasses import dataclass

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.permissions import Command
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.queue import attempt_grant
from forebay.decide.grants.state import request_key
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import ENDED, Ask, Grant, NotAllowed, State
from forebay.model.reasons import Because, Reason
from forebay.model.units import format_duration, format_size

_EXTENDABLE = (State.GRANTED, State.MAKING, State.READY, State.IN_USE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Command):
    """Request space. A request that is sent twice is granted once."""

    ask: Ask

    def decide(self, draft: Draft) -> None:
        ask, tables, rules = self.ask, draft.tables, draft.tables.rules
        self.require_owner(ask.uid)
        known = tables.keys.get(request_key(ask.uid, ask.key))
        if known is not None:
            if not ask.is_again(tables.grants[known].ask):
                raise Refused(f"key {ask.key!r} is already used for another request, grant {known}; choose another key")
            return
        if ask.grant in tables.grants:
            raise BadInput("grant", f"{ask.grant} belongs to another request")
        if ask.seconds > rules.longest:
            longest, wanted = format_duration(rules.longest), format_duration(ask.seconds)
            raise BadInput("seconds", f"a grant lasts at most {longest}, not {wanted}")
        if ask.start is not None and ask.start > draft.now + rules.ahead:
            raise BadInput("start", f"must be within the next {format_duration(rules.ahead)}")
        # An administrator requests for many users, so the limit does not apply.
        if self.caller.role != "administrator" and 0 < rules.most <= tables.live[ask.uid]:
            raise Refused(
                f"uid {ask.uid} already holds or waits for {rules.most:,} grants, the limit; release some first"
            )
        draft.emit(ev.Asked(at=draft.now, ask=ask))
        attempt_grant(draft, tables.grants[ask.grant])


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Command):
    """Release a grant. Repeating this changes nothing."""

    grant: str
    because: str = ""

    def decide(self, draft: Draft) -> None:
        grant = draft.tables.find_grant(self.grant)
        self.require_owner(grant.ask.uid)
        is_owner = self.caller.uid == grant.ask.uid
        because = self.because or f"released by {'its owner' if is_owner else 'an administrator'}"
        why = Because(Reason.OWNER if is_owner else Reason.ADMINISTRATOR, because)
        if grant.state in (State.QUEUED, State.GRANTED):
            draft.end(grant, State.RELEASED, why)
        elif grant.state is not State.RELEASING and grant.state not in ENDED:
            draft.release(grant, State.RELEASED, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend(Command):
    """Let a grant end at `end` (seconds since 1970). A command that is sent twice extends the grant once."""

    grant: str
    end: float

    def decide(self, draft: Draft) -> None:
        grant = draft.tables.find_grant(self.grant)
        self.require_owner(grant.ask.uid)
        if not (math.isfinite(self.end) and abs(self.end) < 1e12):
            raise BadInput("end", f"must be seconds since 1970, not {self.end:g}")
        if self.end == grant.end and grant.state in _EXTENDABLE:
            return
        why = _explain_no_extension(draft, grant, self.end)
        if why is None:
            draft.emit(ev.Extended(at=draft.now, grant=grant.id, end=self.end))
        else:
            _decline(draft, grant, "extend", why)


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
            return Because(Reason.NO_ROOM, f"disk {disk} has only {have} free until then, {need} needed")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Use(Command):
    """Mark a grant as in use."""

    grant: str

    def decide(self, draft: Draft) -> None:
        grant = draft.tables.find_grant(self.grant)
        if self.caller.role != "agent":
            self.require_owner(grant.ask.uid)
        elif self.caller.node not in {volume.node for volume in draft.tables.volumes_of(grant)}:
            raise NotAllowed(f"node {self.caller.node!r} has no volume of this grant")
        if grant.state is State.READY:
            draft.emit(ev.InUse(at=draft.now, grant=grant.id))
        elif grant.state is not State.IN_USE:
            _decline(draft, grant, "use", Because(Reason.WRONG_STATE, f"it is {grant.state}"))


def _decline(draft: Draft, grant: Grant, what: str, why: Because) -> None:
    draft.emit(ev.Declined(at=draft.now, grant=grant.id, what=what, because=why.text, reason=why.reason))
