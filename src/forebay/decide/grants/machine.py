"""What the live machine consists of: nodes and disks as their agents describe them, and what these are to do."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from forebay.model.errors import BadInput
from forebay.model.system import Disk

Fault = Literal["disk", "room", "request"]  # why a volume could not be made
Role = Literal["user", "agent", "administrator", "metrics"]  # the last can only read metrics, and gives no command
KEPT_AS = "kept_as"  # in a field's metadata: its name in kept states, if that differs
_MOST_FIELDS = 20_000
_NODE_NAME, DISK_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "[A-Za-z0-9/._:@+-]{1,200}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpec:
    """What an agent says of a disk. Its capacity is the bytes that can be granted in all."""

    name: str
    capacity: int
    write_bandwidth: float
    read_bandwidth: float
    identity: str = ""  # tells the disk from all others (a serial number), if it is known
    fields: Mapping[str, object] = field(default_factory=dict)

    def check(self, where: str) -> None:
        if not re.fullmatch(DISK_NAME, self.name):
            raise BadInput(where, f"{self.name[:40]!r} is not a valid disk name")
        check_fields(f"{where} ({self.name})", self.fields)
        if not math.isfinite(self.write_bandwidth + self.read_bandwidth):
            raise BadInput(f"{where} ({self.name})", "its bandwidths must be finite")
        try:
            self.as_disk()
        except ValueError as error:
            raise BadInput(f"{where} ({self.name})", str(error)) from None

    def as_disk(self) -> Disk:
        """The disk as policies see it. One that has no space left is none for them, but may have some again."""
        return Disk(
            capacity=self.capacity or 1, write_bandwidth=self.write_bandwidth, read_bandwidth=self.read_bandwidth,
            fields=self.fields,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A volume like one that could not be made: once it can, the disk works again."""

    size: int
    uid: int
    gid: int
    mode: int = 0o700
    expose: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What an agent is to do for one volume; to do it again is harmless."""

    kind: Literal["make", "release"]  # to make is to mount, give to the user, and expose, too
    volume: str
    disk: str  # its own name
    size: int
    uid: int = 0
    gid: int = 0
    mode: int = 0o700
    ceiling: float = 0.0
    expose: str = ""
    hosts: tuple[str, ...] = ()
    key: str = field(default="", repr=False)  # with which the hosts reach it; the service adds it


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
    volume: str = ""  # that is made for the trial, while it is under way
    held: int = 0  # bytes that it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDisk:
    """A disk that the service knows."""

    node: str
    spec: DiskSpec = field(metadata={KEPT_AS: "said"})
    order: int
    there: bool = True  # else it may come back
    drained: bool = False
    unseen: str = ""  # why its agent cannot read it just now; "" if it can
    failures: int = 0  # volumes in a row that could not be made on it
    suspension: Suspension | None = None

    @property
    def key(self) -> str:
        return f"{self.node}/{self.spec.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """A storage node.

    A `doubted` one acted on a journal that is not ours, its `other`: there may be more on its disks than we know of,
    and grants before the one of that order may have been given more time than we know of.
    """

    name: str
    network_bandwidth: float
    order: int
    fields: Mapping[str, object] = field(default_factory=dict)
    drained: bool = False
    silent: bool = False
    report: int = 0  # the number of the last report of its agent that told something new
    doubted: int = 0
    other: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Something with Forebay's mark on a disk that belongs to no grant (any more); it holds space until it is gone."""

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
    because: str = ""  # why it could not be removed, if that was tried in vain

    @property
    def key(self) -> str:
        return stray_key(self.disk, self.name)

    @property
    def grant(self) -> str:
        return self.name.partition(".")[0]


def stray_key(disk: str, volume: str) -> str:
    """A volume may have been left on several disks, so its name alone is not enough."""
    return f"{disk} {volume}"


def check_node(name: str, network_bandwidth: float, where: str = "") -> None:
    if not re.fullmatch(_NODE_NAME, name):
        raise BadInput(f"{where}node", f"{name[:40]!r} is not a valid node name")
    if not 0 < network_bandwidth < math.inf:
        raise BadInput(
            f"{where}node {name}", f"network_bandwidth must be positive and finite, not {network_bandwidth:g}"
        )


def check_fields(where: str, fields: Mapping[str, object]) -> None:
    """Whatever their owner says, if a journal can keep it."""
    try:
        length = len(json.dumps(dict(fields), allow_nan=False))
    except (TypeError, ValueError):
        raise BadInput(where, "its fields must be strings, numbers, lists or tables") from None
    if length > _MOST_FIELDS or not all(isinstance(name, str) for name in fields):
        raise BadInput(where, f"its fields must have names, and at most {_MOST_FIELDS:,} characters in all")


def field_value(disk: LiveDisk, node: LiveNode, name: str) -> str | None:
    """A field in words; None if neither the disk nor its node says anything of it."""
    if name in disk.spec.fields:
        return str(disk.spec.fields[name])
    return str(node.fields[name]) if name in node.fields else None


def describe_wants(wants: Mapping[str, str]) -> str:
    """What disks must have, with a word before it; nothing if any disk will do.

    >>> describe_wants({"tier": "nvme", "rack": "2"}), describe_wants({"expose": "none"})
    (' with tier nvme, rack 2', '')
    """
    fields = [f"{name} {value}" for name, value in wants.items() if (name, value) != ("expose", "none")]
    return f" with {', '.join(fields)}" if fields else ""
