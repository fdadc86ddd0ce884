from collections.abc import Iterable
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.parser import text_string_to_metric_families as read
from prometheus_client.registry import Collector

from forebay.act.forward.net.address import Address, parse_address
from forebay.act.metrics import Endpoint, Metric, Sample, format_metrics
from forebay.model.errors import UserError

DEPTH = Metric("forebay_depth", "Pieces that wait.", ("server",))
READS = Metric("forebay_reads", "All reads.", kind="counter")
RATIO = Metric("forebay_ratio", "Lengths.", kind="histogram")
AWKWARD = Metric("forebay_x", "Awkward.", ("name", "other"))


def numbers() -> Iterable[Sample]:
    yield DEPTH.number(3, "0")
    yield DEPTH.number(5, "1")
    yield READS.number(7)
    yield RATIO.histogram((0.9, 1.1), (1, 4, 2), 7.5)


def test_numbers_are_there_for_who_asks() -> None:
    endpoint = Endpoint(parse_address("127.0.0.1:0"), numbers)
    try:
        with urlopen(f"http://{endpoint.address}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
    finally:
        endpoint.close()
    assert 'forebay_depth{server="1"} 5.0' in lines
    assert "forebay_reads_total 7.0" in lines
    assert 'forebay_ratio_bucket{le="1.1"} 5.0' in lines
    assert 'forebay_ratio_bucket{le="+Inf"} 7.0' in lines
    assert "forebay_ratio_sum 7.5" in lines


class Theirs(Collector):
    """The same numbers, and an awkward one, by the library of Prometheus."""

    def collect(self) -> Iterable[PrometheusMetric]:
        depth = GaugeMetricFamily(DEPTH.name, DEPTH.help, labels=DEPTH.labels)
        depth.add_metric(["0"], 3)
        depth.add_metric(["1"], 5)
        yield depth
        yield CounterMetricFamily(READS.name, READS.help, value=7)
        buckets = [("0.9", 1), ("1.1", 5), ("+Inf", 7)]
        yield HistogramMetricFamily(RATIO.name, RATIO.help, buckets=buckets, sum_value=7.5)
        awkward = GaugeMetricFamily(AWKWARD.name, AWKWARD.help, labels=AWKWARD.labels)
        awkward.add_metric(['a"b\\c\nd', "é, {}"], 1e300)
        yield awkward


def test_our_own_text_says_what_the_librarys_does() -> None:
    registry = CollectorRegistry()
    registry.register(Theirs())
    ours = format_metrics([*numbers(), AWKWARD.number(1e300, 'a"b\\c\nd', "é, {}")])
    assert list(read(ours.decode())) == list(read(generate_latest(registry).decode()))


def test_an_address_that_is_taken_is_one_line() -> None:
    endpoint = Endpoint(parse_address("127.0.0.1:0"), numbers)
    try:
        with pytest.raises(UserError, match="cannot serve metrics: address already in use"):
            Endpoint(endpoint.address, numbers)
    finally:
        endpoint.close()


def test_a_path_is_no_place_for_metrics() -> None:
    with pytest.raises(UserError, match="must be HOST:PORT"):
        Endpoint(Address(path="/run/x"), numbers)
