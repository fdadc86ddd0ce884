import socket
from pathlib import Path

from forebay.act.forward.net.connection import error_watcher
from support.forward import LoopThread, loop_thread


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def with_an_error() -> socket.socket:
    """A socket whose peer went before it had read what it was sent."""
    mine, other = socket.socketpair()
    mine.send(b"unread")
    other.close()
    return mine


def watched(thread: LoopThread, sock: socket.socket) -> list[int]:
    told: list[int] = []
    thread.call(lambda: error_watcher(thread.loop).watch(sock.fileno(), lambda: told.append(1)))
    for _ in range(5):
        thread.call(lambda: None)
    return told


def test_an_error_is_told_of_and_a_peer_that_has_hung_up_is_none() -> None:
    with loop_thread() as thread:
        mine, other = socket.socketpair()
        other.close()
        spoilt = with_an_error()
        assert watched(thread, mine) == []
        assert watched(thread, spoilt) == [1]
        for sock in (mine, spoilt):
            thread.call(error_watcher(thread.loop).forget, sock.fileno())
            sock.close()


def test_nothing_is_left_of_what_is_forgotten() -> None:
    with loop_thread() as thread:
        mine, other = socket.socketpair()
        before = descriptors()
        assert watched(thread, mine) == []
        thread.call(error_watcher(thread.loop).forget, mine.fileno())
        thread.call(error_watcher(thread.loop).forget, mine.fileno())  # again is no mistake
        assert descriptors() == before
        mine.close()
        other.close()
