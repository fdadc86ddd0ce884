"""What each scheduler is for, in small cases that can be followed by hand; the rest is in test_queue_machine."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.order.queue import arrive, complete, follower, new_queue, set_quantum, set_weight, set_window, take
from forebay.decide.order.queue_layout import NEVER, NONE, WAKE
from forebay.decide.order.slots import arrival_of, file_of, flow_of, server_of, size_of


def fill(q: Any, **columns: list[int]) -> None:
    """Requests of 10 bytes, none contiguous, with these values in order."""
    for k, _ in enumerate(next(iter(columns.values()))):
        one = {name: values[k] for name, values in columns.items()}
        arrive(q, 0, one.get("server", 0), one.get("file", 0), one.get("flow", 0), k << 30, one.get("size", 10), 0)


def sent(q: Any, tell: Any, many: int = 1000, now: int = 0) -> list[int]:
    """What is told of the requests that are sent now, each answered at once."""
    found: list[int] = []
    while len(found) < many and (slot := take(q, now)) != NONE:
        found.append(int(tell(q, slot)))
        complete(q, slot)
    return found


def test_sjf_sends_the_smallest_first_and_the_older_of_two_equals() -> None:
    q = new_queue("sjf", servers=1)
    fill(q, size=[30, 10, 20, 10], file=[0, 1, 2, 3])
    assert sent(q, file_of) == [1, 3, 2, 0]


def test_sjf_lets_nobody_be_overtaken_by_more_than_its_patience() -> None:
    q = new_queue("sjf:patience=3", servers=1)
    fill(q, size=[100, 90, 1, 1, 1, 1, 1, 1])
    assert sent(q, size_of) == [1, 1, 1, 100, 90, 1, 1, 1]


def test_sjf_without_patience_is_fifo() -> None:
    q = new_queue("sjf:patience=0", servers=1)
    fill(q, size=[30, 10, 20])
    assert sent(q, size_of) == [30, 10, 20]


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    patience=st.integers(0, 8),
    aggregate=st.sampled_from([0, 100]),
    ahead=st.integers(1, 10),
)
def test_patience_is_a_bound_for_every_request(sizes: list[int], patience: int, aggregate: int, ahead: int) -> None:
    q = new_queue("sjf", servers=1, slots=64, patience=patience, aggregate=aggregate)
    order: list[int] = []
    ends = 0
    for number, size in enumerate([*sizes, *[-1] * len(sizes)]):
        if size >= 0:
            arrive(q, number, 0, 0, 0, ends % 50, size, 0)
            ends += size
        if number >= ahead and (slot := take(q, 0)) != NONE:
            order += _parts(q, slot)
            complete(q, slot)
    for at, number in enumerate(order):
        assert sum(later > number for later in order[:at]) <= patience


def _parts(q: Any, slot: int) -> list[int]:
    found = []
    while slot != NONE:
        found.append(int(arrival_of(q, slot)))
        slot = follower(q, slot)
    return found


def test_hbrr_gives_each_file_a_quantum_in_its_turn() -> None:
    q = new_queue("hbrr:quantum=2", servers=1)
    fill(q, file=[7, 7, 7, 7, 7, 5, 5, 5, 9])
    assert sent(q, file_of) == [7, 7, 5, 5, 9, 7, 7, 5, 7]


def test_a_file_that_had_nothing_to_send_is_the_last_to_have_its_turn() -> None:
    q = new_queue("hbrr:quantum=2", servers=1)
    fill(q, file=[1, 2, 2, 2])
    assert sent(q, file_of, 1) == [1]
    fill(q, file=[3, 1])
    assert sent(q, file_of) == [2, 2, 3, 1, 2]


def test_a_smaller_quantum_counts_at_once() -> None:
    q = new_queue("hbrr:quantum=100", servers=1)
    fill(q, file=[1, 1, 1, 2, 2])
    assert sent(q, file_of, 1) == [1]
    set_quantum(q, 1)
    assert sent(q, file_of) == [1, 2, 1, 2]


def test_mlf_doubles_the_turn_of_a_file_that_has_more_to_send() -> None:
    q = new_queue("mlf:quantum=1", servers=1)
    fill(q, file=[1] * 8 + [2] * 2)
    assert sent(q, file_of) == [1, 2, 1, 1, 2, 1, 1, 1, 1, 1]


def test_mlf_doubles_no_further_than_64_fold() -> None:
    q = new_queue("mlf:quantum=1", servers=1, slots=1000)
    fill(q, file=[1] * 500 + [2] * 400)
    files = sent(q, file_of)
    turns, last = [0], 1
    for file in files:
        if file != last:
            turns.append(0)
            last = file
        turns[-1] += 1
    assert turns[:14] == [n for level in range(7) for n in (2**level, 2**level)]
    assert turns[14:16] == [64, 64]


def test_mlf_begins_anew_with_a_file_that_had_nothing_more() -> None:
    q = new_queue("mlf:quantum=1", servers=1)
    fill(q, file=[1] * 3)
    sent(q, file_of)
    fill(q, file=[1, 1, 2])
    assert sent(q, file_of) == [1, 2, 1]


@pytest.mark.parametrize(("weights", "share"), [((1, 1), 50), ((3, 1), 75), ((1, 9), 10)])
def test_wfq_shares_bytes_by_weight(weights: tuple[int, int], share: int) -> None:
    q = new_queue("wfq", servers=1)
    for flow, weight in enumerate(weights):
        set_weight(q, flow, weight)
    fill(q, flow=[0, 1, 1] * 200, size=[65536, 32768, 32768] * 200)
    flows = sent(q, flow_of, 150)
    first = sum(65536 for flow in flows if flow == 0)
    assert first / (first + 32768 * flows.count(1)) == pytest.approx(share / 100, abs=0.02)


def test_wfq_does_not_punish_a_flow_for_what_it_had_while_nobody_else_wanted_anything() -> None:
    q = new_queue("wfq", servers=1)
    fill(q, flow=[0] * 50)
    sent(q, flow_of, 40)
    fill(q, flow=[1] * 10)
    assert sorted(sent(q, flow_of, 10)) == [0] * 5 + [1] * 5


def test_wfq_counts_a_small_request_as_one_of_4_kib() -> None:
    q = new_queue("wfq", servers=1)
    fill(q, flow=[0] * 9 + [1] * 2, size=[1] * 9 + [4096] * 2)
    assert sent(q, flow_of, 4) == [0, 1, 0, 1]


def test_twins_stays_on_one_server_for_a_window_and_then_goes_to_the_next() -> None:
    q = new_queue("twins:window=100", servers=3)
    fill(q, server=[0, 1, 2] * 4)
    assert sent(q, server_of, 2, now=0) == [0, 0]
    assert sent(q, server_of, 1, now=99) == [0]
    assert sent(q, server_of, now=100) == [1, 1, 1, 1]
    assert sent(q, server_of, 1, now=200) == [2]
    assert sent(q, server_of, now=300) == [0]


def test_twins_waits_where_the_current_server_has_no_requests() -> None:
    q = new_queue("twins:window=100", servers=4)
    fill(q, server=[3])
    assert (take(q, 10), q[WAKE]) == (NONE, 300)  # the beginning of the window of the server that has some
    assert (take(q, 100), q[WAKE]) == (NONE, 300)
    assert take(q, 300) == 0
    assert (take(q, 300), q[WAKE]) == (NONE, NEVER)


def test_twins_gives_a_server_that_had_its_window_another_after_all_others() -> None:
    q = new_queue("twins:window=100", servers=4)
    fill(q, server=[0])
    assert (take(q, 150), q[WAKE]) == (NONE, 400)


def test_twins_sends_a_request_that_arrives_in_its_servers_window() -> None:
    q = new_queue("twins:window=100", servers=2)
    fill(q, server=[1])
    assert take(q, 50) == NONE
    fill(q, server=[0])
    assert sent(q, server_of, now=60) == [0]


def test_twins_without_waiting_serves_the_next_server_that_has_requests() -> None:
    q = new_queue("twins-work-conserving:window=100", servers=4)
    fill(q, server=[0, 3, 2, 1])
    assert sent(q, server_of, now=250) == [2, 3, 0, 1]


@pytest.mark.parametrize("scheduler", ["twins", "twins-work-conserving"])
def test_twins_without_windows_sends_in_the_order_of_arrival(scheduler: str) -> None:
    q = new_queue(f"{scheduler}:window=0", servers=4)
    fill(q, server=[1, 3, 1, 2])
    assert sent(q, server_of, now=250) == [1, 3, 1, 2]
    fill(q, server=[0, 3])
    set_window(q, 100)
    assert sent(q, server_of, many=1, now=300) == [3]
    set_window(q, 0)
    assert sent(q, server_of, now=301) == [0]


@given(now=st.integers(0, 2**62), window=st.integers(1, 10**10), servers=st.integers(1, 9))
def test_nodes_whose_clocks_agree_are_on_different_servers(now: int, window: int, servers: int) -> None:
    on = []
    for node in range(servers):
        q = new_queue("twins", servers=servers, slots=servers, files=1, flows=1, node=node, window=window)
        fill(q, server=list(range(servers)))
        on += sent(q, server_of, now=now)
    assert sorted(on) == list(range(servers))


def test_another_window_counts_at_once() -> None:
    q = new_queue("twins:window=1000", servers=2)
    fill(q, server=[0, 1])
    assert sent(q, server_of, now=500) == [0]
    assert (take(q, 500), q[WAKE]) == (NONE, 1000)
    set_window(q, 100)
    assert sent(q, server_of, now=500) == [1]
