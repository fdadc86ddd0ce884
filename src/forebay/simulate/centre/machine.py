"""The machine of the centre, from its TOML file."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

from forebay.history.toml import Bytes, BytesPerSecond, Field, Table, load_toml, validate
from forebay.model.errors import BadInput
from forebay.model.system import Disk, Node, Platform, Server
from forebay.simulate.striping.machine import CORI, Machine

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Compute(Table):
    nodes: Count
    """How many compute nodes there are."""
    memory: Annotated[Bytes, Field(gt=0)]
    """The memory of a node that matters for checkpoints."""
    processes: Count
    """Processes on each node."""


class Capacity(Table):
    osts: Count
    """Targets on disks."""
    read: Annotated[BytesPerSecond, Field(gt=0)]
    """What they read together."""
    write: Annotated[BytesPerSecond, Field(gt=0)]
    """What they write together."""
    pools: Count
    """Into how many equal parts allocation divides the targets."""


class Flash(Table):
    osts: Count
    """Targets on flash, one a server."""
    capacity: Annotated[Bytes, Field(gt=0)]
    """What they hold together."""
    bandwidth: Annotated[BytesPerSecond, Field(gt=0)]
    """What they read or write together."""
    network: Annotated[BytesPerSecond, Field(gt=0)]
    """The network link of each server."""
    usable: Share
    """The share of the capacity that can be granted."""


class Client(Table):
    process: Annotated[BytesPerSecond, Field(gt=0)]
    """What one process gets through the client."""
    node: Annotated[BytesPerSecond, Field(gt=0)]
    """What one node gets."""


class Stripes(Table):
    count: Count
    """The stripe count."""
    size: Annotated[Bytes, Field(ge=65536)]
    """The stripe size, a multiple of 64 KiB."""
    head: Annotated[Bytes, Field(ge=0)] = 0.0
    """Bytes at the beginning of each file on one target."""


class Layouts(Table):
    default: Stripes
    """The layout of files without a decision."""
    by_hand: Stripes
    """The layout that users set by hand."""
    most: Count
    """The most stripes that are allowed."""


class Requests(Table):
    nodes: Count
    """I/O nodes that order requests."""
    servers: Count
    """Targets behind these I/O nodes."""


class Centre(Table):
    name: str
    """What the machine is called."""
    compute: Compute
    """The compute nodes."""
    capacity: Capacity
    """The disks of the parallel file system."""
    flash: Flash
    """The flash of the file system, as burst buffer."""
    client: Client
    """What gets through the file system's client."""
    layout: Layouts
    """Layouts of files."""
    requests: Requests
    """The layer that orders requests."""

    @property
    def targets(self) -> int:
        """The number of disk targets; flash targets are numbered after them."""
        return self.capacity.osts

    @property
    def width(self) -> int:
        """Targets of a pool."""
        return self.capacity.osts // self.capacity.pools

    @cached_property
    def write_machine(self) -> Machine:
        """The disks as a file system for writing."""
        return Machine(
            name=self.name[:16],
            targets=self.capacity.osts,
            target_bandwidth=_without_requests(self.capacity.write / self.capacity.osts),
            process_bandwidth=self.client.process,
            node_bandwidth=self.client.node,
            processes_per_node=self.compute.processes,
            aggregator_per_target=True,
            noise=0.0,
        )

    @cached_property
    def read_machine(self) -> Machine:
        """The disks as a file system for reading, without locks."""
        bandwidth = _without_requests(self.capacity.read / self.capacity.osts)
        return replace(self.write_machine, target_bandwidth=bandwidth, lock_seconds=0.0)

    @cached_property
    def buffer_machine(self) -> Machine:
        """The flash as a file system for writing."""
        return replace(self.write_machine, target_bandwidth=_without_requests(self.flash.bandwidth / self.flash.osts))

    @cached_property
    def platform(self) -> Platform:
        """The flash as storage policies see it: one disk per node."""
        count = self.flash.osts
        disk = Disk(
            capacity=max(1, int(self.flash.capacity * self.flash.usable / count)),
            write_bandwidth=self.flash.bandwidth / count,
            read_bandwidth=self.flash.bandwidth / count,
        )
        nodes = tuple(
            Node(name=f"flash-{k}", network_bandwidth=self.flash.network, disks=(disk,)) for k in range(count)
        )
        return Platform(name=self.name, servers=(Server(name="flash", nodes=nodes),))


def _without_requests(bandwidth: float) -> float:
    """Return the bandwidth of a target without request costs, given its `bandwidth` with the largest requests."""
    return 1 / max(1 / bandwidth - CORI.rpc_seconds / CORI.rpc_bytes, 1e-15)


def read_centre(path: Path) -> Centre:
    centre = validate(path, load_toml(path), Centre)
    if centre.capacity.osts % centre.capacity.pools:
        raise BadInput(f"{path}: capacity.pools", f"must divide the {centre.capacity.osts} targets")
    for name in ("default", "by_hand"):
        stripes: Stripes = getattr(centre.layout, name)
        if stripes.count > min(centre.layout.most, centre.capacity.osts) or int(stripes.size) % 65536:
            raise BadInput(f"{path}: layout.{name}", "size must be a multiple of 64 KiB, and count at most layout.most")
    return centre
