"""A storage node as its agent's TOML file describes it, checked; examples/agent.toml explains it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay.act.control.agent.actions import Node
from forebay.act.control.agent.disks import FIELD, AgentDisk
from forebay.act.control.client import Address, parse_service
from forebay.act.volumes.kinds import exposures, volumes
from forebay.decide.grants.machine import check_fields, check_node
from forebay.history.toml import Bytes, BytesPerSecond, Field, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput
from forebay.model.units import format_duration

_MEANS = {"directory": ("none",), "btrfs": ("none",), "loop": ("none", "nbd"), "lvm": ("none", "nbd"),
          "nvmet": ("nvmet",)}  # fmt: skip
"""How volumes of each kind can be reached; the first is what a disk has that says nothing of it."""
_DISK = re.compile(r"[A-Za-z0-9/._:@+-]{1,200}")


class _Agent(Table):
    node: str
    """What the service and its users call this node."""
    service: str
    """The control service: unix:PATH, or https://HOST:PORT."""
    token: str | None = None
    """The file with the agent's token, mode 0600; not needed by root on the service's socket."""
    authority: str | None = None
    """Who signed the service's certificate (a PEM file), if the system does not know."""
    folder: str
    """Keeps what must outlive a restart: numbers of reports, keys of exposed volumes."""
    address: str = "127.0.0.1"
    """Where clients reach exposed volumes."""
    network_bandwidth: BytesPerSecond = 1.25e9
    """That of the node."""
    parallel: int = Field(4, ge=1, le=64)
    """How many volumes are made or released at once."""
    look: Seconds = 60.0
    """How often the disks are looked at for what is lost."""
    heartbeat: Seconds = 20.0
    """How often the service hears of the agent, at least."""
    give_up: Seconds = 300.0
    """A disk that can't be looked at for so long counts as lost."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Whatever else users may ask for, such as a rack."""


class _Disk(Table):
    name: str
    """What the service and its users call the disk."""
    kind: str
    """What a volume is: directory, loop, btrfs, lvm or nvmet."""
    root: str
    """Where volumes are made or mounted; the agent's user owns it, and nobody else writes there."""
    group: str = ""
    """The volume group, for lvm and nvmet."""
    fs: str = "ext4"
    """The file system of volumes, for loop and lvm: ext4 or xfs."""
    expose: str | None = None
    """Leave volumes unmounted for other nodes: nbd or nvmet; none mounts them here. [default: by kind]"""
    capacity: Bytes | None = None
    """What can be granted. [default: all that is usable]"""
    read_bandwidth: BytesPerSecond
    """How fast it reads."""
    write_bandwidth: BytesPerSecond
    """How fast it writes."""
    identity: str = ""
    """Tells the disk from all others, such as its serial number."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Whatever users may ask for; `tier` is the kind of disk."""


class _File(Table):
    agent: _Agent
    """The agent of this node."""
    disk: list[_Disk] = Field(min_length=1)
    """A disk of this node, one table for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """`folder` keeps what the agent must know after a restart; `look` is how often it looks at its disks, in seconds.

    `address` is where clients reach exposed volumes, `parallel` how many volumes are worked on at once. The service
    hears of the agent at least every `heartbeat` seconds. A disk that was there and can't be looked at for `give_up`
    seconds is given up, with all that is on it.
    """

    name: str
    service: Address
    folder: Path
    token: Path | None
    authority: Path | None
    address: str
    network_bandwidth: float
    parallel: int
    look: float
    heartbeat: float
    give_up: float
    node: Node
    fields: dict[str, Any] = field(default_factory=dict)


def read_agent(path: Path) -> AgentFile:
    """The node; an error says what is wrong, and under which key of the file. Other paths are relative to it."""
    file, base = validate(path, load_toml(path), _File), path.absolute().parent
    agent = file.agent
    _check_agent(path, agent)
    disks = {disk.name: _disk(f"{path}: disk[{at}]", base, disk) for at, disk in enumerate(file.disk)}
    _check_disks(path, base, file.disk)
    folder = base / agent.folder
    return AgentFile(
        name=agent.node,
        service=parse_service(agent.service, f"{path}: agent.service"),
        folder=folder,
        token=None if agent.token is None else base / agent.token,
        authority=None if agent.authority is None else base / agent.authority,
        address=agent.address,
        network_bandwidth=agent.network_bandwidth,
        parallel=agent.parallel,
        look=agent.look,
        heartbeat=agent.heartbeat,
        give_up=agent.give_up,
        node=Node(disks=disks, exposures=exposures(folder / "exposed", address=agent.address)),
        fields=agent.fields,
    )


def _check_agent(path: Path, agent: _Agent) -> None:
    check_node(agent.node, agent.network_bandwidth)
    check_fields(f"{path}: agent.fields", agent.fields)
    if parse_service(agent.service, f"{path}: agent.service").url and agent.token is None:
        raise BadInput(
            f"{path}: agent.token", "is missing: over a network only a token tells for which node an agent speaks"
        )
    if not 1 <= agent.look <= 86_400:
        raise BadInput(f"{path}: agent.look", f"must be from a second to a day, not {format_duration(agent.look)}")
    if not 0 <= agent.give_up <= 86_400:
        raise BadInput(f"{path}: agent.give_up", f"must be from 0 to a day, not {format_duration(agent.give_up)}")
    if not 0.1 <= agent.heartbeat <= 50:
        raise BadInput(
            f"{path}: agent.heartbeat", f"must be from 0.1 s to 50 s, not {format_duration(agent.heartbeat)}"
        )


def _check_disks(path: Path, base: Path, disks: list[_Disk]) -> None:
    """No two of one name, nor on one folder: each would take what it finds there for its own."""
    for at, disk in enumerate(disks):
        for other in disks[:at]:
            if disk.name == other.name:
                raise BadInput(f"{path}: disk[{at}].name", f"there are two disks {disk.name!r}")
            if (base / disk.root).resolve() == (base / other.root).resolve():
                raise BadInput(f"{path}: disk[{at}].root", f"is that of disk {other.name!r} already")
            if disk.group and disk.group == other.group:
                raise BadInput(f"{path}: disk[{at}].group", f"is that of disk {other.name!r} already")


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
    own = volumes(disk.kind, base / disk.root, fs=disk.fs, group=disk.group, local=expose == "none")
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
