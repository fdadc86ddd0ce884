import errno
from collections.abc import Iterator
from typing import Any

import pytest

from forebay.act.forward.net.wire import Kind, Message
from forebay.act.forward.node.backend import Batch, Servers
from forebay.act.forward.node.dispatch import Dispatch, Request
from forebay.act.forward.striping import Piece
from forebay.decide.order.queue_layout import AGGREGATE, PATIENCE, QUANTUM, WINDOW
from forebay.decide.order.schedulers import ORDERS
from forebay.model.errors import BadInput
from support.forward import LoopThread, loop_thread

LONG_AGO = -1.0


class Sent(Servers):
    """Servers that note who is sent something, and answer nothing."""

    def __init__(self, count: int) -> None:
        self.count, self.up = count, [True] * count
        self.servers: list[int] = []

    def send(self, _slot: int, server: int, _batch: Batch) -> None:
        self.servers.append(server)


class File:
    """Byte n of it is on server n."""

    number = 0
    reach = 1 << 62

    def pieces(self, offset: int, length: int) -> list[Piece]:
        return [Piece(server, 0, 1, server - offset) for server in range(offset, offset + length)]


class Owner:
    def __init__(self) -> None:
        self.finished: list[Request] = []
        self.calls: list[list[Request]] = []

    def finish(self, requests: list[Request]) -> None:
        self.finished += requests
        self.calls.append(requests)


class World:
    """A queue of so many slots before servers that note what they are sent; everything happens on one loop."""

    def __init__(self, thread: LoopThread, servers: int, scheduler: str = "fifo", **sizes: Any) -> None:
        self.thread, self.sent, self.owner = thread, Sent(servers), Owner()
        self.dispatch = thread.call(lambda: Dispatch(thread.loop, self.sent, scheduler, **sizes))

    def asks(self, server: int, length: int = 1) -> Request:
        request = Request(self.owner, Message(Kind.WRITE), File(), length, 1, 0, 0)
        request.pieces = File().pieces(server, length)
        request.left = length
        self.thread.call(self.dispatch.submit, request, 0)
        return request

    def loses(self, server: int) -> None:
        self.sent.up[server] = False
        self.thread.call(self.dispatch.park, server)

    def finds(self, server: int) -> None:
        self.sent.up[server] = True
        self.thread.call(self.dispatch.unpark, server)

    def gives_up(self) -> None:
        """Of all that waits for a server that is away, whatever the time is."""
        self.thread.call(self.dispatch.drop_overdue, LONG_AGO, lambda server: f"server {server} is away")


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    with loop_thread() as found:
        yield found


def test_what_waited_for_a_server_is_given_up_once(thread: LoopThread) -> None:
    world = World(thread, 2, slots=1)
    world.loses(0)
    first, second = world.asks(0), world.asks(0)
    world.finds(0)  # the queue has room for one of them
    for _ in range(2):
        world.gives_up()
    assert (first.left, first.status) == (1, 0)  # with its server by now: that one answers
    assert (second.left, second.status) == (0, errno.EIO)
    assert world.owner.finished == [second]


def test_the_owner_learns_of_answers_that_arrived_together_at_once(thread: LoopThread) -> None:
    world = World(thread, 2)
    first, second, third = world.asks(0), world.asks(0, 2), world.asks(1)
    thread.call(world.dispatch.pump)
    first_half, second_half = [(second, 0, 1)], [(second, 1, 2)]
    thread.call(
        world.dispatch.complete, [(0, [(first, 0, 0)]), (1, first_half), (2, second_half), (3, [(third, 0, 3)])]
    )
    assert world.owner.calls == [[first, second, third]]
    assert world.dispatch.open == 0


SETTINGS = {"window": (WINDOW, 4_000_000), "quantum": (QUANTUM, 3), "aggregate": (AGGREGATE, 1 << 20),
            "patience": (PATIENCE, 17)}  # fmt: skip


@pytest.mark.parametrize("scheduler", [policy.name for policy in ORDERS])
@pytest.mark.parametrize(
    ("name", "value"), [("window", 250_000), ("quantum", 9), ("aggregate", 1 << 16), ("patience", 5)]
)
def test_changing_one_setting_keeps_all_others(thread: LoopThread, scheduler: str, name: str, value: int) -> None:
    dispatch = World(thread, 2, scheduler, **{own: given for own, (_, given) in SETTINGS.items()}).dispatch
    wanted = {own: value if own == name else given for own, (_, given) in SETTINGS.items()}

    def settings() -> dict[str, int]:
        return {own: int(dispatch.q[word]) for own, (word, _) in SETTINGS.items()}

    thread.call(dispatch.set_parameter, name, value)
    assert (dispatch.scheduler, settings()) == (scheduler, wanted)
    for other in ("hbrr", "sjf", "twins", scheduler):
        thread.call(dispatch.set_parameter, "scheduler", other)
        assert (dispatch.scheduler, settings()) == (other, wanted)
    with pytest.raises(BadInput):
        thread.call(dispatch.set_parameter, name, -1)
    assert settings() == wanted


def test_a_new_scheduler_brings_its_own_defaults_for_what_nobody_set(thread: LoopThread) -> None:
    dispatch = World(thread, 2, "twins:window=4000000").dispatch
    thread.call(dispatch.set_parameter, "scheduler", "hbrr")
    assert (dispatch.q[WINDOW], dispatch.q[AGGREGATE], dispatch.q[QUANTUM]) == (4_000_000, 1 << 20, 8)
    thread.call(dispatch.set_parameter, "scheduler", "hbrr:quantum=2")
    thread.call(dispatch.set_parameter, "scheduler", "mlf")
    assert (dispatch.q[WINDOW], dispatch.q[AGGREGATE], dispatch.q[QUANTUM]) == (4_000_000, 0, 8)


def test_a_request_that_found_no_place_gets_one_when_a_server_is_lost(thread: LoopThread) -> None:
    world = World(thread, 2, slots=1)
    world.asks(0)
    world.asks(1)
    assert world.dispatch.full
    world.loses(0)
    thread.call(lambda: None)
    assert world.sent.servers == [1]
    assert not world.dispatch.full


def test_a_request_that_found_no_place_gets_one_when_another_is_withdrawn(thread: LoopThread) -> None:
    world = World(thread, 2, slots=1)
    first = world.asks(0)
    world.asks(1)
    thread.call(world.dispatch.withdraw, first, errno.EIO, "gone")
    thread.call(lambda: None)
    assert world.sent.servers == [1]
    assert world.owner.finished == [first]
