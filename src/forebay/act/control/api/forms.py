"""What callers send to the service. Sizes are bytes or text with a unit, durations seconds or text with a unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from forebay.decide.grants.commands import Fault
from forebay.decide.grants.machine import DISK_NAME
from forebay.history.toml import Field, Table
from forebay.model.errors import BadInput
from forebay.model.grant import MOST_CHARACTERS, MOST_SECONDS, MOST_UID
from forebay.model.system import MOST_BYTES
from forebay.model.units import parse_bandwidth, parse_duration, parse_size

Quantity = int | float | str
LONGEST_QUANTITY = 100
"""Characters of a number with a unit."""


def _described(**bounds: Any) -> Any:
    """Bounds for the description alone: those who decide know better words for what is beyond them."""
    return Field(json_schema_extra=bounds)


def _quantity(least: float, most: float) -> Any:
    return _described(minimum=least, maximum=most, maxLength=LONGEST_QUANTITY)


Size = Annotated[Quantity, _quantity(0, MOST_BYTES)]
Seconds = Annotated[Quantity, _quantity(0, MOST_SECONDS)]
Moment = Annotated[float, Field(ge=-1e12, le=1e12)]
Bandwidth = Annotated[Quantity, _quantity(0, 1e300)]
Count = Annotated[int, _described(minimum=0, maximum=10**18)]
Id = Annotated[int, _described(minimum=0, maximum=MOST_UID)]
Word = Annotated[str, _described(maxLength=MOST_CHARACTERS)]
Path = Annotated[str, Field(max_length=4096)]
DiskName = Annotated[str, _described(pattern=f"^{DISK_NAME}$")]
_Words = Annotated[dict[str, Word], Field(max_length=1000)]
_Texts = Annotated[dict[str, str], Field(max_length=10_000)]
_Fields = Annotated[dict[str, Any], Field(max_length=10_000)]
_MOST_VOLUMES = 1_000_000


class AskForm(Table):
    """A request. `start` is seconds since 1970, or text such as "2h" for so long from now.

    `uid` and `gid` are for administrators, who may ask on behalf of somebody.
    """

    size: Annotated[Quantity, _quantity(1, MOST_BYTES)]
    seconds: Seconds
    start: Annotated[Quantity, _quantity(-1e12, 1e12)] | None = None
    tier: Word = ""
    fields: _Words = Field(default_factory=dict)
    key: Word = ""
    job: Word = ""
    expose: Word = ""
    hosts: list[Word] = Field(default_factory=list, max_length=10_000)
    mode: Annotated[int, _described(minimum=0, maximum=0o7777)] = 0o700
    ceiling: Bandwidth = 0.0
    uid: Id | None = None
    gid: Id | None = None


class ReleaseForm(Table):
    """Why it is given back, if there is anything to say."""

    because: str = Field(default="", max_length=200)


class ExtendForm(Table):
    """Either `seconds` more than it has, or `until` a time (seconds since 1970), which can be sent twice."""

    seconds: Seconds | None = None
    until: Moment | None = None


class DiskForm(Table):
    """`capacity` is what can be granted in all. `kind` is that of its volumes."""

    name: DiskName
    capacity: Size
    read_bandwidth: Bandwidth
    write_bandwidth: Bandwidth
    kind: str = Field(default="", max_length=MOST_CHARACTERS)
    identity: str = Field(default="", max_length=4096)
    fields: _Fields = Field(default_factory=dict)


class VolumeForm(Table):
    """A volume that an agent found on one of its disks; `half` if anything of it is missing or not mounted."""

    name: str = Field(max_length=200)
    disk: DiskName
    size: int = Field(ge=0, lt=2**63)
    state: Literal["whole", "half"] = "whole"
    path: Path = ""
    device: Path = ""
    settings: _Texts = Field(default_factory=dict)
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

    address: str = Field(default="", max_length=1000)
    network_bandwidth: Bandwidth = 12.5e9
    fields: _Fields = Field(default_factory=dict)
    disks: list[DiskForm] = Field(max_length=10_000)
    unseen: _Texts = Field(default_factory=dict)
    volumes: Annotated[list[VolumeForm], Field(max_length=_MOST_VOLUMES)] | None = None
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
    disk: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    path: Path = ""
    device: Path = ""
    settings: _Texts = Field(default_factory=dict)
    because: str = ""
    fault: Fault = "disk"
    volumes: list[VolumeForm] = Field(default_factory=list, max_length=_MOST_VOLUMES)


class LogForm(Table):
    """A line of an agent's log."""

    time: float = Field(ge=-1e12, le=1e12)
    level: Literal["debug", "info", "warning", "error"] = "info"
    grant: str = ""
    text: str


class DrainForm(Table):
    """Without `disk`, the whole node."""

    disk: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""


class DiscardForm(Table):
    """`what` is a node, or a grant."""

    what: str = Field(max_length=100)


class AdoptForm(Table):
    """`what` is a node, or a grant."""

    what: str = Field(max_length=100)
    seconds: Seconds


class PolicyForm(Table):
    """The policy to decide by from now on."""

    policy: str = Field(max_length=MOST_CHARACTERS)


class RulesForm(Table):
    """Those that are left out stay as they are."""

    split: Size | None = None
    tries: Count | None = None
    interval: Seconds | None = None
    longest: Seconds | None = None
    ahead: Seconds | None = None
    remember: Seconds | None = None
    most: Count | None = None


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
    if isinstance(value, str) and len(value) > LONGEST_QUANTITY:
        raise BadInput(where, f"must be at most {LONGEST_QUANTITY} characters, not {value[:40]!r}...")
    try:
        found = float(parse(value))
    except (ValueError, OverflowError) as error:
        raise BadInput(where, str(error)[:200]) from None
    if not math.isfinite(found):
        raise BadInput(where, f"must be finite, not {value!r:.40}")
    return found
