"""What an agent sends to the service; the forms of the API say what each field means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict


class DiskReport(TypedDict):
    """A disk of the node."""

    name: str
    capacity: int
    read_bandwidth: float
    write_bandwidth: float
    kind: str
    identity: str
    fields: Mapping[str, object]


class Reached(TypedDict):
    """Where users find a volume."""

    path: str
    device: str


class FoundVolume(Reached):
    """A volume on one of the disks."""

    name: str
    disk: str
    size: int
    state: Literal["whole", "half"]
    settings: Mapping[str, str]
    uid: int
    gid: int
    mode: int
    ceiling: float
    since: float


class NodeReport(TypedDict):
    """The node with all its disks and volumes. A disk that is neither here nor in `unseen` is gone."""

    address: str
    network_bandwidth: float
    fields: Mapping[str, object]
    disks: list[DiskReport]
    volumes: list[FoundVolume]
    unseen: NotRequired[dict[str, str]]
    number: NotRequired[int]
    seen: NotRequired[str]


class VolumeReport(TypedDict):
    """What became of one volume."""

    kind: Literal["made", "failed", "gone", "stuck"]
    volume: str
    disk: str
    path: NotRequired[str]
    device: NotRequired[str]
    settings: NotRequired[Mapping[str, str]]
    because: NotRequired[str]
    fault: NotRequired[str]
    number: NotRequired[int]


class LogLine(TypedDict):
    """A line of the agent's log."""

    time: float
    level: str
    grant: str
    text: str
