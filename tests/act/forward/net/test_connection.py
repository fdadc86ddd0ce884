"""One peer over one socket: bytes arrive once and in order whatever the kernel takes at a time; memory is bounded."""

import socket
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.act.forward.net.buffers import SMALL, Buffers
from forebay.act.forward.net.connection import MOST_QUEUED, Closed, CloseReason, Connection, _remainder
from forebay.act.forward.net.wire import Kind, Message
from support.examples import examples
from support.forward import LoopThread
from support.processes import wait_until


class Pair:
    """A connection in a loop's thread, and the other end in the test's hand."""

    def __init__(self, limit: int = 256 << 20, most_queued: int = MOST_QUEUED, patient: bool = False) -> None:
        self.thread = LoopThread()
        mine, self.other = socket.socketpair()
        self.other.settimeout(60)
        self.buffers = Buffers(limit)
        self.got: list[Message] = []
        self.lost: list[Closed] = []
        self.done: list[int] = []
        self.connection = self.thread.call(
            lambda: Connection(
                self.thread.loop,
                mine,
                self.buffers,
                lambda _, message: self.received(message),
                lambda _, closed: self.lost.append(closed),
                most_queued=most_queued,
                patient=patient,
            )
        )
        self.thread.call(self.connection.start)

    def received(self, message: Message) -> None:
        self.got.append(message)

    def until(self, what: Callable[[], object]) -> None:
        """Let the loop turn until `what()` holds."""
        wait_until(lambda: self.thread.call(what), "the loop has turned, and nothing happened")

    def close(self) -> None:
        self.thread.call(self.connection.close)
        self.until(lambda: self.lost)
        self.other.close()
        self.thread.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def read(sock: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = sock.recv(count - len(found))
        assert part
        found += part
    return bytes(found)


def test_what_the_kernel_does_not_take_goes_out_later_and_in_order(pair: Pair) -> None:
    blocks = [bytes([number]) * 300_000 for number in range(20)]
    for number, block in enumerate(blocks):
        pair.thread.call(pair.connection.send, [block[:7], memoryview(block)[7:]], lambda n=number: pair.done.append(n))
    assert pair.thread.call(lambda: pair.connection.queued) > 0
    assert len(pair.done) < 20
    assert read(pair.other, 6_000_000) == b"".join(blocks)
    pair.until(lambda: len(pair.done) == 20)
    assert pair.done == list(range(20))
    assert pair.connection.queued == 0


def test_what_could_not_be_sent_is_given_back_when_the_connection_is_lost(pair: Pair) -> None:
    for number in range(5):
        pair.thread.call(pair.connection.send, [bytes(2_000_000)], lambda n=number: pair.done.append(n))
    pair.other.close()
    pair.until(lambda: pair.lost)
    assert sorted(pair.done) == list(range(5))
    pair.thread.call(pair.connection.send, [b"late"], lambda: pair.done.append(9))
    assert pair.done[-1] == 9
    assert len(pair.lost) == 1


def test_more_pieces_than_one_call_of_the_kernel_takes(pair: Pair) -> None:
    pieces = [bytes([number % 256]) for number in range(3000)]
    pair.thread.call(pair.connection.send, pieces, lambda: pair.done.append(1))
    assert read(pair.other, 3000) == b"".join(pieces)
    pair.until(lambda: pair.done)


def test_a_paused_connection_takes_nothing_and_loses_nothing(pair: Pair) -> None:
    def received(message: Message) -> None:
        pair.got.append(message)
        if len(pair.got) == 3:
            pair.connection.pause()

    pair.received = received  # type: ignore[method-assign]
    raw = b"".join(Message(Kind.READ, tag=number).header() for number in range(500))
    pair.other.sendall(raw)
    pair.until(lambda: len(pair.got) == 3)
    pair.thread.call(lambda: None)
    assert len(pair.got) == 3
    pair.thread.call(pair.connection.resume)
    pair.until(lambda: len(pair.got) == 500)
    assert [message.tag for message in pair.got] == list(range(500))


def test_the_end_of_what_arrived_together_is_told_once(pair: Pair) -> None:
    counts: list[int] = []
    pair.thread.call(lambda: setattr(pair.connection, "received_all", lambda: counts.append(len(pair.got))))
    pair.other.sendall(b"".join(Message(Kind.READ, tag=number).header() for number in range(20)))
    pair.until(lambda: counts)
    pair.other.sendall(Message(Kind.READ).header()[:10])
    pair.until(lambda: len(counts) == 2)
    assert counts == [20, 20]


def test_without_memory_a_connection_waits_for_it() -> None:
    pair = Pair(limit=300_000)
    held = pair.thread.call(pair.buffers.take, 250_000)
    message = Message(Kind.WRITE, payload=bytes(200_000))
    pair.other.sendall(message.header() + b"x" * 20_000)
    pair.until(lambda: pair.connection._asleep)
    assert pair.got == []
    pair.thread.call(pair.buffers.give, held)
    pair.other.sendall(b"x" * 180_000)
    pair.until(lambda: pair.got)
    assert bytes(pair.got[0].payload) == b"x" * 200_000
    pair.thread.call(pair.got[0].release)
    pair.close()
    assert pair.buffers.out == 0


@pytest.mark.parametrize("patient", [False, True])
def test_who_does_not_read_is_not_read_from_unless_the_connection_is_patient(patient: bool) -> None:
    pair = Pair(most_queued=100_000, patient=patient)
    pair.thread.call(pair.connection.send, [bytes(3_000_000)])
    pair.other.sendall(Message(Kind.READ, tag=5).header())
    pair.thread.call(lambda: None)
    pair.thread.call(lambda: None)
    if patient:
        pair.until(lambda: pair.got)
    else:
        assert pair.got == []
        read(pair.other, 3_000_000)
        pair.until(lambda: pair.got)
    assert pair.got[0].tag == 5
    pair.close()


def test_a_message_that_makes_no_sense_ends_the_connection(pair: Pair) -> None:
    pair.other.sendall(Message(Kind.READ, tag=1).header() + b"GET / HTTP/1.1\r\n" * 10)
    pair.until(lambda: pair.lost)
    assert [message.tag for message in pair.got] == [1]
    assert pair.lost == [(CloseReason.MALFORMED, "the peer does not use Forebay's protocol; check the address")]
    assert pair.connection.closed


def test_the_end_of_the_peer_is_told_once_and_nothing_is_held(pair: Pair) -> None:
    pair.other.sendall(Message(Kind.WRITE).header(100_000) + b"half")
    pair.other.close()
    pair.until(lambda: pair.lost)
    assert pair.lost == [(CloseReason.GONE, "the peer is gone")]
    assert pair.buffers.out == 0


def test_an_idle_connection_holds_at_most_a_small_buffer(pair: Pair) -> None:
    pair.other.sendall(Message(Kind.WRITE).header(1_000_000) + bytes(1_000_000))
    pair.until(lambda: pair.got)
    pair.thread.call(pair.got[0].release)
    assert pair.buffers.out <= SMALL


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 400))
def test_what_is_left_of_pieces_is_what_was_not_sent(lengths: list[int], sent: int) -> None:
    pieces = [bytes([number]) * length for number, length in enumerate(lengths)]
    whole = b"".join(pieces)
    assert b"".join(_remainder(pieces, min(sent, len(whole)))) == whole[sent:]


def test_a_peer_that_goes_before_it_has_read_all_is_gone_and_its_last_words_count(pair: Pair) -> None:
    """Its socket has an error then, of which uvloop tells only once."""
    words = Message(Kind.WRITE, payload=b"its last words" * 500)

    def go() -> None:
        pair.connection.send([b"unread"])
        for _ in range(5):
            pair.other.sendall(words.header() + bytes(words.payload))
        pair.other.close()

    pair.thread.call(go)
    pair.until(lambda: pair.lost)
    assert [bytes(message.payload) for message in pair.got] == [words.payload] * 5
