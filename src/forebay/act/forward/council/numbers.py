"""What an I/O node and a council show of themselves to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forebay.act.forward.node.council_client import Announcer
from forebay.act.forward.node.io_node import IoNode
from forebay.act.forward.node.window_histogram import BOUNDS
from forebay.act.metrics import Histogram, Metric, Number
from forebay.decide.order.words import WINDOW
from forebay.model.observation import Observation

if TYPE_CHECKING:
    from forebay.act.forward.council.process import CouncilProcess  # an I/O node need not load all that a council needs

_SEEN = {
    "files": "Files with requests in the last period.",
    "smallest": "Smallest request of the last period, in bytes.",
    "mean": "Mean request size of the last period, in bytes.",
    "largest": "Largest request of the last period, in bytes.",
    "distance": "Mean distance between consecutive requests to a file, in bytes.",
    "spread": "The same as a share of each file's extent.",
    "load": "Mean number of requests waiting or in flight.",
    "busy": "Share of the last period in which there was any request.",
    "clients": "Clients connected.",
    "processes": "Processes of their jobs.",
}
_ADDED = ("reads", "writes", "bytes_read", "bytes_written")
_TOTALS = {name: Metric(f"forebay_ion_{name}", f"All {name.replace('_', ' ')}.", kind="counter") for name in _ADDED}
_LAST = {name: Metric(f"forebay_ion_{name}", words) for name, words in _SEEN.items()}
INFO = Metric("forebay_ion_info", "1; which I/O node it is, and its scheduler.", ("name", "index", "scheduler"))
OPERATION = Metric("forebay_ion_operation", "1; what most bytes of the last period were for.", ("operation",))
DEPTH = Metric("forebay_ion_queue_depth", "Pieces that wait.", ("server",))
EVENTS = Metric(
    "forebay_ion_events", "Peers that were sent away, servers lost, decisions heard.", ("event",), "counter"
)
WINDOW_SECONDS = Metric("forebay_ion_window_seconds", "Window of the scheduler.")
BUFFERS = Metric("forebay_ion_buffers_bytes", "Memory in use for requests.")
CONNECTED = Metric("forebay_ion_council_connected", "Whether there is a council.")
RATIO = Metric("forebay_ion_window_ratio", "Real length of windows over what was set.", kind="histogram")
NODE = (
    INFO, *_TOTALS.values(), *_LAST.values(), OPERATION, DEPTH, EVENTS, WINDOW_SECONDS, BUFFERS, CONNECTED, RATIO,
)  # fmt: skip

NODES = Metric("forebay_council_nodes", "I/O nodes connected.")
SITUATIONS = Metric("forebay_council_situations", "Situations that it has learned about.")
DECISION = Metric("forebay_council_decision", "1; the last decision.", ("parameter", "value"))
HAPPENED = Metric(
    "forebay_council_events", "Decisions, jobs written, and nodes that were sent away.", ("event",), "counter"
)
COUNCIL = (NODES, SITUATIONS, DECISION, HAPPENED)


_DOOR = ("crowded", "denied", "gone", "malformed", "slow")
_NODE_EVENTS = (*_DOOR, "decisions", "internal", "jobs_lost", "nonsense", "servers_lost", "stalled")
_COUNCIL_EVENTS = (*_DOOR, "decisions", "jobs", "jobs_refused", "stalled", "unsaved")


class Totals:
    """Sums over all periods, since what is observed begins anew with each."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_ADDED, 0)

    def add(self, seen: Observation) -> None:
        for name in _ADDED:
            self._sums[name] += getattr(seen, name)

    def __iter__(self) -> Iterator[Number]:
        return (_TOTALS[name].is_(value) for name, value in self._sums.items())


def node_numbers(node: IoNode, announcer: Announcer, totals: Totals) -> Iterator[Number | Histogram]:
    """All that is worth watching of an I/O node."""
    seen, settings = announcer.seen, node.settings
    yield INFO.is_(1, settings.name, str(settings.index), str(node.dispatch.scheduler))
    yield from totals
    for name, metric in _LAST.items():
        yield metric.is_(getattr(seen, name))
    yield OPERATION.is_(1, seen.operation)
    for server, depth in enumerate(node.dispatch.depths()):
        yield DEPTH.is_(depth, str(server))
    yield from EVENTS.each(node.dropped, _NODE_EVENTS)
    yield WINDOW_SECONDS.is_(int(node.dispatch.q[WINDOW]) / 1e9)
    yield BUFFERS.is_(node.buffers.out)
    yield CONNECTED.is_(int(announcer.connected))
    windows = node.dispatch.windows
    yield RATIO.spread(BOUNDS, tuple(windows.counts), windows.sum)


def council_numbers(council: CouncilProcess) -> Iterator[Number]:
    yield NODES.is_(len(council.nodes))
    yield SITUATIONS.is_(len(council.council.known))
    decided = council.decided.value if council.decided else None
    if decided is not None:
        yield DECISION.is_(1, council.council.parameter, str(decided))
    yield from HAPPENED.each(council.dropped, _COUNCIL_EVENTS)
