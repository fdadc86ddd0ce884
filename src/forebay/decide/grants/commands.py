"""What can be asked of the control service, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from forebay.decide.grants.machine import DiskSaid
from forebay.decide.grants.rules import GrantRules
from forebay.model.grant import Ask, NotAllowed

Role = Literal["user", "agent", "administrator"]
Fault = Literal["disk", "room", "request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is calling; `uid` counts for users, `node` for agents. The service itself calls as an administrator."""

    role: Role
    uid: int = -1
    node: str = ""


SERVICE = Caller(role="administrator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    caller: Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Command):
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Command):
    grant: str
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend(Command):
    """Let a grant end at `end` (seconds since 1970) and not before: sent twice, it is extended once."""

    grant: str
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Use(Command):
    grant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVolume:
    """What an agent found on a disk, which it calls by the disk's own name.

    It is `whole` if nothing is left to be made, mounted or exposed. The last five are as in `Stray`.
    """

    name: str
    disk: str
    size: int
    whole: bool = True
    path: str = ""
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    uid: int = -1
    gid: int = -1
    mode: int = 0o700
    ceiling: float = 0.0
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Command):
    """A node's agent says which disks it has: all of them, so those that it leaves out are gone.

    `volumes` is all that it found on them, so that nothing is granted that is taken; None if it did not look. Its
    reports are numbered, and one that is older than the last is not heeded. `unseen` are disks that it can't look at
    just now, and why: what is on them is not given up yet. `ours` is whether the journal that it acted on last, which
    it knows as `seen`, is this one; None if it remembers none.
    """

    node: str
    network_bandwidth: float
    disks: tuple[DiskSaid, ...]
    fields: Mapping[str, object] = field(default_factory=dict)
    volumes: tuple[FoundVolume, ...] | None = None
    number: int = 0
    ours: bool | None = True
    seen: str = ""
    unseen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Command):
    """A node's agent is alive."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(Command):
    """A node's agent has not been heard of for too long."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Command):
    """No new grants on a node, or on one disk ("node/disk")."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrain(Command):
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(Command):
    """A node, or one disk ("node/disk"), will not come back: what it held is lost."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(Command):
    """What is kept of a grant, or all that is kept on a node, may be removed; the node is in doubt no more."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(Command):
    """What is kept of a grant, or of all on a node, is a grant again, its owner's, for `seconds` from now."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Command):
    """An agent tells of one volume. Its reports are numbered, and a later one has a higher number.

    `disk` is the own name of the disk that it speaks of; "" if it can only be where the volume is.
    """

    volume: str
    number: int = 0
    disk: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Report):
    path: str = ""
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade(Report):
    """`fault` is whose fault it was: of the disk, of a disk without room, or of what was asked for."""

    because: str
    fault: Fault = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Report):
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone(Report):
    """It was removed from that disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck(Report):
    """It can't be removed, and that was tried often enough. Its agent goes on trying."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Command):
    """Everything with Forebay's mark that there is on a node's disks. An older report than the last is not heeded.

    What an agent was asked to do before it looked, and has not done, it must ask for again.
    """

    node: str
    number: int
    volumes: tuple[FoundVolume, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Command):
    """Time has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePolicy(Command):
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRules(Command):
    rules: GrantRules


def require_administrator(command: Command) -> None:
    if command.caller.role != "administrator":
        raise NotAllowed("only an administrator may do this")


def require_owner(command: Command, uid: int) -> None:
    """The user whose it is, or an administrator."""
    caller = command.caller
    if caller.role == "agent" or (caller.role == "user" and caller.uid != uid):
        raise NotAllowed("only its owner or an administrator may do this")


def require_agent(command: Command, node: str) -> None:
    caller = command.caller
    if caller.role != "agent":
        raise NotAllowed(f"only the agent of node {node!r} may say this")
    if caller.node != node:
        raise NotAllowed(f"the agent of node {caller.node!r} may not report for node {node!r}")
