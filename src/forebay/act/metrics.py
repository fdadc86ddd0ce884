"""The one door to prometheus_client: the metrics of a process, served as text over HTTP.

Values are read at each request, so the data path has nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.registry import Collector

from forebay.act.forward.net.address import Address
from forebay.model.errors import BadInput, UserError, why

Labels = tuple[tuple[str, str], ...]
Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; each of its numbers has a value for each of its labels. A `counter` only grows.

    A `shared` one is computed from the journal: all instances over one store have the same, also after a restart.
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

    def number(self, value: float, *labels: str) -> Number:
        """One value of it."""
        assert self.kind != "histogram"
        return Number(self.name, self.help, value, tuple(zip(self.labels, labels, strict=True)), self.kind)

    def counts(self, counts: Mapping[str, int], known: Iterable[str]) -> Iterator[Number]:
        """Counts by its only label. The `known` ones start at 0: Prometheus sees a rise only from an earlier value."""
        return (self.number(counts.get(name, 0), name) for name in sorted({*known, *counts}))

    def histogram(self, bounds: Sequence[float], counts: Sequence[int], total: float) -> Histogram:
        """Of a histogram: the counts up to each bound, and the sum of all values."""
        assert self.kind == "histogram"
        return Histogram(self.name, self.help, bounds, counts, total)


class Number(NamedTuple):  # one request reads thousands
    """One value, by name and labels."""

    name: str
    help: str
    value: float
    labels: Labels = ()
    kind: Literal["gauge", "counter"] = "gauge"


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts between bounds, the last above all of them; not cumulative."""

    name: str
    help: str
    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class _MetricCollector(Collector):
    def __init__(self, read: Callable[[], Iterable[Number | Histogram]]) -> None:
        self._read = read

    def collect(self) -> Iterable[PrometheusMetric]:
        families: dict[str, PrometheusMetric] = {}
        for value in self._read():
            if isinstance(value, Histogram):
                buckets = _buckets(value)
                families[value.name] = HistogramMetricFamily(
                    value.name, value.help, buckets=buckets, sum_value=value.total
                )
                continue
            kind = CounterMetricFamily if value.kind == "counter" else GaugeMetricFamily
            names, texts = [name for name, _ in value.labels], [text for _, text in value.labels]
            family = families.setdefault(value.name, kind(value.name, value.help, labels=names))
            assert isinstance(family, kind)
            family.add_metric(texts, value.value)
        return families.values()


def _buckets(histogram: Histogram) -> list[tuple[str, int]]:
    """Bounds, and the counts up to each."""
    return list(zip((*map(str, histogram.bounds), "+Inf"), accumulate(histogram.counts), strict=True))


def format_metrics(values: Iterable[Number | Histogram]) -> bytes:
    """The values as Prometheus reads them, for a process with an HTTP server of its own.

    Like the output of `prometheus_client`, in a fifth of its time, as the service has thousands.
    """
    families: dict[str, list[str]] = {}
    for value in values:
        if isinstance(value, Histogram):
            families[value.name] = [_format_head(value.name, value.help, "histogram"), *_format_histogram(value)]
            continue
        name = f"{value.name}_total" if value.kind == "counter" else value.name
        lines = families.get(name)
        if lines is None:
            lines = families[name] = [_format_head(name, value.help, value.kind)]
        labels = ",".join([f'{key}="{_escape(text)}"' for key, text in value.labels])
        lines.append(f"{name}{{{labels}}} {float(value.value)}" if labels else f"{name} {float(value.value)}")
    return "".join(f"{line}\n" for lines in families.values() for line in lines).encode()


def _format_head(name: str, help: str, kind: str) -> str:
    return f"# HELP {name} {help}\n# TYPE {name} {kind}"


def _escape(value: str) -> str:
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _format_histogram(histogram: Histogram) -> Iterator[str]:
    buckets = _buckets(histogram)
    for bound, count in buckets:
        yield f'{histogram.name}_bucket{{le="{bound}"}} {float(count)}'
    yield f"{histogram.name}_count {float(buckets[-1][1])}"
    yield f"{histogram.name}_sum {histogram.total}"


class Endpoint:
    """Serves metrics until it is closed; each request calls `read`, in another thread."""

    def __init__(self, address: Address, read: Callable[[], Iterable[Number | Histogram]]) -> None:
        if address.path:
            raise BadInput("--metrics", f"must be HOST:PORT, not {address}")
        registry = CollectorRegistry()
        registry.register(_MetricCollector(read))
        try:
            self._server, self._thread = start_http_server(address.port, addr=address.host, registry=registry)
        except OSError as error:
            raise UserError(f"{address}: cannot serve metrics: {why(error)}") from None
        host, port = self._server.server_address[:2]
        self.address = Address(host=str(host), port=int(port))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
