"""The bodies of calls. Sizes are bytes or text with a unit, durations seconds or text with a unit."""

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal

from forebay.decide.grants.machine import DISK_NAME, Fault, Role
from forebay.history.toml import BeforeValidator, Field, Table
from forebay.model.grant import MOST_CHARACTERS, MOST_SECONDS, MOST_SERVERS, MOST_UID
from forebay.model.staging import LIMIT, MOST_PAIRS
from forebay.model.system import MOST_BYTES
from forebay.model.units import parse_bandwidth, parse_duration, parse_size

_LONGEST = 100  # characters of a number with a unit


def _describe(**bounds: Any) -> Any:
    """Bounds for the description alone. The decision checks them with a better message."""
    return Field(json_schema_extra=bounds)


def _quantity(
    parse: Callable[[Any], float], least: float, most: float, convert: Callable[[Any, float], object] | None = None
) -> BeforeValidator:
    """Read a number, or text with a unit; `convert` gets the value and its number."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError("must be a number, or text with a unit")
        if isinstance(value, str) and len(value) > _LONGEST:
            raise ValueError(f"must be at most {_LONGEST} characters, not {value[:40]!r}...")
        try:
            number = float(parse(value))
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"must be finite, not {value!r:.40}")
        return convert(value, number) if convert else number

    bounds = _describe(minimum=least, maximum=most, maxLength=_LONGEST)
    return BeforeValidator(read, json_schema_input_type=Annotated[int | float | str, bounds])


def _whole_bytes(value: object, number: float) -> int:
    if abs(number) >= 2**62:
        raise ValueError(f"must be below 4 EiB, not {value!r:.40}")
    return value if isinstance(value, int) else math.ceil(number)


def _time(value: object, number: float) -> float | timedelta:
    return timedelta(seconds=max(-1e13, min(1e13, number))) if isinstance(value, str) else number


Size = Annotated[int, _quantity(parse_size, 0, MOST_BYTES, _whole_bytes)]
Seconds = Annotated[float, _quantity(parse_duration, 0, MOST_SECONDS)]
Bandwidth = Annotated[float, _quantity(parse_bandwidth, 0, 1e300)]
Start = Annotated[float | timedelta, _quantity(parse_duration, -1e12, 1e12, _time)]
"""Seconds since 1970, or a time from now."""
Moment = Annotated[float, Field(ge=-1e12, le=1e12)]
Count = Annotated[int, _describe(minimum=0, maximum=10**18)]
Serial = Annotated[int, Field(ge=0, lt=2**62)]
Id = Annotated[int, _describe(minimum=0, maximum=MOST_UID)]
Word = Annotated[str, _describe(maxLength=MOST_CHARACTERS)]
Name = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Path = Annotated[str, Field(max_length=4096)]
Label = Annotated[str, Field(max_length=100)]
DiskName = Annotated[str, _describe(pattern=f"^{DISK_NAME}$")]
VolumeName = Annotated[str, Field(max_length=200)]
Level = Literal["debug", "info", "warning", "error"]
_MARK = Field(ge=-1, le=MOST_UID)
_TokenName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$")]
_Words = Annotated[dict[str, Word], Field(max_length=1000)]
_Hosts = Annotated[list[Word], Field(max_length=10_000)]
_Texts = Annotated[dict[str, str], Field(max_length=10_000)]
_Fields = Annotated[dict[str, Any], Field(max_length=10_000)]


class AskForm(Table):
    """A request for space."""

    size: Annotated[int, _quantity(parse_size, 1, MOST_BYTES, _whole_bytes), "How much."]
    seconds: Annotated[Seconds, "For how long."]
    start: Annotated[
        Start | None, 'From when: seconds since 1970, or text such as "2h" for a time from now. Default: now.'
    ] = None
    tier: Annotated[Word, "The kind of disks. Default: any."] = ""
    fields: Annotated[_Words, "Fields that the disks must have, with their values."] = Field(default_factory=dict)
    key: Annotated[Word, "The caller's own name for the request; the same key means the same request."] = ""
    job: Annotated[Word, "The batch job that it is for."] = ""
    expose: Annotated[Word, "How other nodes reach the volumes: nbd or nvmet. Default: mounted on their node."] = ""
    hosts: Annotated[_Hosts, "The hosts that may reach the volumes, for nvmet."] = Field(default_factory=list)
    type: Annotated[
        Word, "What it is: `volumes` on one disk or several, or a `shared` file system for several nodes."
    ] = "volumes"
    servers: Annotated[
        int, _describe(minimum=0, maximum=MOST_SERVERS), "Data servers of a shared file system; 0: the service chooses."
    ] = 0
    equal: Annotated[bool, "Whether all parts of a shared file system must have the same size."] = False
    mode: Annotated[int, _describe(minimum=0, maximum=0o7777), "Mode of the volume's folder."] = 0o700
    ceiling: Annotated[Bandwidth, "The highest bandwidth of each volume; 0: no limit."] = 0.0
    uid: Annotated[Id | None, "On whose behalf, by uid (administrators)."] = None
    gid: Annotated[Id | None, "The group (administrators)."] = None


class StageForm(Table):
    """Which files the storage nodes copy."""

    way: Annotated[Literal["in", "out"], "Into the space, or out of it."]
    pairs: Annotated[
        list[Annotated[list[Path], Field(min_length=2, max_length=2)]], Field(max_length=MOST_PAIRS),
        "A source and a target each: a path outside and a name in the space; with `out`, the reverse.",
    ]  # fmt: skip
    key: Annotated[Name, "The caller's own name for this; the same key means the same staging."] = ""
    limit: Annotated[Seconds, "The staging fails if no data has moved for this long."] = LIMIT


class CopyForm(Table):
    """What an agent has copied so far."""

    grant: Annotated[Label, "The grant."]
    key: Annotated[Name, "The staging."]
    step: Annotated[Literal["copying", "copied", "settled"], "What the node has done."]
    files: Annotated[Serial, "Files that it has copied."] = 0
    bytes: Annotated[Serial, "Bytes that it has copied."] = 0
    total: Annotated[Serial, "How many files it will copy; 0: unknown."] = 0
    missing: Annotated[
        list[int], Field(max_length=MOST_PAIRS), "Numbers of the pairs of whose source it has nothing."
    ] = Field(default_factory=list)
    because: Annotated[str, "Why it cannot go on."] = ""


class ReleaseForm(Table):
    """Why a grant is released."""

    because: Annotated[str, Field(max_length=200), "A reason for the grant's story."] = ""


class ExtendForm(Table):
    """Either `seconds` or `until`. With `until`, the call is safe to repeat."""

    seconds: Annotated[Seconds | None, "How many seconds to add."] = None
    until: Annotated[Moment | None, "The new end."] = None


class DiskForm(Table):
    """A disk of a storage node."""

    name: Annotated[DiskName, "Its name on its node."]
    capacity: Annotated[Size, "Bytes that can be granted in all."]
    read_bandwidth: Annotated[Bandwidth, "How fast it reads."]
    write_bandwidth: Annotated[Bandwidth, "How fast it writes."]
    kind: Annotated[Name, "The kind of its volumes."] = ""
    identity: Annotated[Path, "Identifies the disk, such as a serial number."] = ""
    fields: Annotated[_Fields, "What users can ask for."] = Field(default_factory=dict)


class VolumeForm(Table):
    """A volume that an agent found on one of its disks."""

    name: Annotated[VolumeName, "The volume's name."]
    disk: Annotated[DiskName, "The disk that it is on."]
    size: Annotated[int, Field(ge=0, lt=2**63), "Bytes."]
    state: Annotated[Literal["whole", "half"], "`half` if it is incomplete or not mounted."] = "whole"
    path: Annotated[Path, "Where it is mounted."] = ""
    device: Annotated[Path, "Its block device."] = ""
    settings: Annotated[_Texts, "How to reach it, if it is exposed."] = Field(default_factory=dict)
    uid: Annotated[int, _MARK, "The owner's uid, from its mark; -1: unknown."] = -1
    gid: Annotated[int, _MARK, "The owner's group; -1: unknown."] = -1
    mode: Annotated[int, Field(ge=0, le=0o7777), "Mode of its folder."] = 0o700
    ceiling: Annotated[float, Field(ge=0, lt=1e18), "Its highest bandwidth; 0: no limit."] = 0.0
    since: Annotated[Moment, "When it was made; 0: unknown."] = 0.0


_Volumes = Annotated[list[VolumeForm], Field(max_length=1_000_000)]


class HelloForm(Table):
    """A storage node with all its disks and volumes.

    A service whose journal does not know `seen` removes nothing on the node that may belong to somebody.
    """

    address: Annotated[str, Field(max_length=1000), "Where clients reach exposed volumes."] = ""
    network_bandwidth: Annotated[Bandwidth, "Bandwidth of the node's network."] = 12.5e9
    fields: Annotated[_Fields, "What users can ask for."] = Field(default_factory=dict)
    disks: Annotated[list[DiskForm], Field(max_length=10_000), "All its disks."]
    unseen: Annotated[_Texts, "Disks that the agent cannot read at present, with the reason."] = Field(
        default_factory=dict
    )
    volumes: Annotated[_Volumes | None, "All volumes on its disks; null if the agent did not look."] = None
    number: Annotated[Serial, "Increases with every report; the service ignores older reports."] = 0
    seen: Annotated[Label, "The `seen` of the answer that the agent last acted on; empty: none."] = ""


class ReportForm(Table):
    """The result of an action on one volume; or, with `found`, all volumes on the node's disks."""

    kind: Annotated[Literal["made", "failed", "lost", "gone", "stuck", "found"], "What happened."]
    number: Annotated[Serial, "Increases with every report; the service ignores older reports."] = 0
    volume: Annotated[VolumeName, "The volume."] = ""
    disk: Annotated[Name, "Its disk."] = ""
    path: Annotated[Path, "Where it is mounted."] = ""
    device: Annotated[Path, "Its block device."] = ""
    settings: Annotated[_Texts, "How to reach it, if it is exposed."] = Field(default_factory=dict)
    because: Annotated[str, "Why it failed, is lost or cannot be removed."] = ""
    fault: Annotated[Fault, "Why it failed: the `disk`, a disk without `room`, or the `request` itself."] = "disk"
    volumes: Annotated[_Volumes, "With `found`: all volumes."] = Field(default_factory=list)


class LogForm(Table):
    """A line of an agent's log."""

    time: Annotated[Moment, "When."]
    level: Annotated[Level, "How serious."] = "info"
    grant: Annotated[str, "The grant that it is about."] = ""
    text: Annotated[str, "The line."]


class RateForm(Table):
    """The bandwidth of a disk in use."""

    disk: Annotated[Name, "The disk."]
    write: Annotated[float, Field(ge=0, le=1e15), "Bytes written per second."]
    read: Annotated[float, Field(ge=0, le=1e15), "Bytes read per second."]


class DrainForm(Table):
    """What to drain."""

    disk: Annotated[Name, "Only this disk of the node. Default: the whole node."] = ""


class DiscardForm(Table):
    """Which kept volumes to discard."""

    what: Annotated[Label, "A grant, or a node."]


class AdoptForm(Table):
    """Which kept volumes to adopt."""

    what: Annotated[Label, "A grant, or a node."]
    seconds: Annotated[Seconds, "For how long from now."]


class PolicyForm(Table):
    """The storage policy to use from now on."""

    policy: Annotated[Name, "The storage policy; `forebay policies` lists them."]


class RulesForm(Table):
    """The rules to change; the others stay as they are."""

    split: Annotated[Size | None, "Larger requests are split over several disks; 0: never."] = None
    tries: Annotated[Count | None, "How often a request without space is retried."] = None
    interval: Annotated[Seconds | None, "Time between tries."] = None
    longest: Annotated[Seconds | None, "The longest duration of a grant."] = None
    ahead: Annotated[Seconds | None, "How long before its start a grant can be requested."] = None
    remember: Annotated[Seconds | None, "How long ended grants are listed."] = None
    most: Annotated[Count | None, "Grants that a user may hold or have queued at once; 0: no limit."] = None


class TokenForm(Table):
    """A new token, or a new secret for an old one. A user's token needs a uid, an agent's a node."""

    name: Annotated[_TokenName, "Its name. It replaces the token of the same name."]
    role: Annotated[Role, "What its owner may do; `metrics`: only read metrics."]
    node: Annotated[Label, "The node of an agent."] = ""
    uid: Annotated[int | None, Field(ge=0, le=MOST_UID), "The user's uid."] = None
    gid: Annotated[int | None, Field(ge=0, le=MOST_UID), "The user's group. Default: the user's own."] = None


class LoginForm(Table):
    """The secret that logs a visitor in."""

    secret: Annotated[str, Field(min_length=1, max_length=500), "A token, or the secret of a one-time link."]
