"""The Prometheus metrics of data servers, I/O nodes and councils."""

from __future__ import annotations

from collections.abc import Iterator
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

_ADMISSION = ("crowded", "denied", "gone", "malformed", "slow")
"""Why peers are rejected."""

_SERVER_COUNTS = {
    name: Metric(f"forebay_server_{name}", text, kind="counter")
    for name, text in {
        "reads": "All reads.",
        "writes": "All writes.",
        "bytes_read": "All bytes read.",
        "bytes_written": "All bytes written.",
        "fsyncs": "All fsyncs.",
        "failed": "Requests that failed.",
    }.items()
}
_SERVER_INFO = Metric("forebay_server_info", "1; the number of the data server.", ("index",))
_SERVER_NODES = Metric("forebay_server_nodes", "Connected I/O nodes.")
_SERVER_EVENTS = Metric(
    "forebay_server_events", "Rejected peers, I/O nodes that connected again, and fences.", ("event",), "counter"
)
_SERVER_BUFFERS = Metric("forebay_server_buffers_bytes", "Memory in use for requests.")
SERVER = (_SERVER_INFO, *_SERVER_COUNTS.values(), _SERVER_NODES, _SERVER_EVENTS, _SERVER_BUFFERS)

_PERIOD = {
    name: Metric(f"forebay_ion_{name}", text)
    for name, text in {
        "files": "Files with requests in the last period.",
        "smallest": "Smallest request of the last period, in bytes.",
        "mean": "Mean request size of the last period, in bytes.",
        "largest": "Largest request of the last period, in bytes.",
        "distance": "Mean distance between consecutive requests to a file, in bytes.",
        "spread": "The same as a share of each file's extent.",
        "load": "Mean number of requests waiting or in flight.",
        "busy": "Share of the last period in which there was any request.",
        "clients": "Connected clients.",
        "processes": "Processes of their jobs.",
    }.items()
}
_TOTALS = {
    name: Metric(f"forebay_ion_{name}", f"All {name.replace('_', ' ')}.", kind="counter")
    for name in ("reads", "writes", "bytes_read", "bytes_written")
}
_INFO = Metric("forebay_ion_info", "1; the I/O node and its scheduler.", ("name", "index", "scheduler"))
_OPERATION = Metric("forebay_ion_operation", "1; the operation of most bytes of the last period.", ("operation",))
_DEPTH = Metric("forebay_ion_queue_depth", "Waiting pieces.", ("server",))
_EVENTS = Metric("forebay_ion_events", "Rejected peers, lost servers, and received decisions.", ("event",), "counter")
_WINDOW = Metric("forebay_ion_window_seconds", "Window of the scheduler.")
_BUFFERS = Metric("forebay_ion_buffers_bytes", "Memory in use for requests.")
_CONNECTED = Metric("forebay_ion_council_connected", "Whether there is a council.")
_RATIO = Metric("forebay_ion_window_ratio", "Real length of windows over the length that was set.", kind="histogram")
NODE = (
    _INFO, *_TOTALS.values(), *_PERIOD.values(), _OPERATION, _DEPTH, _EVENTS, _WINDOW, _BUFFERS, _CONNECTED, _RATIO,
)  # fmt: skip

_COUNCIL_NODES = Metric("forebay_council_nodes", "Connected I/O nodes.")
_SITUATIONS = Metric("forebay_council_situations", "Situations that the council has learned about.")
_DECISION = Metric("forebay_council_decision", "1; the last decision.", ("parameter", "value"))
_COUNCIL_EVENTS = Metric(
    "forebay_council_events", "Decisions, stored jobs, and rejected I/O nodes.", ("event",), "counter"
)
COUNCIL = (_COUNCIL_NODES, _SITUATIONS, _DECISION, _COUNCIL_EVENTS)


def server_metrics(server: Server, index: int) -> Iterator[Sample]:
    yield _SERVER_INFO.number(1, str(index))
    for name, metric in _SERVER_COUNTS.items():
        yield metric.number(server.counts[name])
    yield _SERVER_NODES.number(len(server.nodes))
    events = {name: count for name, count in server.counts.items() if name not in _SERVER_COUNTS}
    yield from _SERVER_EVENTS.counts(events, (*_ADMISSION, "fences", "replaced"))
    yield _SERVER_BUFFERS.number(server.buffers.out)


class Totals:
    """Sums over all periods, since each observation covers one period."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_TOTALS, 0)

    def add(self, seen: Observation) -> None:
        for name in _TOTALS:
            self._sums[name] += getattr(seen, name)

    def __iter__(self) -> Iterator[Sample]:
        return (_TOTALS[name].number(value) for name, value in self._sums.items())


def node_metrics(node: IoNode, council: CouncilClient, totals: Totals) -> Iterator[Sample]:
    seen, settings = council.observed, node.settings
    yield _INFO.number(1, settings.name, str(settings.index), str(node.dispatch.scheduler))
    yield from totals
    for name, metric in _PERIOD.items():
        yield metric.number(getattr(seen, name))
    yield _OPERATION.number(1, seen.operation)
    for server, depth in enumerate(node.dispatch.depths()):
        yield _DEPTH.number(depth, str(server))
    known = (*_ADMISSION, "decisions", "internal", "jobs_lost", "nonsense", "servers_lost", "stalled")
    yield from _EVENTS.counts(node.counts, known)
    yield _WINDOW.number(int(node.dispatch.q[WINDOW]) / 1e9)
    yield _BUFFERS.number(node.buffers.out)
    yield _CONNECTED.number(int(council.connection is not None))
    windows = node.dispatch.windows
    yield _RATIO.histogram(BOUNDS, tuple(windows.counts), windows.sum)


def council_metrics(process: CouncilProcess) -> Iterator[Sample]:
    yield _COUNCIL_NODES.number(len(process.nodes))
    yield _SITUATIONS.number(len(process.council.known))
    decided = process.decided.value if process.decided else None
    if decided is not None:
        yield _DECISION.number(1, process.council.parameter, str(decided))
    known = (*_ADMISSION, "decisions", "jobs", "jobs_refused", "stalled", "unsaved")
    yield from _COUNCIL_EVENTS.counts(process.counts, known)
