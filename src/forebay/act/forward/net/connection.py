"""One peer over one non-blocking socket: messages in, gathered bytes out, bounded on both sides.

The sockets are driven by hand (the loop tells when they are ready) instead of by the loop's transports: what is sent
is with the kernel when `send` returns, in the usual case, so that it is always clear whose a buffer is.
"""

from __future__ import annotations

import socket
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.broken import broken
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import LONGEST, BadMessage, Bytes, Message, Receiver

MOST_QUEUED = 8 << 20
"""Bytes that may wait for a peer who does not read; then nothing more is taken from it."""
_MOST_PIECES = 512

Done = Callable[[], None]


class Connection:
    """Calls `received(connection, message)` for each message, and `lost(connection, why)` once, when it is over.

    `lost` is called from the loop, never from within a call of `send` or `close`. With `patient`, reading goes on
    whatever waits to be sent; otherwise (the default, right for who answers requests) a peer that does not read its
    answers is not read from either. `peer` is who is there, once that is proved.
    """

    __slots__ = (
        "__weakref__", "_asleep", "_backlog", "_choked", "_loop", "_lost", "_out", "_paused", "_reading", "_received",
        "_receiver", "_sock", "_why", "_writing", "buffers", "closed", "most_queued", "patient", "peer", "queued",
    )  # fmt: skip

    def __init__(
        self,
        loop: AbstractEventLoop,
        sock: socket.socket,
        buffers: Buffers,
        received: Callable[[Connection, Message], None],
        lost: Callable[[Connection, str], None],
        *,
        longest: int = LONGEST,
        most_queued: int = MOST_QUEUED,
        patient: bool = False,
    ) -> None:
        sock.setblocking(False)
        self.buffers = buffers
        self.peer: Peer | None = None
        self.queued = 0
        self.closed = False
        self.most_queued = most_queued
        self.patient = patient
        self._loop, self._sock = loop, sock
        self._received, self._lost = received, lost
        self._receiver = Receiver(buffers, longest)
        self._out: deque[tuple[list[Bytes], int, Done | None]] = deque()
        self._paused = self._choked = self._asleep = self._reading = self._writing = self._backlog = False
        self._why = ""

    @property
    def half(self) -> int:
        """Bytes that have come of a message whose rest the peer owes us."""
        return self._receiver.half if self._reading else 0

    def start(self) -> None:
        """Begin to read."""
        broken(self._loop).watch(self._sock.fileno(), self._broke)
        self._watch()

    def allow(self, longest: int) -> None:
        """Take messages of so many bytes from here on."""
        self._receiver.longest = longest

    def redirect(
        self, received: Callable[[Connection, Message], None], lost: Callable[[Connection, str], None]
    ) -> None:
        """From the next message on, others are told."""
        self._received, self._lost = received, lost

    def send(self, pieces: Sequence[Bytes], done: Done | None = None) -> None:
        """Send the pieces one after the other. None of them may be touched before `done` is called: at once where the
        kernel took them all, later where they had to wait, and also when the connection is lost."""
        if self.closed:
            if done:
                done()
            return
        total = sum(map(len, pieces))
        if not self._out:
            sent = self._send(pieces)
            if sent == total or self.closed:
                if done:
                    done()
                return
            pieces, total = _after(pieces, sent), total - sent
        self._out.append((list(pieces), total, done))
        self.queued += total
        self._expect_to_write()

    def pause(self) -> None:
        """Take no more messages until `resume`."""
        self._paused = True
        self._watch()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._wake()

    def close(self, why: str = "closed here") -> None:
        """End it at once; what waits to be sent is dropped."""
        if self.closed:
            return
        self.closed, self._why = True, why
        broken(self._loop).forget(self._sock.fileno())
        with suppress(RuntimeError):  # uvloop's, of a socket that it has given up
            self._watch()
        if self._writing:
            self._loop.remove_writer(self._sock)
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._receiver.close()
        self._loop.call_soon(self._ended)

    def _ended(self) -> None:
        out, self._out = self._out, deque()
        self.queued = 0
        for _, _, done in out:
            if done:
                done()
        self._lost(self, self._why)

    def _watch(self) -> None:
        """Have the loop tell when there is something to read, or not any more."""
        want = not (self.closed or self._paused or self._choked or self._asleep)
        if want != self._reading:
            self._reading = want
            if want:
                self._loop.add_reader(self._sock, self._readable)
            else:
                self._loop.remove_reader(self._sock)

    def _readable(self) -> None:
        if self._backlog:  # there may be no room for more before that is done
            self._deliver()
            return
        room = self._receiver.room()
        if room is None:
            self._sleep()
            return
        try:
            count = self._sock.recv_into(room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(error.strerror or str(error))
            return
        if not count:
            self.close("the peer is gone")
            return
        self._receiver.received(count)
        self._deliver()

    def _broke(self) -> None:
        """There is an error: what came before it is still taken, as far as it can be now."""
        for _ in range(_MOST_PIECES):
            if self.closed or not self._reading:
                break
            self._readable()
        self.close("the peer is gone")

    def _deliver(self) -> None:
        self._backlog = True
        try:
            while self._reading:
                message = self._receiver.next()
                if message is None:
                    self._backlog = False
                    return
                self._received(self, message)
        except BadMessage as error:
            self.close(str(error))

    def _sleep(self) -> None:
        """Wait for memory."""
        self._asleep = True
        self._watch()
        self.buffers.wait(self._memory_is_back)

    def _memory_is_back(self) -> None:
        self._asleep = False
        self._loop.call_soon(self._watch)

    def _wake(self) -> None:
        """Read again, beginning with what came before."""
        self._watch()
        if self._reading:
            self._loop.call_soon(self._deliver)

    def _expect_to_write(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock, self._writable)
        if self.queued > self.most_queued and not (self._choked or self.patient):
            self._choked = True
            self._watch()

    def _writable(self) -> None:
        while self._out:
            pieces, total, done = self._out[0]
            sent = self._send(pieces)
            if self.closed:
                return
            self.queued -= sent
            if sent < total:
                self._out[0] = (_after(pieces, sent), total - sent, done)
                break
            self._out.popleft()
            if done:
                done()
        if not self._out and not self.closed:
            self._writing = False
            self._loop.remove_writer(self._sock)
        if self._choked and self.queued * 2 <= self.most_queued:
            self._choked = False
            self._wake()

    def _send(self, pieces: Sequence[Bytes]) -> int:
        try:
            if len(pieces) == 1:
                return self._sock.send(pieces[0])
            return self._sock.sendmsg(pieces if len(pieces) <= _MOST_PIECES else pieces[:_MOST_PIECES])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.close(error.strerror or str(error))
            return 0


def _after(pieces: Sequence[Bytes], sent: int) -> list[Bytes]:
    """What is left of the pieces."""
    for index, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[index + 1 :]]
        sent -= len(piece)
    return []
