"""The machine: targets, disks, storage nodes and servers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_TARGETS = 10_000_000
MOST_BYTES = 10**18  # an exabyte: sums over a year's requests still fit into 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A machine with `targets` (I/O nodes, OSTs) that are all alike, and compute nodes."""

    targets: int
    compute_nodes: float

    def __post_init__(self) -> None:
        if not 1 <= self.targets <= MOST_TARGETS:
            raise ValueError(f"targets must be at least 1 and at most {MOST_TARGETS:,}, not {self.targets}")
        if not (math.isfinite(self.compute_nodes) and self.compute_nodes > 0):
            raise ValueError(f"compute_nodes must be positive and finite, not {self.compute_nodes:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk, in bytes and bytes per second. `fields` keeps all other keys of its file."""

    capacity: int
    write_bandwidth: float
    read_bandwidth: float
    fields: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.capacity <= MOST_BYTES:
            raise ValueError(f"capacity must be at least 1 byte and at most {MOST_BYTES:,}, not {self.capacity:,}")
        for name in ("write_bandwidth", "read_bandwidth"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name):g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A storage node: disks behind one network link."""

    name: str
    network_bandwidth: float
    disks: tuple[Disk, ...]
    fields: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.disks:
            raise ValueError("must have at least one disk")
        if not self.network_bandwidth > 0:
            raise ValueError(f"network_bandwidth must be positive, not {self.network_bandwidth:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A group of nodes under one name."""

    name: str
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ValueError("must have at least one node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Intermediate storage: servers, nodes and disks. Disks are numbered over all nodes, in order."""

    name: str
    servers: tuple[Server, ...]

    def __post_init__(self) -> None:
        if not self.servers:
            raise ValueError("must have at least one server")
        if len({node.name for node in self.nodes}) < len(self.nodes):
            raise ValueError("has two nodes with the same name; rename one")

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for server in self.servers for node in server.nodes)

    @property
    def disks(self) -> tuple[Disk, ...]:
        return tuple(disk for node in self.nodes for disk in node.disks)

    @property
    def capacity(self) -> int:
        return sum(disk.capacity for disk in self.disks)
