"""Metrics in Prometheus format, and a server for them.

The server reads the values when Prometheus requests them, so metrics cost the data path nothing.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Literal, NamedTuple

from forebay.act.forward.net.address import Address
from forebay.model.errors import BadInput, UserError, why


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. Each sample has a value for every label; a `counter` only grows.

    A `shared` metric comes from the journal: all services on one store report the same value, even after a restart.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    shared: bool = False

    @property
    def full_name(self) -> str:
        """The metric's name in Prometheus."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def number(self, value: float, *labels: str) -> Sample:
        """Return a sample with this value and these labels."""
        assert self.kind != "histogram"
        pairs = ",".join([f'{key}="{_escape(text)}"' for key, text in zip(self.labels, labels, strict=True)])
        return Sample(self, f"{self.full_name}{f'{{{pairs}}}' if pairs else ''} {float(value)}\n")

    def counts(self, counts: Mapping[str, int], known: Iterable[str]) -> Iterator[Sample]:
        """Return a sample per value of the only label; `known` values start at 0, so that Prometheus sees a rise."""
        return (self.number(counts.get(name, 0), name) for name in sorted({*known, *counts}))

    def histogram(self, bounds: Sequence[float], counts: Sequence[int], total: float) -> Sample:
        """Return a histogram: `counts` between the bounds, the last one above all, and the sum of all values."""
        assert self.kind == "histogram"
        buckets = list(zip((*map(str, bounds), "+Inf"), accumulate(counts), strict=True))
        lines = [f'{self.name}_bucket{{le="{bound}"}} {float(count)}\n' for bound, count in buckets]
        count = float(buckets[-1][1])
        return Sample(self, "".join((*lines, f"{self.name}_count {count}\n{self.name}_sum {total}\n")))


class Sample(NamedTuple):  # one request reads thousands
    """A value or histogram of a metric, in Prometheus format."""

    metric: Metric
    text: str


def _escape(value: str) -> str:
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def format_metrics(samples: Iterable[Sample]) -> bytes:
    """Format the samples as text, grouped by metric."""
    texts: dict[str, list[str]] = {}
    for metric, text in samples:
        name = metric.full_name
        if name not in texts:
            texts[name] = [f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"]
        texts[name].append(text)
    return "".join(text for family in texts.values() for text in family).encode()


class Endpoint(ThreadingHTTPServer):
    """Serves metrics until it is closed. Each request calls `read` in its own thread."""

    daemon_threads = True

    def __init__(self, address: Address, read: Callable[[], Iterable[Sample]]) -> None:
        if address.path:
            raise BadInput("--metrics", f"must be HOST:PORT, not {address}")
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.read = read
        try:
            super().__init__((address.host, address.port), _Handler)
        except OSError as error:
            raise UserError(f"{address}: cannot serve metrics: {why(error)}; choose another address") from None
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        host, port = self.server_address[:2]
        self.address = Address(host=str(host), port=int(port))

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_GET(self) -> None:
        body = format_metrics(self.server.read())
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: nobody reads a line per request."""
