"""The queue of an I/O node: what it takes, what it refuses, how it changes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.order.queue import (
    HEAVIEST,
    IN_FLIGHT,
    IN_FLIGHT_EACH,
    IN_FLIGHT_WITH_WINDOWS,
    LONGEST_WINDOW,
    arrive,
    complete,
    count_waiting,
    drop,
    follower,
    in_flight,
    new_queue,
    set_aggregate,
    set_patience,
    set_quantum,
    set_scheduler,
    set_weight,
    set_window,
    take,
    take_of,
    take_with,
    use,
)
from forebay.decide.order.queue_layout import (
    MOST_IN_FLIGHT,
    NEVER,
    NO_SUCH,
    NONE,
    QUANTUM,
    SCHEDULER,
    TABLE_MASK,
    WAKE,
    WINDOW,
)
from forebay.decide.order.slots import (
    arrival_of,
    file_of,
    first,
    flow_of,
    is_write,
    offset_of,
    recall,
    remember,
    server_of,
    size_of,
)
from forebay.decide.policy import order
from forebay.decide.registry import find, policies
from forebay.model.errors import BadInput, UnknownName
from forebay.model.kernels import kernel


def ask(q: Any, *, now: int = 0, server: int = 0, file: int = 0, flow: int = 0, offset: int = 0, size: int = 10) -> int:
    return arrive(q, now, server, file, flow, offset, size, 0)


def messages(q: Any, now: int = 0) -> list[list[int]]:
    """The offsets of the requests of each message that is sent now, all of them answered at once."""
    found = []
    while (slot := take(q, now)) != NONE:
        parts, part = [], slot
        while part != NONE:
            parts.append(int(offset_of(q, part)))
            part = follower(q, part)
        found.append(parts)
        assert complete(q, slot)
    return found


def test_a_slot_tells_what_was_asked() -> None:
    q = new_queue("fifo", servers=3)
    slot = arrive(q, 17, 2, 65535, 1023, 2**62, 4096, 1)
    told = [f(q, slot) for f in (server_of, file_of, flow_of, offset_of, size_of, is_write, arrival_of)]
    assert told == [2, 65535, 1023, 2**62, 4096, True, 17]
    assert not is_write(q, arrive(q, 17, 0, 0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    "wrong",
    [{"server": 2}, {"server": -1}, {"file": 5}, {"file": -1}, {"flow": 3}, {"flow": -1}, {"offset": -1}, {"size": -1}],
)
def test_a_request_that_can_not_be_is_refused_and_harms_nothing(wrong: dict[str, int]) -> None:
    q = new_queue("twins", servers=2, files=5, flows=3)
    before = q.copy()
    assert ask(q, **wrong) == NO_SUCH
    assert (q == before).all()


def test_a_full_queue_refuses_until_a_message_is_answered() -> None:
    q = new_queue("fifo", servers=1, slots=2, in_flight=2)
    assert [ask(q), ask(q), ask(q)] == [0, 1, NONE]
    sent = take(q, 0)
    assert ask(q) == NONE  # what is in flight holds its slot
    complete(q, sent)
    assert ask(q) == sent


def test_nothing_is_answered_or_withdrawn_twice() -> None:
    q = new_queue("fifo", servers=1)
    slot = ask(q)
    assert not complete(q, slot)  # it was not sent
    assert take(q, 0) == slot
    assert not drop(q, slot)  # it is on its way
    assert [complete(q, slot), complete(q, slot), complete(q, -1), complete(q, 10**9)] == [True, False, False, False]
    other = ask(q)
    assert [drop(q, other), drop(q, other), drop(q, -1), drop(q, 10**9)] == [True, False, False, False]
    assert (count_waiting(q), in_flight(q)) == (0, 0)


def test_a_follower_is_answered_with_its_message_only() -> None:
    q = new_queue("to-agg", servers=1)
    slots = [ask(q, offset=0), ask(q, offset=10)]
    assert take(q, 0) == slots[0]
    assert not complete(q, slots[1])
    assert in_flight(q) == 1
    assert complete(q, slots[0])
    assert {ask(q), ask(q)} == set(slots)


def test_no_more_messages_are_in_flight_than_allowed_and_nobody_is_to_ask_before_an_answer() -> None:
    q = new_queue("twins-work-conserving", servers=2, in_flight=1)
    ask(q, server=1)
    ask(q, server=1)
    sent = take(q, 0)
    assert (take(q, 0), q[WAKE]) == (NONE, NEVER)
    q[MOST_IN_FLIGHT] = 2
    assert take(q, 0) != NONE
    assert complete(q, sent)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"servers": 0}, "servers: must be a whole number from 1 to 65536, not 0"),
        ({"servers": 2.0}, "servers: must be a whole number from 1 to 65536, not 2.0"),
        ({"slots": 1 << 40}, "slots: must be"),
        ({"in_flight": 0}, "in_flight: must be"),
        ({"node": -1}, "node: must be"),
        ({"window": -1}, "window: must be"),
        ({"window": LONGEST_WINDOW + 1}, "window: must be"),
        ({"quantum": 0}, "quantum: must be"),
        ({"aggregate": -1}, "aggregate: must be"),
        ({"patience": True}, "patience: must be"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_in_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message) as raised:
        new_queue("fifo", **{"servers": 2, **wrong})
    assert "\n" not in str(raised.value)


def test_an_unknown_scheduler_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no request scheduler 'twin'; did you mean 'twins'"):
        new_queue("twin", servers=2)
    with pytest.raises(BadInput, match="'random' is not a request scheduler"):
        new_queue(policies("storage")["random"], servers=2)


def test_options_are_settings_of_the_queue() -> None:
    assert new_queue("twins:window=500000", servers=2)[WINDOW] == 500_000
    assert new_queue("twins:window=500000", servers=2, window=7)[WINDOW] == 7
    with pytest.raises(BadInput, match="window: must be"):
        new_queue("twins:window=-1", servers=2)


def test_the_limit_of_messages_follows_from_the_scheduler_unless_it_is_given() -> None:
    q = new_queue("fifo", servers=2, in_flight=None)
    assert q[MOST_IN_FLIGHT] == IN_FLIGHT
    use(q, "twins")
    assert q[MOST_IN_FLIGHT] == IN_FLIGHT_WITH_WINDOWS
    set_window(q, 0)
    assert q[MOST_IN_FLIGHT] == IN_FLIGHT
    set_window(q, 100)
    assert q[MOST_IN_FLIGHT] == IN_FLIGHT_WITH_WINDOWS
    use(q, "hbrr")  # aggregates
    assert q[MOST_IN_FLIGHT] == IN_FLIGHT_EACH * 2
    set_aggregate(q, 0)
    assert q[MOST_IN_FLIGHT] == IN_FLIGHT
    given = new_queue("twins", servers=2, in_flight=7)
    set_window(given, 0)
    assert given[MOST_IN_FLIGHT] == 7


def test_another_scheduler_by_name_brings_its_options_and_leaves_the_others() -> None:
    q = new_queue("twins", servers=2, window=5, quantum=3)
    for offset in (0, 20, 10):
        ask(q, offset=offset)
    use(q, "to-agg")
    assert messages(q) == [[0, 10, 20]]
    use(q, "hbrr")
    assert (q[WINDOW], q[QUANTUM]) == (5, 8)


def test_what_can_not_be_is_moved_to_the_nearest_in_kernels() -> None:
    q = new_queue("wfq", servers=2)
    set_window(q, -1)
    assert q[WINDOW] == 0
    set_window(q, 2**62)
    assert q[WINDOW] == LONGEST_WINDOW
    set_scheduler(q, 99)
    assert q[SCHEDULER] == 0
    set_weight(q, 5000, 3)  # no such flow
    set_weight(q, 0, 10**9)
    set_quantum(q, -4)
    set_aggregate(q, -1)
    set_patience(q, -1)
    use(q, "wfq")
    for flow in (0, 1):
        for _ in range(HEAVIEST):
            ask(q, flow=flow, size=4096)
    assert messages(q) == [[0]] * 2 * HEAVIEST


@pytest.mark.parametrize("name", policies("order"))
@given(waits=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 5)), max_size=12))
def test_aggregation_can_begin_and_end_with_requests_waiting(name: str, waits: list[tuple[int, int, int]]) -> None:
    q = new_queue(name, servers=3, files=4, in_flight=100, aggregate=0, window=1)
    for server, file, place in waits:
        ask(q, server=server, file=file, offset=10 * place)
    set_aggregate(q, 1 << 20)
    set_aggregate(q, 0)
    assert sorted(map(sum, (m for now in range(3) for m in messages(q, now)))) == sorted(10 * p for *_, p in waits)


@pytest.mark.parametrize("shift", [0, 12, 20, 30, 40, 50])
def test_contiguous_requests_are_found_at_every_scale(shift: int) -> None:
    q = new_queue("to-agg", servers=2, aggregate=1 << 40)
    size = 1 << min(shift, 30)
    begin = (1 << shift) * 97
    for k in (0, 3, 2, 1):
        ask(q, offset=begin + k * size, size=size)
        ask(q, offset=begin + k * size, size=size, server=1)
        ask(q, offset=begin + k * size, size=size, file=1)
    assert messages(q) == [[begin + k * size for k in range(4)]] * 3


@pytest.mark.parametrize("mask", [0, None])
@pytest.mark.parametrize("other", [(1, 0, 10, 0), (0, 1, 10, 0), (0, 0, 11, 0), (0, 0, 9, 0), (0, 0, 10, 1)])
def test_what_differs_in_server_file_place_or_operation_does_not_share_a_message(
    other: tuple[int, int, int, int], mask: int | None
) -> None:
    q = new_queue("to-agg", servers=2)
    q[TABLE_MASK] = q[TABLE_MASK] if mask is None else mask  # 0: all at one place of the table
    server, file, offset, write = other
    arrive(q, 0, 0, 0, 0, 0, 10, 0)
    arrive(q, 0, server, file, 0, offset, 10, write)
    assert messages(q) == [[0], [offset]]


def test_a_message_keeps_to_its_limits_of_bytes_and_of_requests() -> None:
    q = new_queue("to-agg", servers=1, aggregate=25)
    for offset in (0, 10, 20):
        ask(q, offset=offset)
    assert messages(q) == [[0, 10], [20]]
    set_aggregate(q, 1 << 20)
    for k in range(300):
        ask(q, offset=k, size=1)
    assert [len(parts) for parts in messages(q)] == [256, 44]


def test_the_end_of_the_last_byte_there_can_be_is_not_the_beginning_of_anything() -> None:
    q = new_queue("to-agg", servers=1)
    ask(q, offset=2**63 - 1, size=10)
    ask(q, offset=0)
    assert messages(q) == [[2**63 - 1], [0]]


@kernel
def counts(q: Any, now: int) -> int:  # noqa: ARG001
    """In the order of arrival, and counts."""
    remember(q, 3, recall(q, 3) + 1)
    return first(q)


def test_what_a_scheduler_remembers_is_its_own() -> None:
    mine = order("mine")(counts)
    q = new_queue(mine, servers=1)
    ask(q)
    ask(q)
    mine_take = take_of(mine)
    assert [mine_take(q, 0), mine_take(q, 0), mine_take(q, 0)] == [0, 1, NONE]
    assert recall(q, 3) == 2
    use(q, order("other")(counts))
    assert recall(q, 3) == 0


def test_a_scheduler_of_somebody_else_is_a_queue_in_order_of_arrival_for_whoever_does_not_ask_it() -> None:
    q = new_queue(order("mine")(counts), servers=1)
    slots = [ask(q), ask(q)]
    assert [take(q, 0), take(q, 0)] == slots


def test_a_pick_that_does_not_wait_sends_nothing_and_says_so() -> None:
    q = new_queue("fifo", servers=1)
    ask(q)
    wrong = take_with(lambda q, now: now)  # noqa: ARG005
    assert [wrong(q, 1), wrong(q, 10**9), wrong(q, -7)] == [NO_SUCH] * 3
    assert (count_waiting(q), in_flight(q)) == (1, 0)
    assert wrong(q, 0) == 0


def test_built_in_schedulers_share_one_take() -> None:
    assert take_of(find("order", "hbrr:quantum=2")) is take
