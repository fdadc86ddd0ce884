"""What an I/O node and a council show of themselves to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from forebay.act.forward.node.announce import Announcer
from forebay.act.forward.node.ion import IoNode
from forebay.act.forward.node.windows import BOUNDS
from forebay.act.metrics import Histogram, Number
from forebay.decide.order.words import WINDOW
from forebay.model.observed import Observed

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


class Totals:
    """Sums over all periods, since what is observed begins anew with each."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_ADDED, 0)

    def add(self, seen: Observed) -> None:
        for name in _ADDED:
            self._sums[name] += getattr(seen, name)

    def __iter__(self) -> Iterator[Number]:
        for name, value in self._sums.items():
            yield Number(f"forebay_ion_{name}", f"All {name.replace('_', ' ')}.", value, kind="counter")


def node_numbers(node: IoNode, announcer: Announcer, totals: Totals) -> Iterator[Any]:
    """All that is worth watching of an I/O node."""
    seen = announcer.seen
    yield from totals
    for name, words in _SEEN.items():
        yield Number(f"forebay_ion_{name}", words, getattr(seen, name))
    operation = (("operation", seen.operation),)
    yield Number("forebay_ion_operation", "What most bytes of the last period were for.", 1, operation)
    for server, depth in enumerate(node.dispatch.depths()):
        yield Number("forebay_ion_queue_depth", "Pieces that wait.", depth, (("server", str(server)),))
    for reason, count in sorted(node.dropped.items()):
        yield Number("forebay_ion_events", "What went wrong, and decisions.", count, (("event", reason),), "counter")
    yield Number("forebay_ion_window_seconds", "Window of the scheduler.", int(node.dispatch.q[WINDOW]) / 1e9)
    yield Number("forebay_ion_buffers_bytes", "Memory in use for requests.", node.buffers.out)
    yield Number("forebay_ion_council_connected", "Whether there is a council.", int(announcer.connected))
    windows = node.dispatch.windows
    words = "Real length of windows over what was set."
    yield Histogram("forebay_ion_window_ratio", words, BOUNDS, tuple(windows.counts), windows.sum)


def council_numbers(council: CouncilProcess) -> Iterator[Any]:
    yield Number("forebay_council_nodes", "I/O nodes connected.", len(council.nodes))
    yield Number("forebay_council_situations", "Situations that it has learned about.", len(council.council.known))
    decided = council.decided.value if council.decided else None
    if decided is not None:
        labels = (("parameter", council.council.parameter), ("value", str(decided)))
        yield Number("forebay_council_decision", "The last decision.", 1, labels)
    for reason, count in sorted(council.dropped.items()):
        yield Number("forebay_council_events", "What happened.", count, (("event", reason),), "counter")
