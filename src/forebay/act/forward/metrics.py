"""The Prometheus metrics of data servers, I/O nodes and councils; metrics.toml lists them."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.act.forward.node.window_histogram import BOUNDS
from forebay.act.metrics import Metric, Sample
from forebay.decide.order.queue_layout import WINDOW
from forebay.model.observation import Observation

if TYPE_CHECKING:  # none of the processes loads what only another one needs
    from forebay.act.forward.council.process import CouncilProcess
    from forebay.act.forward.data.server import Server
    from forebay.act.forward.node.council_client import CouncilClient
    from forebay.act.forward.node.io_node import IoNode

SERVER, NODE, COUNCIL = (
    {
        name: Metric(f"forebay_{process}_{name}", row["help"], tuple(row.get("labels", ())), row.get("kind", "gauge"))
        for name, row in table.items()
    }
    for process, table in tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8")).items()
)
_ADMISSION = ("crowded", "denied", "gone", "malformed", "slow")
"""Why peers are rejected."""
_SERVER_COUNTS = ("reads", "writes", "bytes_read", "bytes_written", "fsyncs", "failed")
_TOTALS = ("reads", "writes", "bytes_read", "bytes_written")
_PERIOD = (
    "files", "smallest", "mean", "largest", "distance", "spread", "load", "busy", "clients", "processes",
)  # fmt: skip


def server_metrics(server: Server, index: int) -> Iterator[Sample]:
    yield SERVER["info"].number(1, str(index))
    for name in _SERVER_COUNTS:
        yield SERVER[name].number(server.counts[name])
    yield SERVER["nodes"].number(len(server.nodes))
    events = {name: count for name, count in server.counts.items() if name not in _SERVER_COUNTS}
    yield from SERVER["events"].counts(events, (*_ADMISSION, "fences", "replaced"))
    yield SERVER["buffers_bytes"].number(server.buffers.out)


class Totals(Counter[str]):
    """Sums over all periods, since each observation covers one period."""

    def add(self, seen: Observation) -> None:
        for name in _TOTALS:
            self[name] += getattr(seen, name)


def node_metrics(node: IoNode, council: CouncilClient, totals: Totals) -> Iterator[Sample]:
    seen, settings = council.observed, node.settings
    yield NODE["info"].number(1, settings.name, str(settings.index), str(node.dispatch.scheduler))
    for name in _TOTALS:
        yield NODE[name].number(totals[name])
    for name in _PERIOD:
        yield NODE[name].number(getattr(seen, name))
    yield NODE["operation"].number(1, seen.operation)
    for server, depth in enumerate(node.dispatch.depths()):
        yield NODE["queue_depth"].number(depth, str(server))
    known = (*_ADMISSION, "decisions", "internal", "jobs_lost", "nonsense", "servers_lost", "stalled")
    yield from NODE["events"].counts(node.counts, known)
    yield NODE["window_seconds"].number(int(node.dispatch.q[WINDOW]) / 1e9)
    yield NODE["buffers_bytes"].number(node.buffers.out)
    yield NODE["council_connected"].number(int(council.connection is not None))
    windows = node.dispatch.windows
    yield NODE["window_ratio"].histogram(BOUNDS, tuple(windows.counts), windows.sum)


def council_metrics(process: CouncilProcess) -> Iterator[Sample]:
    yield COUNCIL["nodes"].number(len(process.nodes))
    yield COUNCIL["situations"].number(len(process.council.known))
    decided = process.decided.value if process.decided else None
    if decided is not None:
        yield COUNCIL["decision"].number(1, process.council.parameter, str(decided))
    known = (*_ADMISSION, "decisions", "jobs", "jobs_refused", "stalled", "unsaved")
    yield from COUNCIL["events"].counts(process.counts, known)
