"""What the service answers, for the description of the API. Times are seconds since 1970, sizes bytes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from forebay.history.toml import Field, Table
from forebay.model.grant import State, VolumeState
from forebay.model.reasons import Reason

Bytes = Annotated[int, Field(ge=0, lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Moment = Annotated[float, Field(ge=-1e12, le=1e12)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]
Rate = Annotated[float, Field(ge=0)]
Id = Annotated[int, Field(ge=-1, le=2**32 - 2)]
"""Of a user or a group; -1: nobody's."""
Mode = Annotated[int, Field(ge=0, le=0o7777)]
GrantId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Role = Literal["user", "agent", "administrator", "metrics"]
GrantState = Annotated[str, Field(json_schema_extra={"enum": [state.value for state in State]})]
ReasonCode = Annotated[str, Field(json_schema_extra={"enum": [reason.value for reason in Reason]})]
StateOfVolume = Annotated[str, Field(json_schema_extra={"enum": [state.value for state in VolumeState]})]


class VolumeAnswer(Table):
    """A part of a grant on one disk."""

    number: Count
    name: str
    node: str
    disk: str
    size: Bytes
    state: StateOfVolume
    path: str
    device: str
    settings: dict[str, str]
    because: str


class GrantAnswer(Table):
    """A grant, with its volumes, its place in the queue, and what its owner should know."""

    id: GrantId
    state: GrantState
    size: Bytes
    seconds: Seconds
    start: Moment
    until: Moment
    uid: Id
    gid: Id
    user: str
    job: str
    key: str
    tier: str
    fields: dict[str, str]
    expose: str
    because: str
    reason: ReasonCode
    policy: str
    position: Count
    tried: Count
    expected: Moment
    marks: list[str]
    path: str
    paths: list[str]
    volumes: list[VolumeAnswer]
    created: Moment
    changed: Moment


class GrantsAnswer(Table):
    """Some grants, in the order in which they were asked for."""

    grants: list[GrantAnswer]
    more: bool


class StoryLine(Table):
    """Something that happened to a grant, or that an agent said of it."""

    time: Moment
    what: str
    number: Count
    node: str
    level: str
    text: str
    more: dict[str, Any]


class StoryAnswer(Table):
    """The story of a grant."""

    story: list[StoryLine]


class DiskAnswer(Table):
    """A disk of a storage node."""

    name: str
    capacity: Bytes
    used: Bytes
    read_bandwidth: Rate
    write_bandwidth: Rate
    identity: str
    fields: dict[str, Any]
    there: bool
    drained: bool
    unseen: str
    suspended: str


class NodeAnswer(Table):
    """A storage node with its disks."""

    name: str
    silent: bool
    drained: bool
    network_bandwidth: Rate
    fields: dict[str, Any]
    report: Count
    doubted: bool
    disks: list[DiskAnswer]


class NodesAnswer(Table):
    """All storage nodes."""

    nodes: list[NodeAnswer]


class ActionAnswer(Table):
    """Something that an agent is to do with one volume."""

    kind: Literal["make", "release"]
    volume: str
    disk: str
    size: Bytes
    uid: Id
    gid: Id
    mode: Mode
    ceiling: Rate
    expose: str
    hosts: list[str]
    key: str


class ActionsAnswer(Table):
    """`report` is the number of the agent's last report that was heeded. `seen` tells this journal from others: the
    agent keeps it before it does anything, and shows it when it calls again."""

    actions: list[ActionAnswer]
    report: Count
    mode: str
    seen: str


class StrayAnswer(Table):
    """A volume that belongs to no grant (any more)."""

    name: str
    grant: str
    node: str
    disk: str
    size: Bytes
    uid: Id
    user: str
    since: Moment
    path: str
    why: str
    kept: bool


class StraysAnswer(Table):
    """All volumes that belong to no grant (any more)."""

    strays: list[StrayAnswer]


class Done(Table):
    """How much was done."""

    done: Count


class HealthAnswer(Table):
    """Whether the service works, and how much it looks after."""

    status: str
    version: str
    mode: str
    policy: str
    journal: Count
    nodes: Count
    silent: Count
    kept: Count


class PolicyAnswer(Table):
    """The policy that decides."""

    policy: str


class RulesAnswer(Table):
    """The rules that hold."""

    split: Bytes
    tries: Count
    interval: Seconds
    longest: Seconds
    ahead: Seconds
    remember: Seconds
    most: Count
    shadow: bool


class JournalEvent(Table):
    """An event with its number."""

    number: Count
    event: dict[str, Any]


class JournalAnswer(Table):
    """Some events of the journal, in their order."""

    events: list[JournalEvent]
    last: Count


class TokenLine(Table):
    """A token, without its secret."""

    name: str
    role: Role
    uid: Id
    node: str
    made: Moment


class TokensAnswer(Table):
    """All tokens."""

    tokens: list[TokenLine]


class TokenAnswer(Table):
    """A new token."""

    name: str
    role: Role
    node: str
    uid: Id
    token: str
