"""The platforms of the StorAlloc paper, by name."""

from forebay.model.errors import UnknownName
from forebay.model.system import Disk, Node, Platform, Server

# Monniot et al. 2023, sections 5 and 6, with the figures of StorAlloc's own files: the paper writes Gbps for GB/s.
_TERABYTE = 10**12
_DISKS = 8
_NODES = {"nNnD": 4, "nN1D": 8, "1NnD": 1}
_NETWORK = 12.5e9

LAYOUTS = (*_NODES, "1N1D")
_CAPACITIES = {f"{terabytes}TB": terabytes * _TERABYTE for terabytes in (8, 16, 32, 64)}
_HETEROGENEOUS = "32TB/heterogeneous"
NAMES = (*(f"{capacity}/{layout}" for capacity in _CAPACITIES for layout in LAYOUTS), _HETEROGENEOUS)


def reference_platform(name: str) -> Platform:
    """
    >>> platform = reference_platform("32TB/nNnD")
    >>> len(platform.nodes), len(platform.disks), platform.capacity
    (4, 8, 32000000000000)
    """
    if name not in NAMES:
        raise UnknownName("platform", name, NAMES)
    if name == _HETEROGENEOUS:
        fast = Disk(capacity=8 * _TERABYTE // 5, write_bandwidth=2.93e9, read_bandwidth=3.13e9, fields={"kind": "SSD"})
        slow = Disk(capacity=2 * _TERABYTE, write_bandwidth=0.05e9, read_bandwidth=0.1e9, fields={"kind": "HDD"})
        return _platform(name, [(25e9, (fast,) * 5)] * 2 + [(_NETWORK, (slow,) * 2)] * 4)
    capacity, layout = name.split("/")
    return homogeneous(name, layout, _CAPACITIES[capacity])


def homogeneous(name: str, layout: str, capacity: int) -> Platform:
    """A platform of one of the `LAYOUTS`: eight disks, each with an eighth of `capacity` bytes, rounded down.

    1N1D is one disk of the whole capacity at half the bandwidth.

    >>> [disk.capacity for disk in homogeneous("small", "1N1D", 10**12).disks]
    [1000000000000]
    """
    if layout not in LAYOUTS:
        raise UnknownName("layout", layout, LAYOUTS)
    if layout == "1N1D":
        disk = Disk(capacity=capacity, write_bandwidth=1.465e9, read_bandwidth=1.565e9)
        return _platform(name, [(_NETWORK, (disk,))])
    disk = Disk(capacity=capacity // _DISKS, write_bandwidth=2.93e9, read_bandwidth=3.13e9)
    nodes = _NODES[layout]
    return _platform(name, [(_NETWORK, (disk,) * (_DISKS // nodes))] * nodes)


def _platform(name: str, nodes: list[tuple[float, tuple[Disk, ...]]]) -> Platform:
    """One server with these nodes, each given as network bandwidth and disks."""
    all_nodes = tuple(
        Node(name=f"node-{index}", network_bandwidth=network, disks=disks)
        for index, (network, disks) in enumerate(nodes)
    )
    return Platform(name=name, servers=(Server(name="S-0", nodes=all_nodes),))
