"""What a data server shows of itself to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.act.forward.data.server import Server
from forebay.act.metrics import Metric, Number

_COUNTED = {
    name: Metric(f"forebay_server_{name}", words, kind="counter")
    for name, words in {
        "reads": "All reads.",
        "writes": "All writes.",
        "bytes_read": "All bytes read.",
        "bytes_written": "All bytes written.",
        "fsyncs": "All fsyncs.",
        "failed": "Requests that were answered by an error.",
    }.items()
}
INFO = Metric("forebay_server_info", "1; which data server it is.", ("index",))
NODES = Metric("forebay_server_nodes", "I/O nodes connected.")
EVENTS = Metric(
    "forebay_server_events", "Peers that were sent away or came anew, and clients that were fenced off.", ("event",),
    "counter",
)  # fmt: skip
BUFFERS = Metric("forebay_server_buffers_bytes", "Memory in use for requests.")
SERVER = (INFO, *_COUNTED.values(), NODES, EVENTS, BUFFERS)
_EVENTS = ("crowded", "denied", "fences", "gone", "malformed", "replaced", "slow")


def server_numbers(server: Server, index: int) -> Iterator[Number]:
    yield INFO.is_(1, str(index))
    for name, metric in _COUNTED.items():
        yield metric.is_(server.counts[name])
    yield NODES.is_(len(server.nodes))
    others = server.dropped + server.counts
    yield from EVENTS.each({name: count for name, count in others.items() if name not in _COUNTED}, _EVENTS)
    yield BUFFERS.is_(server.buffers.out)
