"""What is one situation and what is another."""

from dataclasses import replace
from math import log2

from hypothesis import given
from hypothesis import strategies as st

from forebay.model.observation import Observation
from forebay.model.situation import Situation, bucket, distance, situation

READS = Situation(operation="read", pattern="shared-strided", servers=4, io_nodes=2, clients=32, processes=128)


@given(st.integers(1, 2**60))
def test_a_bucket_is_the_nearest_power_of_two_by_ratio(count: int) -> None:
    found = bucket(count)
    assert found & (found - 1) == 0 and abs(log2(found) - log2(count)) <= 0.5 + 1e-9


@given(st.integers(1, 10**9), st.integers(0, 10**6))
def test_more_is_never_a_smaller_bucket(count: int, more: int) -> None:
    assert bucket(count + more) >= bucket(count)


def test_nearly_as_many_processes_are_the_same_situation() -> None:
    seen = Observation(seconds=1.0, reads=1, bytes_read=4096, clients=30, processes=127)
    one = situation(seen, "shared-strided", servers=4, io_nodes=2)
    assert one == READS == situation(replace(seen, processes=130, clients=33), "shared-strided", servers=4, io_nodes=2)
    assert one != situation(replace(seen, processes=256), "shared-strided", servers=4, io_nodes=2)
    assert one != situation(replace(seen, bytes_written=8192), "shared-strided", servers=4, io_nodes=2)


def test_distance_counts_doublings_and_is_the_same_both_ways() -> None:
    other = replace(READS, io_nodes=8, processes=64)
    assert distance(READS, other) == distance(other, READS) == 3 and distance(READS, READS) == 0
    assert distance(READS, replace(READS, operation="write")) >= 8 <= distance(READS, replace(READS, pattern="x"))
