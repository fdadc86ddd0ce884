"""Events of grants."""

from dataclasses import dataclass, replace

from forebay.decide.grants.events.base import Event, event
from forebay.decide.grants.machine import describe_wants, stray_key
from forebay.decide.grants.space import Turned
from forebay.decide.grants.state import Tables, request_key
from forebay.decide.grants.state_tables import BrokenJournal
from forebay.model.grant import Ask, Grant, State, Volume, VolumeState
from forebay.model.reasons import REFUSALS, Reason
from forebay.model.staging import Progress, Staging, StagingState
from forebay.model.units import format_duration, format_size, plural

_WAITS = {"state": State.QUEUED, "volumes": 0, "start": 0.0, "end": 0.0, "policy": ""}
_WAITS_NO_LONGER = {"until": 0.0, "expected": 0.0}
_HAS_SPACE = {"state": State.GRANTED, "reason": Reason.NONE, **_WAITS_NO_LONGER}
_REFUSED = {"state": State.REFUSED, **_WAITS_NO_LONGER}
_MOST_FAILED = 100  # stagings that failed which a grant remembers


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantEvent(Event):
    grant: str
    table, key, grant_in, group = "grants", "grant", "grant", "grants"


@event(grant_in="ask.grant", group="grants", is_logged=False)
class Asked(Event):
    """A user requests space."""

    ask: Ask

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
        if ask.is_shared:
            what = f"a shared file system of {what}"
        return f"uid {ask.uid} requests {what} for {format_duration(ask.seconds)}{job}"


@event(group="decisions", is_decision=True, changes=_WAITS)
class Queued(GrantEvent):
    """No space is free now. `until` is the time of the next try, `expected` when space should be free (0: unknown)."""

    because: str
    until: float
    tried: int
    expected: float = 0.0
    turned: Turned | None = None
    reason: Reason = Reason.NONE
    first: int = 0
    avoids: tuple[str, ...] = ()

    def apply(self, tables: Tables) -> None:
        tables.set_turn(self.turned)
        tables.drop_volumes(tables.grants[self.grant])
        self.change_row(tables)

    def sentence(self) -> str:
        tried = f" (retried {plural(self.tried, 'time')})" if self.tried else ""
        return f"waits{tried}: {self.because}"


@event("granted: {self.because}", group="decisions", is_decision=True, changes=_HAS_SPACE)
class Granted(GrantEvent):
    """The request gets its space. `parts` are disks and bytes."""

    because: str
    start: float
    end: float
    parts: tuple[tuple[str, int], ...]
    policy: str
    turned: Turned | None = None
    first: int = 0

    def apply(self, tables: Tables) -> None:
        tables.set_turn(self.turned)
        grant = self.change_row(tables, volumes=len(self.parts))
        for name, (disk, size) in zip(grant.names, self.parts, strict=True):
            tables.volumes.set(name, Volume(name=name, grant=grant.id, disk=tables.disks[disk].key, size=size))


@event("refused: {self.because}", group="decisions", is_decision=True, is_refusal=True, changes=_REFUSED)
class TurnedDown(GrantEvent):
    """The request is refused for good."""

    because: str
    turned: Turned | None = None
    reason: Reason = Reason.NONE

    def apply(self, tables: Tables) -> None:
        tables.set_turn(self.turned)
        self.change_row(tables, ended=self.at)

    @property
    def counted_as(self) -> str:
        return f"TurnedDown {self.reason if self.reason in REFUSALS else Reason.OTHER}"


@event("agents make its volumes", group=None, is_logged=False, changes={"state": State.MAKING})
class Making(GrantEvent):
    """The grant begins: agents make its volumes."""

    def apply(self, tables: Tables) -> None:
        for volume in tables.volumes_of(self.change_row(tables)):
            tables.volumes.change(volume.name, state=VolumeState.MAKING)
            stray = tables.strays.get(stray_key(volume.disk, volume.name))
            if stray is not None and stray.held:  # the volume existed all the time, and has an owner again
                tables.strays.set(stray.key, None)


@event("ready", changes={"state": State.READY})
class Ready(GrantEvent):
    """All volumes of the grant exist."""


@event("in use", changes={"state": State.IN_USE})
class InUse(GrantEvent):
    """The grant is in use."""


@event(group="decisions")
class Extended(GrantEvent):
    """The grant ends later than before."""

    end: float

    def sentence(self) -> str:
        return f"extended; it ends in {format_duration(self.end - self.at)}"


@event("cannot {self.what}: {self.because}", group="decisions", is_refusal=True, copies=())
class Declined(GrantEvent):
    """The service declines a command about a grant. The grant stays as it was."""

    what: str
    because: str
    reason: Reason = Reason.NONE


@event("being released: {self.because}", changes={"state": State.RELEASING})
class Releasing(GrantEvent):
    """Agents remove the volumes of the grant."""

    outcome: State
    because: str
    reason: Reason = Reason.NONE


@event(changes=_WAITS_NO_LONGER)
class Ended(GrantEvent):
    """The grant has ended, and all its volumes are gone."""

    state: State
    because: str
    reason: Reason = Reason.NONE

    def apply(self, tables: Tables) -> None:
        grant = tables.grants[self.grant]
        if grant.state is State.GRANTED:
            for name in grant.names:
                tables.volumes.change(name, state=VolumeState.GONE)
        self.change_row(tables, ended=self.at)

    def sentence(self) -> str:
        return self.because if self.because.startswith(self.state) else f"{self.state}: {self.because}"

    @property
    def counted_as(self) -> str:
        return f"Ended {self.state}"


@event()
class StagingBegun(GrantEvent):
    """The storage nodes of the grant begin to copy files."""

    staging: Staging

    def sentence(self) -> str:
        staging = self.staging
        pairs = ", ".join(f"{source} to {target}" for source, target in staging.pairs[:3])
        more = f" and {len(staging.pairs) - 3:,} more" if len(staging.pairs) > 3 else ""
        return f"stage-{staging.way} begins on {plural(len(staging.nodes), 'node')}: {pairs}{more}"


@event("node {self.node}: {self.progress.step}, {self.progress.files} files", group=None, is_logged=False, copies=())
class StagingMoved(GrantEvent):
    """A node of a staging has copied more."""

    node: str
    progress: Progress

    def apply(self, tables: Tables) -> None:
        staging = _staging_of(tables, self.grant)
        nodes = {**staging.nodes, self.node: self.progress}
        tables.grants.change(self.grant, staging=replace(staging, nodes=nodes, moved=self.at))


@event(copies=())
class StagingEnded(GrantEvent):
    """A staging is done, or has failed."""

    state: StagingState
    because: str
    said: str  # how it ended, as a sentence

    def apply(self, tables: Tables) -> None:
        staging = _staging_of(tables, self.grant)
        new = replace(staging, state=self.state, because=self.because, ended=self.at)
        failed = tables.grants[self.grant].failed_stagings
        if self.state is StagingState.FAILED:
            failed = (*failed, self.said)[-_MOST_FAILED:]
        tables.grants.change(self.grant, staging=new, failed_stagings=failed)

    def sentence(self) -> str:
        return self.said

    @property
    def counted_as(self) -> str:
        return f"StagingEnded {self.state}"


def _staging_of(tables: Tables, grant: str) -> Staging:
    staging = tables.grants[grant].staging
    if staging is None:
        raise BrokenJournal(f"grant {grant} has no staging")
    return staging


@event("for its owner: {self.words}", is_warning=True)
class Told(GrantEvent):
    """A message to the owner of a grant."""

    uid: int
    words: str


@event("kept volumes of grant {self.grant} may be removed", group="machine")
class LetGo(GrantEvent):
    """An administrator decided: the kept volumes of this grant may be removed."""

    def apply(self, tables: Tables) -> None:
        tables.hold_strays(tables.strays_of(self.grant), held=False)
        if self.grant in tables.grants:
            tables.grants.change(self.grant, let_go=True)


@event(group="grants")
class Forgotten(Event):
    """Grants that ended long ago are no longer listed."""

    grants: tuple[str, ...]

    def apply(self, tables: Tables) -> None:
        for name in self.grants:
            grant = tables.grants[name]
            tables.drop_volumes(grant)
            tables.keys.set(request_key(grant.ask.uid, grant.ask.key), None)
            tables.grants.set(name, None)

    def sentence(self) -> str:
        return f"{plural(len(self.grants), 'ended grant')} no longer listed"
