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
    BACK,
    CLIENTS,
    ENTERS,
    ENTRANCE,
    ENTRANCE_SIZE,
    FILE,
    FLOW,
    FROM_PERIODS,
    FROM_SERVERS,
    INGRESS,
    INGRESS_WRITE,
    LANE,
    LANES,
    LEFT,
    MEMORIES,
    MEMORY,
    NEVER,
    NODE,
    NODES,
    PART,
    PARTS,
    PERIOD,
    PRESENT,
    PROCESSES,
    QUANTILES,
    REQUESTS,
    SENT,
    SERVERS,
    SERVING,
    SLOTS,
    SOURCES,
    START,
    STARTS,
    STRIPE,
    TO_CLIENT,
    TO_SERVER,
    WAITING,
    WAITING_SIZE,
    WAKES,
    WHEN,
    new_ring,
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


def new_state(layer: Forwarding, lanes: int, processes: Any, slots: int, period: int) -> Any:
    """The array of state.py: its head, and the rest piece by piece."""
    sources, messages = FROM_SERVERS + layer.servers, layer.nodes * min(slots, layer.in_flight)
    head = np.full(WHEN + sources, NEVER, dtype=np.int64)
    head[:WHEN] = 0
    head[SOURCES], head[WHEN + FROM_PERIODS] = sources, period
    head[NODES], head[SERVERS], head[LANES], head[SLOTS] = layer.nodes, layer.servers, lanes, slots
    head[STRIPE], head[PERIOD], head[LEFT] = layer.stripe, period, processes[:, REQUESTS].sum()
    head[TO_CLIENT], head[TO_SERVER] = round(layer.to_client * NANO), round(layer.to_server * NANO)
    head[INGRESS], head[INGRESS_WRITE] = round(layer.reading * NANO), round(layer.writing * NANO)
    entrance, waiting = new_ring(len(processes)), new_ring(messages)
    head[ENTRANCE_SIZE], head[WAITING_SIZE] = entrance.size, waiting.size
    pieces = {
        PROCESSES: processes.ravel(),
        PARTS: np.zeros(layer.nodes * slots * PART, dtype=np.int64),
        SENT: waiting,
        BACK: waiting,
        STARTS: entrance,
        CLIENTS: entrance,
        ENTRANCE: np.tile(entrance, layer.nodes),
        WAITING: np.tile(waiting, layer.servers),
        SERVING: np.full(layer.servers * lanes * LANE, NEVER, dtype=np.int64),
        MEMORIES: np.full(layer.servers * MEMORY, -1, dtype=np.int64),
        PRESENT: np.zeros(layer.servers * (layer.nodes + 1), dtype=np.int64),
        ENTERS: np.full(layer.nodes, NEVER, dtype=np.int64),
        WAKES: np.full(layer.nodes, NEVER, dtype=np.int64),
    }
    at = head.size
    for where, piece in pieces.items():
        head[where] = at
        at += piece.size
    return np.concatenate([head, *pieces.values()])


def processes_of(layer: Forwarding, workloads: Sequence[Workload]) -> Any:
    """Of each workload in turn; its processes go to the I/O nodes in equal blocks, its files begin at any server."""
    found, file = [], 0
    for flow, workload in enumerate(workloads):
        rows = workload.rows(file)
        rows[:, FLOW] = flow
        rows[:, NODE] = np.arange(workload.processes) * layer.nodes // workload.processes
        rows[:, START] = rows[:, FILE] % layer.servers
        file += workload.files
        found.append(rows)
    return np.concatenate(found)


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
