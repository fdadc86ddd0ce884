"""The live machine: nodes and disks as their agents describe them, and the actions of these agents."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from forebay.model.errors import BadInput
from forebay.model.staging import LIMIT, Pairs, Way
from forebay.model.system import Disk

Fault = Literal["disk", "room", "request"]  # why a volume could not be made
Role = Literal["user", "agent", "administrator", "metrics"]  # `metrics` can read metrics and nothing else
KEPT_AS = "kept_as"  # in a field's metadata: its name in stored states, if it differs
_MOST_FIELDS = 20_000
_NODE_NAME, DISK_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "[A-Za-z0-9/._:@+-]{1,200}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpec:
    """A disk as its agent describes it. Its capacity is the bytes that can be granted in all."""

    name: str
    capacity: int
    write_bandwidth: float
    read_bandwidth: float
    identity: str = ""  # identifies the disk, such as a serial number; empty: unknown
    fields: Mapping[str, object] = field(default_factory=dict)

    def check(self, where: str) -> None:
        if not re.fullmatch(DISK_NAME, self.name):
            raise BadInput(where, f"{self.name[:40]!r} is not a valid disk name; use letters, digits and /._:@+-")
        check_fields(f"{where} ({self.name})", self.fields)
        if not math.isfinite(self.write_bandwidth + self.read_bandwidth):
            raise BadInput(f"{where} ({self.name})", "bandwidths must be finite")
        try:
            self.as_disk()
        except ValueError as error:
            raise BadInput(f"{where} ({self.name})", str(error)) from None

    def as_disk(self) -> Disk:
        """The disk as policies see it. `Disk` needs a capacity above 0; policies never get a disk without space."""
        return Disk(
            capacity=self.capacity or 1, write_bandwidth=self.write_bandwidth, read_bandwidth=self.read_bandwidth,
            fields=self.fields,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A test volume, like the one that failed: once it can be made, the disk works again."""

    size: int
    uid: int
    gid: int
    mode: int = 0o700
    expose: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What an agent must do with one volume. Repeating an action is harmless."""

    kind: Literal["make", "release"]  # `make` also mounts the volume, gives it to the user and exposes it
    volume: str
    disk: str  # without its node's name
    size: int
    uid: int = 0
    gid: int = 0
    mode: int = 0o700
    ceiling: float = 0.0
    expose: str = ""
    hosts: tuple[str, ...] = ()
    key: str = field(default="", repr=False)  # the secret that the hosts need; the service adds it
    index: int = 0  # the number of its data server, if it is part of a shared file system of `servers`
    servers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAction:
    """What an agent must copy, as number `number` of `nodes`; with `settle`, all nodes have copied their files.

    `volumes` are those of the grant on the node. A shared file system has `servers`, by their addresses; `places` are
    the numbers of those on the `volumes`. The staging fails if nothing has moved for `limit` seconds.
    """

    grant: str
    key: str
    way: Way
    pairs: Pairs
    uid: int
    gid: int
    volumes: tuple[str, ...]
    number: int
    nodes: int
    servers: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    settle: bool = False
    limit: float = LIMIT
    secret: str = field(default="", repr=False)  # the key of the shared file system; the service adds it

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> CopyAction:
        """An action as the service sends it; fields of later versions are ignored."""
        known = {name: value for name, value in document.items() if name in cls.__slots__}
        known |= {name: tuple(known.get(name, ())) for name in ("volumes", "servers", "places")}
        return cls(**known | {"pairs": tuple((source, target) for source, target in known["pairs"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """Why a disk gets no new grants: volumes could not be made on it.

    Times are seconds since 1970. `due` is when the next trial begins, after `tries` that failed.
    """

    since: float
    because: str
    trial: Trial
    due: float
    tries: int = 0
    volume: str = ""  # the test volume, during a trial
    held: int = 0  # bytes of the test volume


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDisk:
    """A disk that the service knows."""

    node: str
    spec: DiskSpec = field(metadata={KEPT_AS: "said"})
    order: int
    there: bool = True  # a disk that is gone may come back
    drained: bool = False
    unseen: str = ""  # why its agent cannot read it at present; "" if it can
    failures: int = 0  # volumes in a row that could not be made on it
    suspension: Suspension | None = None

    @property
    def key(self) -> str:
        return f"{self.node}/{self.spec.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """A storage node.

    The agent of a `doubted` node acted on another journal, `other`. Its disks may hold volumes that our journal does
    not know, and grants with an order below `doubted` may have been extended there.
    """

    name: str
    network_bandwidth: float
    order: int
    fields: Mapping[str, object] = field(default_factory=dict)
    drained: bool = False
    silent: bool = False
    report: int = 0  # the number of the agent's last report with news
    doubted: int = 0
    other: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A volume with Forebay's mark that no grant owns. It holds its space until it is removed."""

    name: str
    disk: str
    size: int
    held: bool = False  # an administrator must decide before it is removed
    uid: int = -1  # -1: unknown
    gid: int = -1
    mode: int = 0o700
    ceiling: float = 0.0
    since: float = 0.0  # seconds since 1970
    path: str = ""
    because: str = ""  # why it cannot be removed, if that failed

    @property
    def key(self) -> str:
        return stray_key(self.disk, self.name)

    @property
    def grant(self) -> str:
        return self.name.partition(".")[0]


def stray_key(disk: str, volume: str) -> str:
    """Disk and volume: parts of the same volume can be left on several disks."""
    return f"{disk} {volume}"


def check_node(name: str, network_bandwidth: float, where: str = "") -> None:
    if not re.fullmatch(_NODE_NAME, name):
        raise BadInput(f"{where}node", f"{name[:40]!r} is not a valid node name; use letters, digits and ._-")
    if not 0 < network_bandwidth < math.inf:
        raise BadInput(
            f"{where}node {name}", f"network_bandwidth must be positive and finite, not {network_bandwidth:g}"
        )


def check_fields(where: str, fields: Mapping[str, object]) -> None:
    """Check that the journal can store these fields; their meaning is up to the administrator."""
    try:
        length = len(json.dumps(dict(fields), allow_nan=False))
    except (TypeError, ValueError):
        raise BadInput(where, "fields must be strings, numbers, lists or tables") from None
    if length > _MOST_FIELDS or not all(isinstance(name, str) for name in fields):
        raise BadInput(where, f"fields must have names, and at most {_MOST_FIELDS:,} characters in all")


def field_value(disk: LiveDisk, node: LiveNode, name: str) -> str | None:
    """A field as text; None if neither the disk nor its node has it."""
    if name in disk.spec.fields:
        return str(disk.spec.fields[name])
    return str(node.fields[name]) if name in node.fields else None


def describe_wants(wants: Mapping[str, str]) -> str:
    """The fields that disks must have, after " with"; "" if any disk will do.

    >>> describe_wants({"tier": "nvme", "rack": "2"}), describe_wants({"expose": "none"})
    (' with tier nvme, rack 2', '')
    """
    fields = [f"{name} {value}" for name, value in wants.items() if (name, value) != ("expose", "none")]
    return f" with {', '.join(fields)}" if fields else ""
