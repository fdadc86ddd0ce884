"""What callers send to the service. Sizes are bytes or text with a unit, durations seconds or text with a unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from forebay.decide.grants.commands import Fault
from forebay.history.toml import Field, Table
from forebay.model.errors import BadInput
from forebay.model.units import parse_bandwidth, parse_duration, parse_size

Quantity = int | float | str
_Words = dict[str, str]


class AskForm(Table):
    """A request. `start` is seconds since 1970, or text such as "2h" for so long from now.

    `uid` and `gid` are for administrators, who may ask on behalf of somebody.
    """

    size: Quantity
    seconds: Quantity
    start: Quantity | None = None
    tier: str = ""
    fields: _Words = Field(default_factory=dict)
    key: str = ""
    job: str = ""
    expose: str = ""
    hosts: list[str] = Field(default_factory=list, max_length=10_000)
    mode: int = 0o700
    ceiling: Quantity = 0.0
    uid: int | None = None
    gid: int | None = None


class ReleaseForm(Table):
    because: str = Field(default="", max_length=200)


class ExtendForm(Table):
    """Either `seconds` more than it has, or `until` a time (seconds since 1970), which can be sent twice."""

    seconds: Quantity | None = None
    until: float | None = None


class DiskForm(Table):
    """`capacity` is what can be granted in all. `kind` is that of its volumes."""

    name: str
    capacity: Quantity
    read_bandwidth: Quantity
    write_bandwidth: Quantity
    kind: str = ""
    identity: str = ""
    fields: dict[str, Any] = Field(default_factory=dict)


class VolumeForm(Table):
    """A volume that an agent found on one of its disks; `half` if anything of it is missing or not mounted."""

    name: str = Field(max_length=200)
    disk: str
    size: int
    state: Literal["whole", "half"] = "whole"
    path: str = Field(default="", max_length=4096)
    device: str = Field(default="", max_length=4096)
    settings: _Words = Field(default_factory=dict)
    uid: int = Field(default=-1, ge=-1, le=2**32 - 2)
    gid: int = Field(default=-1, ge=-1, le=2**32 - 2)
    mode: int = Field(default=0o700, ge=0, le=0o7777)
    ceiling: float = Field(default=0.0, ge=0, lt=1e18)
    since: float = Field(default=0.0, ge=-1e12, le=1e12)


class HelloForm(Table):
    """A node with all its disks, and all that its agent found on them (null if it did not look). `unseen` are disks
    that it can't look at just now, each with the reason.

    `number` rises with every report of the agent; one that is older than the last is not heeded. `seen` is the `seen`
    of the last answer that it acted on ("" if it remembers none): a service whose journal does not know it removes
    nothing there that may be somebody's.
    """

    address: str = ""
    network_bandwidth: Quantity = 12.5e9
    fields: dict[str, Any] = Field(default_factory=dict)
    disks: list[DiskForm]
    unseen: _Words = Field(default_factory=dict)
    volumes: list[VolumeForm] | None = None
    number: int = Field(default=0, ge=0, lt=2**62)
    seen: str = Field(default="", max_length=100)


class ReportForm(Table):
    """What became of one volume; or, with `found`, all `volumes` that there are on the node's disks.

    Of one that `failed`, `fault` is why: the disk, a disk without room, or what was asked for. One that is `stuck`
    can't be removed.
    """

    kind: Literal["made", "failed", "lost", "gone", "stuck", "found"]
    number: int = Field(default=0, ge=0, lt=2**62)
    volume: str = Field(default="", max_length=200)
    disk: str = ""
    path: str = Field(default="", max_length=4096)
    device: str = Field(default="", max_length=4096)
    settings: _Words = Field(default_factory=dict)
    because: str = ""
    fault: Fault = "disk"
    volumes: list[VolumeForm] = Field(default_factory=list)


class LogForm(Table):
    """A line of an agent's log."""

    time: float = Field(ge=-1e12, le=1e12)
    level: Literal["debug", "info", "warning", "error"] = "info"
    grant: str = ""
    text: str


class DrainForm(Table):
    disk: str = ""


class DiscardForm(Table):
    """`what` is a node, or a grant."""

    what: str = Field(max_length=100)


class AdoptForm(Table):
    what: str = Field(max_length=100)
    seconds: Quantity


class PolicyForm(Table):
    policy: str


class RulesForm(Table):
    """Those that are left out stay as they are."""

    split: Quantity | None = None
    tries: int | None = None
    interval: Quantity | None = None
    longest: Quantity | None = None
    ahead: Quantity | None = None
    remember: Quantity | None = None
    most: int | None = None


class TokenForm(Table):
    """A token that is there already gets a new secret. Users' tokens need a uid, agents' a node. One for `metrics` may
    read those, and nothing else."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$")
    role: Literal["user", "agent", "administrator", "metrics"]
    node: str = Field(default="", max_length=100)
    uid: int | None = Field(default=None, ge=0, le=2**32 - 2)
    gid: int | None = Field(default=None, ge=0, le=2**32 - 2)


def size_of(where: str, value: Quantity) -> int:
    """Whole bytes."""
    found = _parsed(where, value, parse_size)
    if abs(found) >= 2**62:
        raise BadInput(where, f"is more than anybody has: {value!r:.40}")
    return value if isinstance(value, int) else math.ceil(found)


def seconds_of(where: str, value: Quantity) -> float:
    return _parsed(where, value, parse_duration)


def bandwidth_of(where: str, value: Quantity) -> float:
    return _parsed(where, value, parse_bandwidth)


def _parsed(where: str, value: Quantity, parse: Callable[[str | float], float]) -> float:
    try:
        found = float(parse(value))
    except (ValueError, OverflowError) as error:
        raise BadInput(where, str(error)[:200]) from None
    if not math.isfinite(found):
        raise BadInput(where, f"must be finite, not {value!r:.40}")
    return found
