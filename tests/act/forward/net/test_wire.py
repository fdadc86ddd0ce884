"""The codec: whatever comes in whatever pieces gives the same messages, or BadMessage, and never anything else."""

import errno
import zlib
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forebay.act.forward.net.buffers import SMALL, Buffers
from forebay.act.forward.net.wire import (
    HEADER,
    LAST_OFFSET,
    LONGEST,
    MAGIC,
    VERSION,
    BadMessage,
    Flag,
    Kind,
    Message,
    Receiver,
    answer_header,
    checksum,
    pack,
    unpack_as,
)
from support.forward import complete_messages, fed

_U64 = st.integers(0, 2**64 - 1)
_FIELDS = ("kind", "flags", "status", "size", "tag", "file", "offset", "session")
MESSAGES = st.builds(
    Message,
    kind=st.sampled_from(list(Kind)).map(int),
    flags=st.integers(0, 3),
    status=st.integers(0, 2**16 - 1),
    size=st.integers(0, 2**32 - 1),
    tag=_U64,
    file=_U64,
    offset=st.integers(0, LAST_OFFSET),
    session=_U64,
    payload=st.one_of(st.binary(max_size=80), st.integers(900, 9000).map(lambda n: bytes(range(256)) * (n // 256))),
)


def encoded(*messages: Message) -> bytes:
    return b"".join(message.header() + bytes(message.payload) for message in messages)


def plain(message: Message) -> tuple[object, ...]:
    return (*(getattr(message, name) for name in _FIELDS), bytes(message.payload))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(st.lists(MESSAGES, max_size=8), st.lists(st.integers(0, 10**6), max_size=30))
def test_any_cutting_into_pieces_gives_the_same_messages(messages: list[Message], places: list[int]) -> None:
    buffers = Buffers()
    receiver = Receiver(buffers)
    got = fed(receiver, cut(encoded(*messages), places))
    assert [plain(message) for message in got] == [plain(message) for message in messages]
    for message in got:
        message.release()
    receiver.close()
    assert buffers.out == 0


@given(st.lists(MESSAGES, max_size=4), st.binary(max_size=300), st.lists(st.integers(0, 10**6), max_size=10))
@example([], MAGIC + bytes(80), [])
def test_random_bytes_are_a_bad_message_or_not_yet_a_message(
    messages: list[Message], noise: bytes, places: list[int]
) -> None:
    buffers = Buffers()
    receiver = Receiver(buffers, longest=4096)
    with suppress(BadMessage):
        fed(receiver, cut(encoded(*messages) + noise, places))
    receiver.close()
    assert buffers.out <= 10 * 8192  # the messages that came whole


@given(MESSAGES, st.data())
def test_a_changed_header_is_a_bad_message_or_another_message(message: Message, data: st.DataObject) -> None:
    raw = bytearray(encoded(message))
    unused = () if message.flags & Flag.CHECKED else range(16, 20)  # the checksum
    place = data.draw(st.sampled_from([n for n in range(HEADER.size) if n not in unused]))
    raw[place] ^= data.draw(st.integers(1, 255))
    receiver = Receiver(Buffers(), longest=16384)
    try:
        found = fed(receiver, [bytes(raw)])
    except BadMessage:
        return
    assert [plain(m) for m in found] != [plain(message)]


@given(MESSAGES, st.integers(0, 10**6))
def test_a_truncated_message_is_no_message(message: Message, kept: int) -> None:
    raw = encoded(message)
    assert fed(Receiver(Buffers()), [raw[: kept % len(raw)]]) == []


@given(
    st.integers(3, 6),
    st.sampled_from((0, 80, 5000, 40_000)),
    st.tuples(st.integers(0, HEADER.size - 1), st.integers(0, 255)),
    st.booleans(),
)
def test_a_message_alone_and_as_long_as_the_ones_before_is_read_as_any_other(
    count: int, length: int, change: tuple[int, int], checked: bool
) -> None:
    place, value = change
    flags = Flag.CHECKED if checked else 0
    raw = bytearray(encoded(Message(Kind.WRITE, flags=flags, tag=7, session=2**64 - 1, payload=bytes(length))))
    before = bytes(raw)
    raw[place] = value

    def read(receiver: Receiver) -> object:
        try:
            return [plain(message) for message in fed(receiver, [bytes(raw)])]
        except BadMessage as error:
            return str(error)

    buffers = Buffers()
    receiver = Receiver(buffers, longest=100_000)
    for _ in range(count):
        (message,) = fed(receiver, [before])
        message.release()
        assert buffers.out <= SMALL
    assert read(receiver) == read(Receiver(Buffers(), longest=100_000))


@given(st.integers(0, 2**32 - 1))
def test_no_more_memory_is_taken_than_the_longest_message_needs(length: int) -> None:
    buffers = Buffers()
    receiver = Receiver(buffers, longest=100_000)
    header = HEADER.pack(MAGIC, VERSION, Kind.WRITE, 0, 0, length, 0, 0, 0, 0, 0, 0)
    if length > 100_000:
        with pytest.raises(BadMessage, match="exceeds the limit of 100000"):
            fed(receiver, [header])
    else:
        fed(receiver, [header])
        receiver.room()
    assert buffers.out <= (1 << 17) + SMALL


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, b"X", "does not use Forebay's protocol"),
        (2, b"\x01", "protocol version 1 is not 4; use the same release"),
        (3, b"\xff", "unknown message kind 255"),
        (HEADER.size - 9, b"\x80", "beyond 2\\^63"),
        (8, b"\xff\xff\xff\xff", "exceeds the limit of 16777216"),
    ],
)
def test_a_header_that_can_not_be_says_why(place: int, value: bytes, words: str) -> None:
    raw = bytearray(encoded(Message(Kind.READ)))
    raw[place : place + len(value)] = value
    with pytest.raises(BadMessage, match=words):
        fed(Receiver(Buffers()), [bytes(raw)])


def test_the_last_offset_that_there_is_goes_through() -> None:
    (message,) = fed(Receiver(Buffers()), [encoded(Message(Kind.READ, offset=2**63 - 1))])
    assert message.offset == 2**63 - 1


@given(st.binary(min_size=1, max_size=5000), st.data())
def test_a_changed_payload_is_found_by_its_checksum(payload: bytes, data: st.DataObject) -> None:
    raw = bytearray(encoded(Message(Kind.WRITE, flags=Flag.CHECKED, payload=payload)))
    raw[HEADER.size + data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadMessage, match="checksum"):
        fed(Receiver(Buffers()), [bytes(raw)])


def test_without_memory_there_is_no_room_until_some_is_given_back() -> None:
    buffers = Buffers(limit=300_000)
    held = buffers.take(200_000)
    receiver = Receiver(buffers)
    raw = encoded(Message(Kind.WRITE, payload=bytes(200_000)))
    assert fed(receiver, [raw]) == []
    assert receiver.room() is None
    buffers.give(held)
    (message,) = fed(receiver, [raw[HEADER.size + SMALL - HEADER.size :]])
    assert len(message.payload) == 200_000


def test_between_messages_no_large_buffer_is_held() -> None:
    buffers = Buffers()
    receiver = Receiver(buffers)
    (message,) = fed(receiver, [encoded(Message(Kind.WRITE, payload=bytes(1 << 20)))])
    message.release()
    message.release()  # twice does no harm
    assert buffers.out <= SMALL


def test_messages_that_arrive_together_share_a_buffer_until_all_are_released() -> None:
    buffers = Buffers()
    receiver = Receiver(buffers)
    sent = [Message(Kind.WRITE, tag=tag, payload=bytes([tag]) * 30_000) for tag in range(1, 7)]
    raw = memoryview(encoded(*sent))
    length = len(raw) // 6
    got: list[Message] = []
    rooms: list[int] = []
    while raw:
        room = receiver.room()
        assert room is not None
        rooms.append(len(room))
        count = min(len(room), len(raw))
        room[:count], raw = raw[:count], raw[count:]
        got += complete_messages(receiver, count)
    assert max(rooms) >= 2 * length  # where there is more, more is taken at once
    assert len({id(message.payload.obj) for message in got if isinstance(message.payload, memoryview)}) < 6
    for at, message in enumerate(got):
        assert [plain(other) for other in got[at:]] == [plain(other) for other in sent[at:]]
        assert buffers.out > 0
        message.release()
    receiver.close()
    assert buffers.out == 0


@given(st.lists(st.integers(0, 70_000), max_size=20), st.integers(1, 400_000))
def test_what_shares_a_buffer_stays_as_it_was_while_more_arrives(lengths: list[int], at_once: int) -> None:
    buffers = Buffers(limit=400_000)
    receiver = Receiver(buffers)
    sent = [Message(Kind.WRITE, tag=tag, payload=bytes([tag]) * length) for tag, length in enumerate(lengths)]
    raw = memoryview(encoded(*sent))
    got: list[Message] = []
    seen = 0
    while raw:
        room = receiver.room()
        if room is None:  # all memory is in messages: the first half of them goes
            for message in got[seen : (seen + len(got) + 1) // 2]:
                assert plain(message) == plain(sent[seen])
                message.release()
                seen += 1
            continue
        count = min(len(room), len(raw), at_once)
        room[:count], raw = raw[:count], raw[count:]
        got += complete_messages(receiver, count)
    assert [plain(message) for message in got[seen:]] == [plain(message) for message in sent[seen:]]
    for message in got[seen:]:
        message.release()
    receiver.close()
    assert buffers.out == 0


def test_there_is_room_for_what_follows_a_short_message() -> None:
    receiver = Receiver(Buffers())
    lengths = []
    for payload in (bytes(10_000), b"", b""):
        for message in fed(receiver, [encoded(Message(Kind.WRITE, payload=payload))]):
            message.release()
        room = receiver.room()
        assert room is not None
        lengths.append(len(room))
    assert lengths == [2 * (HEADER.size + 10_000), 2 * (HEADER.size + 10_000), SMALL]


def test_an_answer_carries_the_tag_and_the_session_of_what_was_asked() -> None:
    asked = Message(Kind.READ, tag=7, session=9, file=3, offset=5, size=2, flags=Flag.CHECKED)
    header = answer_header(asked, status=errno.EIO, size=2, length=2, crc=zlib.crc32(b"ab"))
    (answer,) = fed(Receiver(Buffers()), [header + b"ab"])
    assert (answer.tag, answer.session, answer.status, answer.size, bytes(answer.payload)) == (7, 9, 5, 2, b"ab")
    assert answer.flags == Flag.REPLY | Flag.CHECKED


@given(st.lists(st.binary(max_size=50)))
def test_the_checksum_of_pieces_is_that_of_the_whole(pieces: list[bytes]) -> None:
    assert checksum(pieces) == zlib.crc32(b"".join(pieces))


@given(st.binary(max_size=200))
@example(b"\x91" * 2000)  # lists in lists in lists
def test_words_that_can_not_be_read_are_a_bad_message(noise: bytes) -> None:
    with suppress(BadMessage):
        unpack_as(object, noise)


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary(), st.lists))
def test_words_come_back_as_they_were(words: object) -> None:
    assert unpack_as(object, pack(words)) == words


def test_a_message_shows_what_it_is() -> None:
    assert repr(Message(Kind.WRITE, file=3, payload=b"ab")) == "<WRITE file=3 +2 bytes>"
    assert LONGEST >= 1 << 20
