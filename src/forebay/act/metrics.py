"""The one door to prometheus_client: numbers of a running part at an address, as text over HTTP.

Numbers are looked up when somebody asks, so that the data path has nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from forebay.act.forward.net.address import Address
from forebay.model.errors import BadInput, UserError, why

Labels = tuple[tuple[str, str], ...]
Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured or, as a `counter`, only grows; its numbers come with a value for each of its labels.

    One that is `shared` is computed from the journal: the same from all instances over one store, also after a restart.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = "gauge"
    shared: bool = False

    @property
    def exposed(self) -> str:
        """Its name in Prometheus."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def is_(self, value: float, *labels: str) -> Number:
        assert self.kind != "histogram"
        return Number(self.name, self.help, value, tuple(zip(self.labels, labels, strict=True)), self.kind)

    def each(self, counts: Mapping[str, int], known: Iterable[str]) -> Iterator[Number]:
        """Counts by the one label it has. What is `known` is there from the start: Prometheus sees that something rises
        only if it was there before."""
        return (self.is_(counts.get(name, 0), name) for name in sorted({*known, *counts}))

    def spread(self, bounds: Sequence[float], counts: Sequence[int], total: float) -> Histogram:
        """Of a histogram: how many there are up to each bound, and the sum of all."""
        assert self.kind == "histogram"
        return Histogram(self.name, self.help, bounds, counts, total)


class Number(NamedTuple):  # there are thousands in one look
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
    return HistogramMetricFamily(found.name, found.help, buckets=_buckets(found), sum_value=found.total)


def _buckets(found: Histogram) -> list[tuple[str, int]]:
    """Bounds, and how many there are up to each."""
    return list(zip((*map(str, found.bounds), "+Inf"), accumulate(found.counts), strict=True))


def text_of(found: Iterable[Number | Histogram]) -> bytes:
    """The numbers as Prometheus reads them, for those who have an HTTP server of their own.

    As `prometheus_client` has them, in a fifth of its time, as the service has thousands.
    """
    families: dict[str, list[str]] = {}
    for one in found:
        if isinstance(one, Histogram):
            families[one.name] = [_head(one.name, one.help, "histogram"), *_lines(one)]
            continue
        name = f"{one.name}_total" if one.kind == "counter" else one.name
        lines = families.get(name)
        if lines is None:
            lines = families[name] = [_head(name, one.help, one.kind)]
        labels = ",".join([f'{key}="{_escaped(value)}"' for key, value in one.labels])
        lines.append(f"{name}{{{labels}}} {float(one.value)}" if labels else f"{name} {float(one.value)}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines).encode()


def _head(name: str, help: str, kind: str) -> str:
    return f"# HELP {name} {help}\n# TYPE {name} {kind}"


def _escaped(value: str) -> str:
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _lines(found: Histogram) -> Iterator[str]:
    buckets = _buckets(found)
    for bound, count in buckets:
        yield f'{found.name}_bucket{{le="{bound}"}} {float(count)}'
    yield f"{found.name}_count {float(buckets[-1][1])}"
    yield f"{found.name}_sum {found.total}"


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
