import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from forebay.act.forward.net.buffers import SMALL, Buffers

LENGTHS = st.integers(0, 3 << 20)


class Pool(RuleBasedStateMachine):
    """Against an oracle: what is out is marked, and stays as it was marked."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers = Buffers(limit=8 << 20, kept=2 << 20)
        self.out: list[tuple[memoryview, int]] = []  # with the serial number of each; several may share one
        self.taken = 0

    @rule(length=LENGTHS)
    def take(self, length: int) -> None:
        self.mark(self.buffers.take(length), length)

    @rule(length=LENGTHS)
    def ask(self, length: int) -> None:
        before = self.buffers.out
        buffer = self.buffers.ask(length)
        if buffer is None:
            assert before + length > 8 << 20
            assert length > SMALL
        else:
            self.mark(buffer, length)

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 10**6))
    def give(self, which: int) -> None:
        buffer, _ = self.out.pop(which % len(self.out))
        self.buffers.give(buffer[1:2])  # any view of it will do

    @precondition(lambda self: self.out)
    @rule(which=st.integers(0, 10**6))
    def share(self, which: int) -> None:
        buffer, serial = self.out[which % len(self.out)]
        self.buffers.share(buffer[1:2])
        self.out.append((buffer, serial))

    def mark(self, buffer: memoryview, length: int) -> None:
        assert len(buffer) >= length
        self.taken += 1
        buffer[0] = buffer[len(buffer) - 1] = self.taken % 256
        self.out.append((buffer, self.taken))

    @invariant()
    def nobody_has_what_another_has(self) -> None:
        assert len({id(buffer.obj) for buffer, _ in self.out}) == len({serial for _, serial in self.out})
        assert all(buffer[0] == serial % 256 == buffer[len(buffer) - 1] for buffer, serial in self.out)

    @invariant()
    def what_is_out_is_counted(self) -> None:
        assert self.buffers.out == sum(map(len, {serial: buffer for buffer, serial in self.out}.values()))


TestPool = Pool.TestCase


@given(LENGTHS)
def test_a_buffer_wastes_little(length: int) -> None:
    assert length <= len(Buffers().take(length)) <= max(2 * length, SMALL) + 4096


def test_the_same_memory_is_used_again() -> None:
    buffers = Buffers()
    first = buffers.take(100_000).obj
    buffers.give(memoryview(first))
    assert buffers.take(90_000).obj is first


def test_a_buffer_can_be_given_back_once() -> None:
    buffers = Buffers()
    buffer = buffers.take(10)
    buffers.give(buffer)
    with pytest.raises(RuntimeError, match="twice"):
        buffers.give(buffer)
    with pytest.raises(RuntimeError, match="does not belong to this pool"):
        buffers.give(memoryview(bytearray(10)))
    assert buffers.out == 0


def test_who_waits_is_called_once_when_memory_is_back() -> None:
    buffers = Buffers(limit=10_000)
    held = buffers.take(12_000)
    calls: list[str] = []
    assert buffers.ask(12_000) is None
    buffers.wait(lambda: calls.append("first"))
    buffers.wait(lambda: calls.append("second"))
    buffers.give(held)
    assert calls == ["first", "second"]
    buffers.give(buffers.take(12_000))
    assert calls == ["first", "second"]


def test_a_message_longer_than_the_limit_is_taken_where_there_is_no_other() -> None:
    buffers = Buffers(limit=10_000)
    assert buffers.ask(1 << 20) is not None
    assert buffers.ask(1 << 20) is None
