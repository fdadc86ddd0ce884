"""The one door to prometheus_client: numbers of a running part at an address, as text over HTTP.

Numbers are looked up when somebody asks, so that the data path has nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from forebay.act.forward.net.address import Address
from forebay.model.errors import BadInput, UserError, why

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Number:
    """One number, by name and labels; `counter` for what only grows."""

    name: str
    help: str
    value: float
    labels: Labels = ()
    kind: Literal["gauge", "counter"] = "gauge"


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts up to each bound, the last of all above; not cumulative."""

    name: str
    help: str
    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class _Numbers(Collector):
    def __init__(self, look: Callable[[], Iterable[Number | Histogram]]) -> None:
        self._look = look

    def collect(self) -> Iterable[Any]:
        families: dict[str, Any] = {}
        for found in self._look():
            if isinstance(found, Histogram):
                families[found.name] = _histogram(found)
                continue
            if found.name not in families:
                family = CounterMetricFamily if found.kind == "counter" else GaugeMetricFamily
                families[found.name] = family(found.name, found.help, labels=[name for name, _ in found.labels])
            families[found.name].add_metric([value for _, value in found.labels], found.value)
        return families.values()


def _histogram(found: Histogram) -> HistogramMetricFamily:
    buckets, total = [], 0
    for bound, count in zip((*map(str, found.bounds), "+Inf"), found.counts, strict=True):
        total += count
        buckets.append((bound, total))
    return HistogramMetricFamily(found.name, found.help, buckets=buckets, sum_value=found.total)


def text_of(found: Iterable[Number | Histogram]) -> bytes:
    """The numbers as Prometheus reads them, for those who have an HTTP server of their own."""
    registry = CollectorRegistry()
    registry.register(_Numbers(lambda: found))
    return generate_latest(registry)


class Endpoint:
    """Serves until it is closed; `look` is called in another thread whenever somebody asks."""

    def __init__(self, address: Address, look: Callable[[], Iterable[Number | Histogram]]) -> None:
        if address.path:
            raise BadInput("--metrics", f"must be HOST:PORT, not {address}")
        registry = CollectorRegistry()
        registry.register(_Numbers(look))
        try:
            self._server, self._thread = start_http_server(address.port, addr=address.host, registry=registry)
        except OSError as error:
            raise UserError(f"{address}: can't serve metrics: {why(error)}") from None
        host, port = self._server.server_address[:2]
        self.address = Address(host=str(host), port=int(port))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
