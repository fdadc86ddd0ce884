"""The two machines of Kim et al. 2022, section 5, as numbers; docs/fidelity.md has their sources."""

import math
from dataclasses import dataclass, fields, replace

from forebay.model.layout import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A Lustre file system and its clients; targets are equal, and so are nodes. Bytes, seconds, bytes per second."""

    name: str
    targets: int
    target_bandwidth: float  # sequential writes of any length
    random_share: float = 0.7  # speed of random writes relative to sequential ones, at target and client
    process_bandwidth: float = 948e6  # of one process through the client
    node_bandwidth: float = 2.5e9  # of one client node into the network
    processes_per_node: int
    aggregator_per_target: bool = False  # in collective I/O; otherwise one per node
    pack_bandwidth: float = 3e9  # of one process packing data for the aggregators
    rpc_bytes: float = 4 * MIB  # the largest
    rpc_seconds: float = 1e-4  # cost of each at the target
    client_seconds: float = 1e-4  # cost of each at the client node
    lock_seconds: float = 2.8e-3  # to take the lock on an extent from another node
    round_seconds: float = 5e-5  # to agree on a round of collective I/O, per doubling of the processes
    call_seconds: float = 1e-3  # of the I/O library for each call
    dirty_bytes: float = 32 * MIB  # that a client caches per target
    noise: float  # coefficient of variation from run to run
    background: float = 0.0  # share of the targets in use by others at any time

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{field.name} must be finite and not negative, not {value:g}")
        for name in ("targets", "target_bandwidth", "process_bandwidth", "node_bandwidth", "processes_per_node"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name):g}")
        if not 0 < self.random_share <= 1:
            raise ValueError(f"random_share must be above 0 and at most 1, not {self.random_share:g}")

    def nodes(self, processes: int) -> int:
        """Return how many client nodes the processes need."""
        return -(-processes // self.processes_per_node)


LOCAL = Machine(name="local", targets=4, target_bandwidth=520e6, processes_per_node=8, noise=0.05)
CORI = Machine(
    name="Cori",
    targets=256,
    target_bandwidth=3e9,
    processes_per_node=32,
    aggregator_per_target=True,
    noise=0.15,
    background=0.05,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An application's I/O: every process writes `block` bytes at a time, to its own file or to one `shared` file."""

    name: str
    block: int
    shared: bool = False
    collective: bool = False
    random: bool = False
    aligned: bool = True  # blocks begin and end at stripe boundaries
    process_bytes: int = 0  # of each process
    total_bytes: int = 0  # of all processes together

    def __post_init__(self) -> None:
        if self.block < 1 or (self.process_bytes < 1) == (self.total_bytes < 1):
            raise ValueError(f"{self.name}: blocks, and either process_bytes or total_bytes, must be at least 1 byte")
        if self.collective and not self.shared:
            raise ValueError(f"{self.name}: collective I/O needs a shared file")

    def volume(self, processes: int) -> int:
        """Return the bytes that a run writes in total."""
        return self.total_bytes or self.process_bytes * processes

    def files(self, processes: int) -> int:
        return 1 if self.shared else processes


GB = 10**9
FIO_SEQUENTIAL = Program(name="FIO sequential", block=MIB, total_bytes=8 * GB)
FIO_RANDOM = Program(name="FIO random", block=MIB, total_bytes=8 * GB, random=True)
# 8 variables of 8 Mi particles of 4 bytes each (the default of the kernel), a call for each.
VPIC = Program(name="VPIC-IO", block=32 * MIB, process_bytes=256 * MIB, shared=True, collective=True)
# Assumed, as the kernel takes its grid as input: 25 levels of 81,920 cells of 4 bytes, 38 variables.
GCRM = Program(
    name="GCRM-IO", block=8_192_000, process_bytes=38 * 8_192_000, shared=True, collective=True, aligned=False
)
# Assumed, as the kernel takes its blocks as input: 100 x 100 x 60 doubles, 3 components, 20 steps.
VORPAL = Program(
    name="VORPAL-IO", block=4_800_000, process_bytes=60 * 4_800_000, shared=True, collective=True, aligned=False
)
VPIC_INDEPENDENT = replace(VPIC, name="VPIC-IO independent", collective=False)
VPIC_COLLECTIVE = replace(VPIC, name="VPIC-IO collective")
