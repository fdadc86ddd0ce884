"""The settings of a storage node's agent: its TOML file, checked. examples/agent.toml explains it."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from forebay.act.control.agent.actions import Node
from forebay.act.control.agent.disk import EXPOSE, AgentDisk
from forebay.act.control.client import parse_service
from forebay.act.volumes.kinds import open_exposures, open_volumes
from forebay.decide.grants.machine import DISK_NAME, check_fields, check_node
from forebay.history.toml import Bytes, BytesPerSecond, Field, RelativePath, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput, UnknownName
from forebay.model.units import format_binary

_MEANS = {"directory": ("none",), "btrfs": ("none",), "loop": ("none", "nbd"), "lvm": ("none", "nbd"),
          "nvmet": ("nvmet",)}  # fmt: skip
"""How clients can reach volumes of each kind; the first is the default."""
_DAY = 86_400.0
_LEAST = 1 << 20  # bytes of a disk


class AgentSettings(Table):
    node: str  #: The node's name for the service and its users.
    service: str  #: The control service: unix:PATH, or https://HOST:PORT.
    token: Annotated[Path | None, RelativePath] = None
    """The file with the agent's token, mode 0600. Root on the service's socket needs none."""
    authority: Annotated[Path | None, RelativePath] = None
    """The authority that signed the service's certificate (a PEM file), if the system does not know it."""
    folder: Annotated[Path, RelativePath]
    """Files that must survive a restart: numbers of reports, keys of exposed volumes."""
    address: str = Field("127.0.0.1", pattern=r"^[A-Za-z0-9._:%-]{1,253}$")  #: Where clients reach exposed volumes.
    network_bandwidth: BytesPerSecond = 1.25e9  #: Bandwidth of the node's network.
    parallel: int = Field(4, ge=1, le=64)  #: How many volumes are made or released at once.
    look: Seconds = Field(60.0, ge=1.0, le=_DAY)  #: How often the agent checks its disks for lost volumes.
    heartbeat: Seconds = Field(20.0, ge=0.1, le=50.0)  #: How often the agent calls the service, at least.
    give_up: Seconds = Field(300.0, ge=0.0, le=_DAY)  #: A disk that cannot be read for this long counts as lost.
    fields: dict[str, Any] = Field(default_factory=dict)  #: Whatever else users can ask for, such as a rack.

    def check(self, path: Path) -> None:
        check_node(self.node, self.network_bandwidth, f"{path}: agent.")
        _check_fields(f"{path}: agent.fields", self.fields)
        if parse_service(self.service, f"{path}: agent.service").url and self.token is None:
            raise BadInput(f"{path}: agent.token", "is missing; over a network, a token must identify the agent's node")


class _Disk(Table):
    name: str = Field(pattern=f"^{DISK_NAME}$")  #: The disk's name for the service and its users.
    kind: str  #: The kind of its volumes: directory, loop, btrfs, lvm or nvmet.
    root: Annotated[Path, RelativePath]
    """Where volumes are made or mounted. The agent's user owns it, and nobody else can write there."""
    group: str = ""  #: The volume group, for lvm and nvmet.
    fs: str = "ext4"  #: The file system of volumes, for loop and lvm: ext4 or xfs.
    expose: str | None = None
    """Leave volumes unmounted for other nodes: nbd or nvmet; none mounts them here. [default: by kind]"""
    capacity: Bytes | None = Field(None, ge=1, lt=2**60)  #: Bytes that can be granted. [default: all usable space]
    read_bandwidth: BytesPerSecond = Field(gt=0, allow_inf_nan=False)  #: How fast it reads.
    write_bandwidth: BytesPerSecond = Field(gt=0, allow_inf_nan=False)  #: How fast it writes.
    identity: str = ""  #: Identifies the disk, such as its serial number.
    fields: dict[str, Any] = Field(default_factory=dict)  #: Whatever users can ask for; `tier` is the kind of disk.


class _File(Table):
    agent: AgentSettings  #: The agent of this node.
    disk: list[_Disk] = Field(min_length=1)  #: A disk of this node, one table for each.


class AgentFile(NamedTuple):
    """An agent's settings, and the disks that it works on."""

    settings: AgentSettings
    node: Node


def read_agent(path: Path) -> AgentFile:
    """Read the agent's file. An error names the wrong key."""
    file = validate(path, load_toml(path), _File)
    settings = file.agent
    settings.check(path)
    disks: dict[str, AgentDisk] = {}
    for at, disk in enumerate(file.disk):
        for other in file.disk[:at]:
            _check_apart(f"{path}: disk[{at}]", disk, other)
        disks[disk.name] = _open_disk(f"{path}: disk[{at}]", disk)
    exposures = open_exposures(settings.folder / "exposed", address=settings.address)
    return AgentFile(settings, Node(disks=disks, exposures=exposures))


def _check_apart(where: str, disk: _Disk, other: _Disk) -> None:
    """Check that two disks share no name, folder or group: each would treat the other's volumes as its own."""
    if disk.name == other.name:
        raise BadInput(f"{where}.name", f"two disks have the name {disk.name!r}; rename one")
    if disk.root.resolve() == other.root.resolve():
        raise BadInput(f"{where}.root", f"already belongs to disk {other.name!r}; give each disk its own folder")
    if disk.group and disk.group == other.group:
        raise BadInput(f"{where}.group", f"already belongs to disk {other.name!r}; give each disk its own group")


def _check_fields(where: str, fields: dict[str, Any]) -> None:
    check_fields(where, fields)
    for name, value in fields.items():
        if value == "":
            raise BadInput(
                f"{where}.{name}", "is empty, so that nobody can ask for it; leave it out or give it a value"
            )


def _open_disk(where: str, disk: _Disk) -> AgentDisk:
    _check_fields(f"{where}.fields", disk.fields)
    if EXPOSE in disk.fields:
        raise BadInput(f"{where}.fields", f"must not contain {EXPOSE}; set {EXPOSE} in the disk's own table")
    if disk.capacity is not None and disk.capacity < _LEAST:
        size = format_binary(int(disk.capacity))
        raise BadInput(f"{where}.capacity", f"must be at least 1 MiB, not {size}; a number without a unit is bytes")
    possible = _MEANS.get(disk.kind, ("none",))
    means = disk.expose or possible[0]
    if means not in possible:
        raise BadInput(f"{where}.expose", f"must be {' or '.join(possible)} for {disk.kind} volumes, not {means!r}")
    try:
        volumes = open_volumes(disk.kind, disk.root, fs=disk.fs, group=disk.group, local=means == "none")
    except (BadInput, UnknownName) as error:
        raise BadInput(where, str(error)) from None
    return AgentDisk(
        volumes=volumes,
        capacity=None if disk.capacity is None else int(disk.capacity),
        expose=means,
        **disk.model_dump(include={"name", "read_bandwidth", "write_bandwidth", "identity", "root", "fields"}),
    )
