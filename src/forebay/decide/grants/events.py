"""What happens: every event changes the state in one way, and says why where that was decided.

Events are plain values that go into a journal and come back from it (see `codec`). `at` is seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.decide.grants.machine import DiskSaid, Stray, Trial
from forebay.decide.grants.rules import GrantRules
from forebay.model.grant import Ask, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """Whose turn it is after a decision: what the storage policy remembers until the next.

    `current` is a disk's key, or empty for the first; `probed` are the nodes whose count of probes has changed.
    """

    server: int = 0
    node: int = -1
    failed: int = 0
    current: str = ""
    chance: int = 0
    probed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a time."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Event):
    """Somebody asks for space."""

    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Event):
    """There is no space now. `until` is when it is tried again; `expected` (0: not known) when space should be free."""

    grant: str
    because: str
    until: float
    tried: int
    expected: float = 0.0
    turned: Turned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Event):
    """`parts` are disks and bytes."""

    grant: str
    because: str
    start: float
    end: float
    parts: tuple[tuple[str, int], ...]
    policy: str
    turned: Turned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedDown(Event):
    """The request is refused for good."""

    grant: str
    because: str
    turned: Turned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Making(Event):
    """The time has come: its volumes are to be made."""

    grant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Event):
    """All its volumes are there."""

    grant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse(Event):
    """Somebody uses it."""

    grant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(Event):
    """It ends later than before."""

    grant: str
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined(Event):
    """Somebody wanted something of a grant and did not get it; the grant is as before."""

    grant: str
    what: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Releasing(Event):
    """Its volumes are to be removed."""

    grant: str
    outcome: State
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Event):
    """Nothing of it is left."""

    grant: str
    state: State
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Event):
    """The owner of a grant is to know this."""

    grant: str
    uid: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeEvent(Event):
    """`report` is the number of the report that it comes from; 0 if from none."""

    volume: str
    report: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMade(VolumeEvent):
    """A volume is there."""

    path: str = ""
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeHalf(VolumeEvent):
    """It was whole and is only half there: to be made again where something is missing."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeGone(VolumeEvent):
    """A volume is not there any more, as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeLost(VolumeEvent):
    """A volume is not there any more, or can't be made, and somebody needed it."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMoved(VolumeEvent):
    """It could not be made where it was to be, and is to be made on another disk."""

    disk: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeStuck(VolumeEvent):
    """It can't be removed: its grant ends without that, and what is on the disk is a stray."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strayed(Event):
    """Something was found on a disk that belongs to no grant."""

    stray: Stray
    report: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayGone(Event):
    """It is not there any more."""

    stray: Stray
    report: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered(Event):
    """A node is there, for the first time or with other fields."""

    node: str
    network_bandwidth: float
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRegistered(Event):
    """A disk is there, for the first time or changed."""

    node: str
    disk: DiskSaid


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskVanished(Event):
    """A disk is not there any more; it may come back."""

    disk: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUnseen(Event):
    """Its agent can't look at it: no new grants there, but what is on it is not given up yet."""

    disk: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFailed(Event):
    """A volume could not be made on it, `failures` times in a row by now."""

    disk: str
    because: str
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSuspended(Event):
    """No new grants there until a volume like `trial` can be made; that is tried at `due`, after `tries` in vain."""

    disk: str
    because: str
    trial: Trial
    due: float
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskTried(Event):
    """Its agent is asked to make this volume, of `size` bytes, which nobody will use."""

    disk: str
    volume: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskResumed(Event):
    """Volumes can be made there again, and it gets new grants."""

    disk: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSilent(Event):
    """A node does not answer, and gets no new grants."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswered(Event):
    """A silent node answers again."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Event):
    """An agent said what it has; older reports than this one are not heeded any more."""

    node: str
    report: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDoubted(Event):
    """Its agent has acted on another journal, `seen`, than this: what may be somebody's is kept there."""

    node: str
    because: str
    seen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTrusted(Event):
    """An administrator has looked: what nobody owns there may be removed."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo(Event):
    """An administrator has looked: what is kept of this grant may be removed."""

    grant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained(Event):
    """A node or a disk gets no new grants."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrained(Event):
    """It gets new grants again."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged(Event):
    """From now on another policy decides."""

    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesChanged(Event):
    """From now on these rules hold."""

    rules: GrantRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Event):
    """Space came free, and the queue was tried up to (not including) this order; 0: all of it."""

    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten(Event):
    """Grants that ended long ago are not listed any more."""

    grants: tuple[str, ...]


EVENTS: tuple[type[Event], ...] = (
    Asked, Queued, Granted, TurnedDown, Making, Ready, InUse, Extended, Declined, Releasing, Ended, Told,
    VolumeMade, VolumeHalf, VolumeGone, VolumeLost, VolumeMoved, VolumeStuck, Strayed, StrayGone,
    NodeRegistered, DiskRegistered, DiskVanished, DiskUnseen, DiskFailed, DiskSuspended, DiskTried, DiskResumed,
    NodeSilent, NodeAnswered, Reported, NodeDoubted, NodeTrusted, LetGo,
    Drained, Undrained,
    PolicyChanged, RulesChanged, Swept, Forgotten,
)  # fmt: skip
