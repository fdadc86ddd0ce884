from collections.abc import Iterable
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families as read

from forebay.act.forward.net.address import Address, parse_address
from forebay.act.metrics import Endpoint, Histogram, Number, format_metrics
from forebay.model.errors import UserError


def numbers() -> Iterable[Number | Histogram]:
    yield Number("forebay_depth", "Pieces that wait.", 3, (("server", "0"),))
    yield Number("forebay_depth", "Pieces that wait.", 5, (("server", "1"),))
    yield Number("forebay_reads", "All reads.", 7, kind="counter")
    yield Histogram("forebay_ratio", "Lengths.", (0.9, 1.1), (1, 4, 2), 7.5)


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


def test_our_own_text_says_what_the_librarys_does() -> None:
    def awkward() -> Iterable[Number | Histogram]:
        yield from numbers()
        yield Number("forebay_x", "Awkward.", 1e300, (("name", 'a"b\\c\nd'), ("other", "é, {}")))

    endpoint = Endpoint(parse_address("127.0.0.1:0"), awkward)
    try:
        with urlopen(f"http://{endpoint.address}/metrics", timeout=60) as answer:
            theirs = answer.read().decode()
    finally:
        endpoint.close()
    assert list(read(format_metrics(awkward()).decode())) == list(read(theirs))


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
