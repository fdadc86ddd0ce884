"""A grant of space on disks for a time: its request, its states and its volumes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from forebay.model.errors import BadInput, Refused, UserError
from forebay.model.reasons import Reason
from forebay.model.staging import Staging, StagingState
from forebay.model.system import MOST_BYTES
from forebay.model.units import format_duration

_ID = re.compile(r"[0-9a-f]{32}")
MOST_CHARACTERS = 200  # of a name in a request
MOST_UID = 2**32 - 2
MOST_SECONDS = 10 * 366 * 86_400.0
MOST_SERVERS = 256
SHARED = "shared"
"""How the volumes of a shared file system are exposed: a data server on each of them, on the volume's node."""
VOLUMES_FOLDER = "/run/forebay/volumes"
"""The folder below which a node mounts exposed volumes of other nodes."""
SHARED_FOLDER = "/run/forebay/shared"
"""The folder below which every node mounts shared file systems."""


class NotAllowed(Refused):
    """The caller may not do this."""


class NoSuchGrant(UserError):
    """No grant has this id, or it is no longer known."""

    def __str__(self) -> str:
        return f"no grant {self.args[0]!r}; `forebay storage list` lists grants"


class State(StrEnum):
    ASKED = "asked"
    QUEUED = "queued"  # no space now; the service tries again
    GRANTED = "granted"  # disks and times are known; nothing is created before its start
    MAKING = "making"
    READY = "ready"
    IN_USE = "in-use"
    RELEASING = "releasing"  # its volumes hold their space until they are removed
    RELEASED = "released"
    REFUSED = "refused"
    FAILED = "failed"
    EXPIRED = "expired"


ENDED = frozenset({State.RELEASED, State.REFUSED, State.FAILED, State.EXPIRED})
EXISTING = frozenset({State.MAKING, State.READY, State.IN_USE, State.RELEASING})  # has volumes on disks
AVAILABLE = (State.READY, State.IN_USE)
"""The states in which the space can be used."""
HELD = frozenset({State.GRANTED, *EXISTING})  # has space in the ledger
LIVE = frozenset({State.ASKED, State.QUEUED, *HELD})

NEXT: Mapping[State, frozenset[State]] = {
    State.ASKED: frozenset({State.QUEUED, State.GRANTED, State.REFUSED}),
    State.QUEUED: frozenset({State.QUEUED, State.GRANTED, State.REFUSED, State.RELEASED}),
    # Back to the queue if its disk disappears before anything is created on it.
    State.GRANTED: frozenset({State.MAKING, State.QUEUED, State.RELEASED, State.EXPIRED}),
    # Back to the queue if a volume cannot be created and only disks without room now are left.
    State.MAKING: frozenset({State.READY, State.RELEASING, State.QUEUED}),
    State.READY: frozenset({State.IN_USE, State.RELEASING}),
    State.IN_USE: frozenset({State.RELEASING}),
    State.RELEASING: frozenset({State.RELEASED, State.EXPIRED, State.FAILED}),
    **{state: frozenset() for state in ENDED},
}
"""The states that may follow each state."""


class VolumeState(StrEnum):
    PLANNED = "planned"
    MAKING = "making"  # its agent creates it, or repairs an incomplete one
    MADE = "made"
    LOST = "lost"
    GONE = "gone"


ON_DISK = frozenset({VolumeState.MAKING, VolumeState.MADE})
VOLUME_NEXT: Mapping[VolumeState, frozenset[VolumeState]] = {
    VolumeState.PLANNED: frozenset({VolumeState.MAKING, VolumeState.GONE}),
    VolumeState.MAKING: frozenset({VolumeState.MADE, VolumeState.LOST, VolumeState.GONE}),
    VolumeState.MADE: frozenset({VolumeState.MAKING, VolumeState.LOST, VolumeState.GONE}),
    VolumeState.LOST: frozenset({VolumeState.MAKING}),  # it was found again
    VolumeState.GONE: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for `size` bytes for `seconds`, from `start` (seconds since 1970) or from now on.

    `wants` are fields that its disks (or their nodes) must have, such as {"tier": "nvme"}. A second request with the
    same `key` from the same user is the same request. `ceiling` is in bytes per second, 0 for none.

    If `expose` is SHARED, it is a request for a shared file system on `servers` volumes (0: the service chooses), each
    on another disk. With `equal`, all volumes have the same size.
    """

    grant: str
    key: str
    uid: int
    gid: int
    size: int
    seconds: float
    user: str = ""
    job: str = ""
    start: float | None = None
    wants: Mapping[str, str] = field(default_factory=dict)
    expose: str = ""
    hosts: tuple[str, ...] = ()
    mode: int = 0o700
    ceiling: float = 0.0
    servers: int = 0
    equal: bool = False

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.grant):
            raise BadInput("grant", f"must be 32 hexadecimal digits, not {self.grant[:40]!r}")
        _check_whole("size", self.size, 1, MOST_BYTES, "bytes")
        _check_whole("uid", self.uid, 0, MOST_UID)
        _check_whole("gid", self.gid, 0, MOST_UID)
        _check_whole("mode", self.mode, 0, 0o7777)
        _check_whole("servers", self.servers, 0, MOST_SERVERS)
        if not (math.isfinite(self.seconds) and 0 < self.seconds <= MOST_SECONDS):
            raise BadInput(
                "seconds",
                f"must be above 0 and at most {format_duration(MOST_SECONDS)}, not {format_duration(self.seconds)}",
            )
        if self.start is not None and not (math.isfinite(self.start) and abs(self.start) < 1e12):
            raise BadInput("start", f"must be seconds since 1970, not {self.start:g}")
        if not (math.isfinite(self.ceiling) and self.ceiling >= 0):
            raise BadInput("ceiling", f"must be finite and not negative, not {self.ceiling:g}")
        if not self.key:
            raise BadInput("key", "must not be empty")
        if not self.is_shared and (self.servers or self.equal):
            raise BadInput("servers" if self.servers else "equal", "is only for a shared file system; set type=shared")
        for name in ("key", "user", "job", "expose"):
            _check_text(name, getattr(self, name))
        for name, value in self.wants.items():
            _check_text("wants", name)
            _check_text(f"wants.{name}", value)

    @property
    def is_shared(self) -> bool:
        """Whether it is for one file system on all of its volumes, which several nodes can mount."""
        return self.expose == SHARED

    def is_again(self, other: Ask) -> bool:
        """Whether both are the same request, apart from the grant's id."""
        return replace(self, grant=other.grant) == other


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A request and its state. Times are seconds since 1970, or 0 if they do not apply yet."""

    ask: Ask
    order: int  # how many requests came before
    asked: float
    state: State = State.ASKED
    because: str = ""  # why it is in this state
    reason: Reason = Reason.NONE  # the same as a code
    start: float = 0.0
    end: float = 0.0
    volumes: int = 0
    tried: int = 0  # how often it left the queue
    until: float = 0.0  # when a queued grant is tried again
    expected: float = 0.0  # when a queued grant should get space, if known
    policy: str = ""
    outcome: State = State.RELEASED  # what follows `releasing`
    ended: float = 0.0
    let_go: bool = False  # an administrator has given up its volumes
    first: int = 0  # the number of its first volume: no two volumes ever have the same name
    avoids: tuple[str, ...] = ()  # disks on which its volumes could not be created before it was queued again
    staging: Staging | None = None  # the latest
    failed_stagings: tuple[str, ...] = ()  # how those that failed ended, as sentences; the latest ones

    @property
    def is_staging(self) -> bool:
        """Whether its storage nodes copy files."""
        return self.staging is not None and self.staging.state is StagingState.RUNNING and self.state in AVAILABLE

    @property
    def id(self) -> str:
        return self.ask.grant

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.ask.grant}.{number}" for number in range(self.first, self.first + self.volumes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The space of a grant on one disk; `disk` is NODE/DISK."""

    name: str
    grant: str
    disk: str
    size: int
    state: VolumeState = VolumeState.PLANNED
    path: str = ""
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # for clients to which it is exposed
    because: str = ""
    failed: tuple[str, ...] = ()  # disks on which it could not be created

    @property
    def node(self) -> str:
        return node_of(self.disk)


def node_of(disk: str) -> str:
    """
    >>> node_of("n1/dev/sda")
    'n1'
    """
    return disk.partition("/")[0]


def _check_whole(where: str, value: int, least: int, most: int, unit: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f"at least {least:,} and at most {most:,} {unit}".rstrip()
        raise BadInput(where, f"must be a whole number, {bounds}, not {value!r:.40}")


def _check_text(where: str, value: str) -> None:
    if len(value) > MOST_CHARACTERS or not value.isprintable():
        raise BadInput(where, f"must be at most {MOST_CHARACTERS} printable characters, not {value[:40]!r}")
