"""What the service answers, for the description of the API. Times are seconds since 1970, sizes bytes."""

from __future__ import annotations

from typing import Any, Literal

from forebay.history.toml import Table


class VolumeAnswer(Table):
    number: int
    name: str
    node: str
    disk: str
    size: int
    state: str
    path: str
    device: str
    settings: dict[str, str]
    because: str


class GrantAnswer(Table):
    id: str
    state: str
    size: int
    seconds: float
    start: float
    until: float
    uid: int
    gid: int
    user: str
    job: str
    key: str
    tier: str
    fields: dict[str, str]
    expose: str
    because: str
    policy: str
    position: int
    tried: int
    expected: float
    marks: list[str]
    path: str
    paths: list[str]
    volumes: list[VolumeAnswer]
    created: float
    changed: float


class GrantsAnswer(Table):
    grants: list[GrantAnswer]
    more: bool


class StoryLine(Table):
    time: float
    what: str
    number: int
    node: str
    level: str
    text: str
    more: dict[str, Any]


class StoryAnswer(Table):
    story: list[StoryLine]


class DiskAnswer(Table):
    name: str
    capacity: int
    used: int
    read_bandwidth: float
    write_bandwidth: float
    identity: str
    fields: dict[str, Any]
    there: bool
    drained: bool
    unseen: str
    suspended: str


class NodeAnswer(Table):
    name: str
    silent: bool
    drained: bool
    network_bandwidth: float
    fields: dict[str, Any]
    report: int
    doubted: bool
    disks: list[DiskAnswer]


class NodesAnswer(Table):
    nodes: list[NodeAnswer]


class ActionAnswer(Table):
    kind: Literal["make", "release"]
    volume: str
    disk: str
    size: int
    uid: int
    gid: int
    mode: int
    ceiling: float
    expose: str
    hosts: list[str]
    key: str


class ActionsAnswer(Table):
    """`report` is the number of the agent's last report that was heeded. `seen` tells this journal from others: the
    agent keeps it before it does anything, and shows it when it calls again."""

    actions: list[ActionAnswer]
    report: int
    mode: str
    seen: str


class StrayAnswer(Table):
    name: str
    grant: str
    node: str
    disk: str
    size: int
    uid: int
    user: str
    since: float
    path: str
    why: str
    kept: bool


class StraysAnswer(Table):
    strays: list[StrayAnswer]


class Done(Table):
    done: int


class HealthAnswer(Table):
    status: str
    version: str
    mode: str
    policy: str
    journal: int
    nodes: int
    silent: int
    kept: int


class PolicyAnswer(Table):
    policy: str


class RulesAnswer(Table):
    split: int
    tries: int
    interval: float
    longest: float
    ahead: float
    remember: float
    most: int
    shadow: bool


class JournalEvent(Table):
    number: int
    event: dict[str, Any]


class JournalAnswer(Table):
    events: list[JournalEvent]
    last: int


class TokenLine(Table):
    name: str
    role: str
    uid: int
    node: str
    made: float


class TokensAnswer(Table):
    tokens: list[TokenLine]


class TokenAnswer(Table):
    name: str
    role: str
    node: str
    uid: int
    token: str
