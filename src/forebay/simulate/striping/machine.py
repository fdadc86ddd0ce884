"""The two machines of Kim et al. 2022, section 5, as numbers; docs/fidelity.md says where each comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from forebay.model.layout import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A Lustre file system and its clients; bytes, seconds and bytes per second.

    Targets and client nodes are alike. `noise` is the usual coefficient of variation from run to
    run, `background` the share of the targets that somebody else uses at any time.
    """

    name: str
    targets: int
    target_bandwidth: float  # sequential writes of any length
    random_share: float  # of random writes in sequential ones, on the target and in the client
    process_bandwidth: float  # what one process gets through the client
    node_bandwidth: float  # what one client node gets into the network
    processes_per_node: int
    aggregator_per_target: bool  # in collective I/O; else one for each node
    pack_bandwidth: float  # of one process that packs data for the aggregators
    rpc_bytes: float = 4 * MIB  # the largest
    rpc_seconds: float = 1e-4  # that each costs the target
    client_seconds: float = 1e-4  # that each costs the client node
    lock_seconds: float = 2.8e-3  # to take the lock on a part of an object from another node
    round_seconds: float = 5e-5  # to agree on a round of collective I/O, for each doubling of the processes
    call_seconds: float = 1e-3  # of the I/O library for each call
    dirty_bytes: float = 32 * MIB  # that a client keeps for each target
    noise: float
    background: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{field.name} must not be negative and must be finite, not {value:g}")
        for name in ("targets", "target_bandwidth", "process_bandwidth", "node_bandwidth", "processes_per_node"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name):g}")
        if not 0 < self.random_share <= 1:
            raise ValueError(f"random_share must be above 0 and at most 1, not {self.random_share:g}")

    def nodes(self, processes: int) -> int:
        """How many client nodes so many processes take."""
        return -(-processes // self.processes_per_node)


LOCAL = Machine(
    name="local",
    targets=4,
    target_bandwidth=520e6,
    random_share=0.7,
    process_bandwidth=948e6,
    node_bandwidth=2.5e9,
    processes_per_node=8,
    aggregator_per_target=False,
    pack_bandwidth=3e9,
    noise=0.05,
)
CORI = Machine(
    name="Cori",
    targets=256,
    target_bandwidth=3e9,
    random_share=0.7,
    process_bandwidth=948e6,
    node_bandwidth=2.5e9,
    processes_per_node=32,
    aggregator_per_target=True,
    pack_bandwidth=3e9,
    noise=0.15,
    background=0.05,
)
