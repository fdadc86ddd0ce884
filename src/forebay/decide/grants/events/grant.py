"""What happens to grants."""

from __future__ import annotations

from dataclasses import replace

from forebay.decide.grants.events.base import Event, GrantEvent, event
from forebay.decide.grants.machine import describe_wants, stray_key
from forebay.decide.grants.selection import Turned
from forebay.decide.grants.state import BrokenJournal, Tables, request_key
from forebay.model.grant import Ask, Grant, State, Volume, VolumeState
from forebay.model.reasons import REFUSALS, Reason
from forebay.model.units import format_duration, format_size, plural


@event
class Asked(Event):
    """Somebody asks for space."""

    ask: Ask
    group = "grants"
    is_logged = False

    def apply(self, tables: Tables) -> None:
        ask, order = self.ask, tables.facts.asked + 1
        if ask.grant in tables.grants:
            raise BrokenJournal(f"grant {ask.grant} is requested twice")
        tables.facts = tables.facts._replace(asked=order)
        tables.keys.set(request_key(ask.uid, ask.key), ask.grant)
        tables.grants.set(ask.grant, Grant(ask=ask, order=order, asked=self.at))

    def sentence(self) -> str:
        ask = self.ask
        job = f" for job {ask.job}" if ask.job else ""
        what = format_size(ask.size) + describe_wants(ask.wants)
        return f"uid {ask.uid} requests {what} for {format_duration(ask.seconds)}{job}"

    @property
    def grant_id(self) -> str:
        return self.ask.grant


@event
class Queued(GrantEvent):
    """There is no space now. `until` is when it is tried again; `expected` (0: not known) when space should be free."""

    because: str
    until: float
    tried: int
    expected: float = 0.0
    turned: Turned | None = None
    reason: Reason = Reason.NONE
    group = "decisions"
    is_decision = True

    def apply(self, tables: Tables) -> None:
        tables.set_turn(self.turned)
        tables.drop_volumes(tables.grants[self.grant])
        tables.move_grant(
            self.grant, State.QUEUED, because=self.because, reason=self.reason, until=self.until, tried=self.tried,
            expected=self.expected, volumes=0, start=0.0, end=0.0, policy="",
        )  # fmt: skip

    def sentence(self) -> str:
        tried = f" (retried {plural(self.tried, 'time')})" if self.tried else ""
        return f"waits{tried}: {self.because}"


@event
class Granted(GrantEvent):
    """The request gets its space. `parts` are disks and bytes."""

    because: str
    start: float
    end: float
    parts: tuple[tuple[str, int], ...]
    policy: str
    turned: Turned | None = None
    group = "decisions"
    is_decision = True
    says = "granted: {self.because}"

    def apply(self, tables: Tables) -> None:
        tables.set_turn(self.turned)
        grant = tables.move_grant(
            self.grant, State.GRANTED, because=self.because, reason=Reason.NONE, start=self.start, end=self.end,
            until=0.0, expected=0.0, volumes=len(self.parts), policy=self.policy,
        )  # fmt: skip
        for name, (disk, size) in zip(grant.names, self.parts, strict=True):
            tables.volumes.set(name, Volume(name=name, grant=grant.id, disk=tables.disks[disk].key, size=size))


@event
class TurnedDown(GrantEvent):
    """The request is refused for good."""

    because: str
    turned: Turned | None = None
    reason: Reason = Reason.NONE
    group = "decisions"
    is_decision = True
    is_refusal = True
    says = "refused: {self.because}"

    def apply(self, tables: Tables) -> None:
        tables.set_turn(self.turned)
        _end(tables, self.grant, State.REFUSED, self.because, self.reason, self.at)

    @property
    def counted_as(self) -> str:
        return f"TurnedDown {self.reason if self.reason in REFUSALS else Reason.OTHER}"


def _end(tables: Tables, grant: str, state: State, because: str, reason: Reason, at: float) -> None:
    tables.move_grant(grant, state, because=because, reason=reason, ended=at, until=0.0, expected=0.0)


@event
class Making(GrantEvent):
    """The time has come: its volumes are to be made."""

    group = None
    is_logged = False
    says = "agents make its volumes"

    def apply(self, tables: Tables) -> None:
        grant = tables.move_grant(self.grant, State.MAKING)
        for volume in tables.volumes_of(grant):
            tables.move_volume(volume, VolumeState.MAKING)
            stray = tables.strays.get(stray_key(volume.disk, volume.name))
            if stray is not None and stray.held:  # it has been there all the time, and is somebody's again
                tables.strays.set(stray.key, None)


@event
class Ready(GrantEvent):
    """All its volumes are there."""

    says = "ready"

    def apply(self, tables: Tables) -> None:
        tables.move_grant(self.grant, State.READY)


@event
class InUse(GrantEvent):
    """Somebody uses it."""

    says = "in use"

    def apply(self, tables: Tables) -> None:
        tables.move_grant(self.grant, State.IN_USE)


@event
class Extended(GrantEvent):
    """It ends later than before."""

    end: float
    group = "decisions"

    def apply(self, tables: Tables) -> None:
        tables.grants.set(self.grant, replace(tables.grants[self.grant], end=self.end))

    def sentence(self) -> str:
        return f"extended; it ends in {format_duration(self.end - self.at)}"


@event
class Declined(GrantEvent):
    """Somebody wanted something of a grant and did not get it; the grant is as before."""

    what: str
    because: str
    reason: Reason = Reason.NONE
    group = "decisions"
    is_refusal = True
    says = "cannot {self.what}: {self.because}"

    def apply(self, tables: Tables) -> None:
        _check_known(tables, self.grant)


@event
class Releasing(GrantEvent):
    """Its volumes are to be removed."""

    outcome: State
    because: str
    reason: Reason = Reason.NONE
    says = "being released: {self.because}"

    def apply(self, tables: Tables) -> None:
        tables.move_grant(
            self.grant, State.RELEASING, outcome=self.outcome, because=self.because, reason=self.reason
        )  # fmt: skip


@event
class Ended(GrantEvent):
    """Nothing of it is left."""

    state: State
    because: str
    reason: Reason = Reason.NONE

    def apply(self, tables: Tables) -> None:
        grant = tables.grants[self.grant]
        if grant.state is State.GRANTED:
            for volume in tables.volumes_of(grant):
                tables.move_volume(volume, VolumeState.GONE)
        _end(tables, self.grant, self.state, self.because, self.reason, self.at)

    def sentence(self) -> str:
        return self.because if self.because.startswith(self.state) else f"{self.state}: {self.because}"

    @property
    def counted_as(self) -> str:
        return f"Ended {self.state}"


@event
class Told(GrantEvent):
    """The owner of a grant is to know this."""

    uid: int
    words: str
    is_warning = True
    says = "for its owner: {self.words}"

    def apply(self, tables: Tables) -> None:
        _check_known(tables, self.grant)


def _check_known(tables: Tables, grant: str) -> None:
    """Only the journal keeps such an event."""
    if grant not in tables.grants:
        raise KeyError(grant)


@event
class LetGo(GrantEvent):
    """An administrator has looked: what is kept of this grant may be removed."""

    group = "machine"
    says = "what is kept of grant {self.grant} may be removed"

    def apply(self, tables: Tables) -> None:
        tables.hold_strays(tables.strays_of(self.grant), held=False)
        grant = tables.grants.get(self.grant)
        if grant is not None:
            tables.grants.set(grant.id, replace(grant, let_go=True))


@event
class Forgotten(Event):
    """Grants that ended long ago are not listed any more."""

    grants: tuple[str, ...]
    group = "grants"

    def apply(self, tables: Tables) -> None:
        for name in self.grants:
            grant = tables.grants[name]
            tables.drop_volumes(grant)
            tables.keys.set(request_key(grant.ask.uid, grant.ask.key), None)
            tables.grants.set(name, None)

    def sentence(self) -> str:
        return f"{plural(len(self.grants), 'ended grant')} no longer listed"
