"""The settings of a storage node's agent: its TOML file, checked. examples/agent.toml explains it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from forebay.act.control.agent.actions import Node
from forebay.act.control.agent.disks import FIELD, AgentDisk
from forebay.act.control.client import parse_service
from forebay.act.volumes.kinds import open_exposures, open_volumes
from forebay.decide.grants.machine import check_fields, check_node
from forebay.history.toml import Bytes, BytesPerSecond, Field, RelativePath, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput
from forebay.model.units import format_duration

_MEANS = {"directory": ("none",), "btrfs": ("none",), "loop": ("none", "nbd"), "lvm": ("none", "nbd"),
          "nvmet": ("nvmet",)}  # fmt: skip
"""How volumes of each kind can be reached; the first is the default."""
_DAY = 86_400.0
_DISK = re.compile(r"[A-Za-z0-9/._:@+-]{1,200}")


class AgentSettings(Table):
    node: str
    """The node's name for the service and its users."""
    service: str
    """The control service: unix:PATH, or https://HOST:PORT."""
    token: Annotated[Path | None, RelativePath] = None
    """The file with the agent's token, mode 0600. Root on the service's socket needs none."""
    authority: Annotated[Path | None, RelativePath] = None
    """The authority that signed the service's certificate (a PEM file), if the system does not know it."""
    folder: Annotated[Path, RelativePath]
    """Keeps what must outlive a restart: numbers of reports, keys of exposed volumes."""
    address: str = "127.0.0.1"
    """Where clients reach exposed volumes."""
    network_bandwidth: BytesPerSecond = 1.25e9
    """Bandwidth of the node's network."""
    parallel: int = Field(4, ge=1, le=64)
    """How many volumes are made or released at once."""
    look: Seconds = 60.0
    """How often the agent checks its disks for lost volumes."""
    heartbeat: Seconds = 20.0
    """How often the agent calls the service, at least."""
    give_up: Seconds = 300.0
    """A disk that cannot be read for this long counts as lost."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Whatever else users can ask for, such as a rack."""

    def check(self, path: Path) -> None:
        check_node(self.node, self.network_bandwidth)
        check_fields(f"{path}: agent.fields", self.fields)
        if parse_service(self.service, f"{path}: agent.service").url and self.token is None:
            raise BadInput(
                f"{path}: agent.token", "is missing: over a network, only a token identifies an agent's node"
            )
        for name, least, most, bounds in (
            ("look", 1.0, _DAY, "from a second to a day"),
            ("give_up", 0.0, _DAY, "from 0 to a day"),
            ("heartbeat", 0.1, 50.0, "from 0.1 s to 50 s"),
        ):
            if not least <= (seconds := getattr(self, name)) <= most:
                raise BadInput(f"{path}: agent.{name}", f"must be {bounds}, not {format_duration(seconds)}")


class _Disk(Table):
    name: str
    """The disk's name for the service and its users."""
    kind: str
    """The kind of its volumes: directory, loop, btrfs, lvm or nvmet."""
    root: str
    """Where volumes are made or mounted. The agent's user owns it, and nobody else can write there."""
    group: str = ""
    """The volume group, for lvm and nvmet."""
    fs: str = "ext4"
    """The file system of volumes, for loop and lvm: ext4 or xfs."""
    expose: str | None = None
    """Leave volumes unmounted for other nodes: nbd or nvmet; none mounts them here. [default: by kind]"""
    capacity: Bytes | None = None
    """Bytes that can be granted. [default: all usable space]"""
    read_bandwidth: BytesPerSecond
    """How fast it reads."""
    write_bandwidth: BytesPerSecond
    """How fast it writes."""
    identity: str = ""
    """Tells the disk from all others, such as its serial number."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Whatever users can ask for; `tier` is the kind of disk."""


class _File(Table):
    agent: AgentSettings
    """The agent of this node."""
    disk: list[_Disk] = Field(min_length=1)
    """A disk of this node, one table for each."""


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent's settings, and the disks that it works on."""

    settings: AgentSettings
    node: Node


def read_agent(path: Path) -> AgentFile:
    """The agent's file. An error names the key that is wrong."""
    file, base = validate(path, load_toml(path), _File), path.absolute().parent
    settings = file.agent
    settings.check(path)
    disks = {disk.name: _disk(f"{path}: disk[{at}]", base, disk) for at, disk in enumerate(file.disk)}
    _check_disks(path, base, file.disk)
    return AgentFile(
        settings, Node(disks=disks, exposures=open_exposures(settings.folder / "exposed", address=settings.address))
    )


def _check_disks(path: Path, base: Path, disks: list[_Disk]) -> None:
    """No two disks may share a name or a folder: each would take the other's volumes for its own."""
    for at, disk in enumerate(disks):
        for other in disks[:at]:
            if disk.name == other.name:
                raise BadInput(f"{path}: disk[{at}].name", f"two disks have the name {disk.name!r}")
            if (base / disk.root).resolve() == (base / other.root).resolve():
                raise BadInput(f"{path}: disk[{at}].root", f"belongs to disk {other.name!r} already")
            if disk.group and disk.group == other.group:
                raise BadInput(f"{path}: disk[{at}].group", f"belongs to disk {other.name!r} already")


def _disk(where: str, base: Path, disk: _Disk) -> AgentDisk:
    if not _DISK.fullmatch(disk.name):
        raise BadInput(f"{where}.name", f"{disk.name[:40]!r} is not a valid disk name")
    for name in ("read_bandwidth", "write_bandwidth"):
        if not 0 < getattr(disk, name) < math.inf:
            raise BadInput(f"{where}.{name}", "must be positive and finite")
    if disk.capacity is not None and not 1 <= disk.capacity < 2**60:
        raise BadInput(f"{where}.capacity", f"must be at least one byte, and at most 1 EiB, not {disk.capacity:g}")
    check_fields(f"{where}.fields", disk.fields)
    expose = _means(where, disk)
    own = open_volumes(disk.kind, base / disk.root, fs=disk.fs, group=disk.group, local=expose == "none")
    return AgentDisk(
        name=disk.name, volumes=own, read_bandwidth=disk.read_bandwidth, write_bandwidth=disk.write_bandwidth,
        capacity=None if disk.capacity is None else int(disk.capacity), identity=disk.identity, expose=expose,
        root=base / disk.root, fields=disk.fields,
    )  # fmt: skip


def _means(where: str, disk: _Disk) -> str:
    if FIELD in disk.fields:
        raise BadInput(f"{where}.fields", f"{FIELD} is a key of the disk itself")
    possible = _MEANS.get(disk.kind, ("none",))
    means = disk.expose or possible[0]
    if means not in possible:
        raise BadInput(f"{where}.expose", f"{disk.kind} volumes can have {' or '.join(possible)}, not {means!r}")
    return means
