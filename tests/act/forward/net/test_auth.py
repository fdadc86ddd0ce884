"""Who has no key, or another, or lies about what it said before, does not get in."""

import errno
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.net.address import Address, open_socket
from forebay.act.forward.net.admission import TIMEOUT, Listener, connect
from forebay.act.forward.net.auth import Answerer, Asker, Credentials, Denied, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.wire import SHORT, BadMessage, Kind, Message, pack
from support.forward import KEY, LoopThread, Speaker, loop_thread, unix

CLIENT = Peer(role="client", name="a", facts={"session": 5})
NODE = Peer(role="node", name="b")


def both(asker: Asker, answerer: Answerer) -> None:
    message: Message | None = asker.first()
    while message is not None:
        message = asker.receive(answerer.receive(message))


def test_who_shares_a_key_learns_who_the_other_is() -> None:
    asker, answerer = Asker(KEY, CLIENT, ("node",)), Answerer(KEY, NODE, ("client",))
    both(asker, answerer)
    assert (asker.peer, answerer.peer) == (NODE, CLIENT)


def test_another_key_is_denied_on_the_side_that_listens() -> None:
    answerer = Answerer(KEY, NODE, ("client",))
    with pytest.raises(Denied, match="wrong key"):
        both(Asker(b"another key that is long enough", CLIENT, ("node",)), answerer)
    assert answerer.peer is None


def test_who_listens_must_prove_itself_too() -> None:
    asker = Asker(KEY, CLIENT, ("node",))
    hello = Answerer(KEY, NODE, ("client",)).receive(asker.first())
    proof = asker.receive(hello)
    assert proof is not None
    with pytest.raises(Denied, match="wrong key"):  # what it has proved itself can't be played back to it
        asker.receive(Message(Kind.WELCOME, payload=proof.payload))
    assert asker.peer is None


@pytest.mark.parametrize("role", ["node", "council", "server"])
def test_a_role_that_has_no_business_here_is_denied(role: str) -> None:
    with pytest.raises(Denied, match=f"role '{role}' is not accepted at this address"):
        Answerer(KEY, NODE, ("client",)).receive(Asker(KEY, Peer(role=role), ()).first())


def test_a_proof_is_good_for_the_role_it_was_made_for_alone() -> None:
    asker, answerer = Asker(KEY, CLIENT, ("node",)), Answerer(KEY, NODE, ("client", "node"))
    first = asker.first()
    forged = Message(Kind.HELLO, payload=bytes(first.payload).replace(b"\xa6client", b"\xa4node"))
    proof = asker.receive(answerer.receive(forged))
    assert proof is not None
    with pytest.raises(Denied):
        answerer.receive(proof)


def test_a_proof_is_good_for_one_connection_alone() -> None:
    asker, first, second = Asker(KEY, CLIENT, ("node",)), *(Answerer(KEY, NODE, ("client",)) for _ in range(2))
    hello = asker.first()
    proof = asker.receive(first.receive(hello))
    second.receive(hello)
    assert proof is not None
    with pytest.raises(Denied):
        second.receive(proof)


@given(st.sampled_from(list(Kind)), st.binary(max_size=200))
def test_noise_in_place_of_a_hello_is_a_bad_message_or_denied(kind: Kind, noise: bytes) -> None:
    with pytest.raises((BadMessage, Denied)):
        Answerer(KEY, NODE, ("client",)).receive(Message(kind, payload=noise))


@pytest.mark.parametrize(
    "words",
    [
        ["client", "a", {}, b"short"],
        ["king", "a", {}, bytes(32)],
        ["client", 5, {}, bytes(32)],
        ["client", "a", {1: 2}, bytes(32)],
        {"role": "client"},
        7,
    ],
)
def test_a_hello_that_says_nothing_is_a_bad_message(words: object) -> None:
    with pytest.raises(BadMessage):
        Answerer(KEY, NODE, ("client",)).receive(Message(Kind.HELLO, payload=pack(words)))


def test_what_one_tells_of_oneself_is_bounded() -> None:
    with pytest.raises(ValueError, match=f"{SHORT} bytes"):
        Asker(KEY, Peer(role="client", facts={"a": "x" * SHORT}), ())
    with pytest.raises(ValueError, match="unknown role 'king'"):
        Peer(role="king")


class Guarded:
    """A door in a thread that lets in whoever proves itself, and lets it be."""

    def __init__(self, thread: LoopThread, address: Address, timeout: float = TIMEOUT) -> None:
        self.inside: list[Connection] = []
        self.buffers = Buffers()
        self.thread = thread

        def made() -> Listener:
            credentials = Credentials(KEY, NODE, ("client",))
            return Listener(address, credentials, self.inside.append, buffers=self.buffers, timeout=timeout)

        self.door = thread.call(made)

    def dropped(self) -> dict[str, int]:
        return self.thread.call(lambda: dict(self.door.counts))


def test_peers_that_are_denied_or_malformed_are_dropped_and_counted(tmp_path: Path) -> None:
    with loop_thread() as thread:
        guarded = Guarded(thread, unix(tmp_path, "door"))
        with pytest.raises(Denied, match="refused the connection; check the key"):
            Speaker(unix(tmp_path, "door"), role="client", key=b"not the key of this layer")
        with pytest.raises(Denied):
            Speaker(unix(tmp_path, "door"), role="server")
        for noise in (
            b"GET / HTTP/1.0\r\n\r\n" * 10,
            Message(Kind.READ).header(),
            Message(Kind.HELLO).header(SHORT + 1),
        ):
            with open_socket(unix(tmp_path, "door"), 60) as stranger:
                stranger.sendall(noise)
                assert stranger.recv(1) == b""
        with Speaker(unix(tmp_path, "door"), role="client", name="good"):
            assert guarded.dropped() == {"denied": 2, "malformed": 3}
            assert thread.call(lambda: [c.peer.name for c in guarded.inside if c.peer]) == ["good"]
        thread.call(guarded.door.close)


def test_a_peer_that_says_nothing_is_dropped_and_counted(tmp_path: Path) -> None:
    with loop_thread() as thread:
        guarded = Guarded(thread, unix(tmp_path, "door"), timeout=0.01)
        with open_socket(unix(tmp_path, "door"), 60) as stranger:
            assert stranger.recv(1) == b""
        assert guarded.dropped() == {"slow": 1}
        thread.call(guarded.door.close)


def test_strangers_hold_little_memory_and_are_bounded_in_number(tmp_path: Path) -> None:
    with loop_thread() as thread:
        guarded = Guarded(thread, unix(tmp_path, "door"))
        strangers = [open_socket(unix(tmp_path, "door"), 60) for _ in range(300)]
        for stranger in strangers[:256]:
            stranger.sendall(b"FB")
        for stranger in strangers[256:]:
            assert stranger.recv(1) == b""
        assert guarded.dropped() == {"crowded": 44}
        assert thread.call(lambda: guarded.buffers.out) <= 256 * 4096
        for stranger in strangers:
            stranger.close()
        thread.call(guarded.door.close)


class Short:
    """A listener of a process that has no descriptors left, for a while."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self._listener, self.left, self.close = listener, times, listener.close

    def fileno(self) -> int:
        return self._listener.fileno()

    def accept(self) -> object:
        self.left -= 1
        if self.left >= 0:
            raise OSError(errno.EMFILE, "too many open files")
        return self._listener.accept()


def test_a_process_without_descriptors_takes_peers_in_once_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay.act.forward.net.admission._RETRY", 0.001)
    with loop_thread() as thread:
        guarded = Guarded(thread, unix(tmp_path, "door"))
        short = Short(guarded.door._listener, 3)
        guarded.door._listener = short  # type: ignore[assignment]
        with Speaker(unix(tmp_path, "door"), role="client"):
            assert short.left < 0
        thread.call(guarded.door.close)


def test_connecting_to_one_with_another_key_says_so(tmp_path: Path) -> None:
    with loop_thread() as thread:
        guarded = Guarded(thread, unix(tmp_path, "door"))

        async def connecting() -> Connection:
            nobody = lambda *_: None  # noqa: E731
            return await connect(
                unix(tmp_path, "door"), Credentials(b"k" * 20, CLIENT, ("node",)), nobody, nobody, buffers=Buffers()
            )

        with pytest.raises(Denied, match=r"door: the other side refused"):
            thread.run(connecting())
        thread.call(guarded.door.close)
        with pytest.raises(OSError):
            thread.run(connecting())


def test_a_listener_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with loop_thread() as thread, socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()

        async def connecting() -> Connection:
            nobody = lambda *_: None  # noqa: E731
            return await connect(
                unix(tmp_path, "silent"),
                Credentials(KEY, CLIENT, ("node",)),
                nobody,
                nobody,
                buffers=Buffers(),
                timeout=0.01,
            )

        with pytest.raises(TimeoutError):
            thread.run(connecting())
