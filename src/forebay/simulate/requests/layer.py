"""A forwarding layer to simulate, and the arrays that it is simulated in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from forebay.decide.order import queue
from forebay.decide.policy import Policy
from forebay.model.errors import BadInput
from forebay.model.layout import KIB
from forebay.simulate.requests.servers import Contended, Server
from forebay.simulate.requests.state import (
    FROM_PERIODS,
    FROM_SERVERS,
    LANE,
    LAYER,
    MEMORY,
    NEVER,
    PART,
    QUANTILES,
    State,
    new_rings,
)
from forebay.simulate.requests.workload import Workload

NANO = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """I/O nodes in front of data servers; times in seconds, sizes in bytes.

    `to_client` and `to_server` are the network's delays one way. An I/O node takes in one request after the other,
    which takes `reading` or `writing`. `scheduler` is a policy of kind "order" with its `window` and `aggregate`.
    """

    nodes: int
    servers: int = 4
    server: Server = field(default_factory=Contended)
    stripe: int = 64 * KIB
    scheduler: Policy | str = "fifo"
    window: int | None = None  # nanoseconds; None: the scheduler's own
    aggregate: int | None = None
    in_flight: int = 32
    to_client: float = 200e-6
    to_server: float = 40e-6
    reading: float = 26e-6
    writing: float = 51e-6

    def __post_init__(self) -> None:
        for name in ("nodes", "servers", "stripe", "in_flight"):
            if getattr(self, name) < 1:
                raise BadInput(name, f"must be 1 or more, not {getattr(self, name)}")
        for name in ("to_client", "to_server", "reading", "writing"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(name, f"must be from 0 to 1 second, not {getattr(self, name):g}")


def new_state(forwarding: Forwarding, processes: Any, slots: int, period: int, **arrays: Any) -> State:
    """Nothing has begun; `arrays` are those that other parts of the code make."""
    model, nodes, servers = forwarding.server.model(), forwarding.nodes, forwarding.servers
    layer, lanes = np.zeros(1, dtype=LAYER), np.zeros((servers, model.lanes), dtype=LANE)
    layer["nodes"], layer["servers"], layer["lanes"], layer["slots"] = nodes, servers, model.lanes, slots
    layer["stripe"], layer["period"], layer["left"] = forwarding.stripe, period, processes["requests"].sum()
    for name in ("to_client", "to_server", "reading", "writing"):
        layer[name] = round(getattr(forwarding, name) * NANO)
    layer["thinks"] = processes["think"].any()
    lanes["until"] = NEVER
    when = np.full(FROM_SERVERS + servers, NEVER)
    when[FROM_PERIODS] = period
    process_rings, process_cells = new_rings(2 + nodes, len(processes))
    message_rings, message_cells = new_rings(2 + servers, nodes * min(slots, forwarding.in_flight))
    return State(
        layer=layer,
        when=when,
        enters=np.full(nodes, NEVER),
        wakes=np.full(nodes, NEVER),
        processes=processes,
        parts=np.zeros(nodes * slots, dtype=PART),
        lanes=lanes,
        memories=np.full((servers, MEMORY), -1),
        present=np.zeros((servers, nodes + 1), dtype=np.int64),
        process_rings=process_rings,
        process_cells=process_cells,
        message_rings=message_rings,
        message_cells=message_cells,
        **arrays,
    )


def processes_of(layer: Forwarding, workloads: Sequence[Workload]) -> Any:
    """Of each workload in turn; its processes go to the I/O nodes in equal blocks, its files begin at any server."""
    processes, file = [], 0
    for flow, workload in enumerate(workloads):
        rows = workload.rows(file)
        rows["flow"] = flow
        rows["node"] = np.arange(workload.processes) * layer.nodes // workload.processes
        rows["start"] = rows["file"] % layer.servers
        file += workload.files
        processes.append(rows)
    return np.concatenate(processes)


def new_queue(layer: Forwarding, node: int, slots: int, files: int, flows: int) -> Any:
    return queue.new_queue(
        layer.scheduler,
        servers=layer.servers,
        slots=slots,
        files=files,
        flows=flows,
        node=node,
        in_flight=layer.in_flight,
        window=layer.window,
        aggregate=layer.aggregate,
    )


@lru_cache
def lognormal(sigma: float) -> Any:
    """Quantiles of the lognormal distribution of median 1: a draw among them costs a look-up, not an exponential."""
    return np.exp([sigma * NormalDist().inv_cdf(share) for share in middles()])


def middles() -> Any:
    return (np.arange(QUANTILES) + 0.5) / QUANTILES
