"""A connection to one peer over a non-blocking socket, with limits on queued data in both directions.

It reads and writes the socket itself on readiness events, instead of through the loop's transports. Usually the kernel
has taken all bytes when `send` returns, so it is always clear who owns a buffer.
"""

import select
import socket
import struct
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import LONGEST, BadMessage, Bytes, Message, Receiver

MOST_QUEUED = 8 << 20
"""Bytes that may wait for a peer that does not read; beyond that, the connection stops reading from it."""
_MOST_PIECES = 512
_SO_PEERGROUPS = 59
_MOST_GROUPS = 256  # of a process; getsockopt takes at most 1024 bytes from Python


class Process(NamedTuple):
    """A process on this machine, its user, its group and its supplementary groups; number 0: its number is unknown."""

    number: int
    uid: int
    gid: int
    groups: tuple[int, ...]


class CloseReason(Enum):
    """Why a connection ended; the values also name the counters of dropped peers."""

    CLOSED = "closed"  # by this side, without a fault
    GONE = "gone"  # the peer closed it or died
    FAILED = "failed"  # the socket reported an error
    MALFORMED = "malformed"  # the peer broke the protocol
    DENIED = "denied"  # wrong key or role
    SLOW = "slow"  # the peer did not prove itself in time
    SILENT = "silent"  # the peer has owed an answer for too long
    STALLED = "stalled"  # the peer does not read, or stopped in the middle of a message
    REPLACED = "replaced"  # the same peer has connected again
    CANCELLED = "cancelled"  # a caller gave up in the middle of a message
    SHUTDOWN = "shutdown"  # this process is shutting down
    INTERNAL = "internal"  # a bug on this side


class Closed(NamedTuple):
    """The end of a connection: a code for programs and a sentence for people."""

    reason: CloseReason
    detail: str

    def __str__(self) -> str:
        return self.detail


Done: TypeAlias = Callable[[], None]
Received: TypeAlias = "Callable[[Connection, Message], None]"
Lost: TypeAlias = "Callable[[Connection, Closed], None]"


class Connection:
    """Calls `received(connection, message)` for each message, and `lost(connection, closed)` once, at the end.

    `send` and `close` never call `lost` directly; the loop does. By default, as servers need it, it does not read from
    a peer that does not read its answers. A `patient` connection always keeps reading.
    """

    peer: Peer
    """Set once the peer has proved who it is."""
    received_all: Callable[[], None] | None
    """If set, called after the last of the messages that arrived together."""

    __slots__ = (
        "__weakref__", "_asleep", "_backlog", "_choked", "_ending", "_loop", "_lost", "_out", "_paused", "_reading",
        "_received", "_receiver", "_sock", "_writing", "buffers", "closed", "most_queued", "patient", "peer", "queued",
        "received_all",
    )  # fmt: skip

    def __init__(
        self,
        loop: AbstractEventLoop,
        sock: socket.socket,
        buffers: Buffers,
        received: Received,
        lost: Lost,
        *,
        longest: int = LONGEST,
        most_queued: int = MOST_QUEUED,
        patient: bool = False,
    ) -> None:
        sock.setblocking(False)
        self.buffers = buffers
        self.queued = 0
        self.closed = False
        self.received_all = None
        self.most_queued = most_queued
        self.patient = patient
        self._loop, self._sock = loop, sock
        self._received, self._lost = received, lost
        self._receiver = Receiver(buffers, longest)
        self._out: deque[tuple[list[Bytes], int, Done | None]] = deque()
        self._paused = self._choked = self._asleep = self._reading = self._writing = self._backlog = False
        self._ending = Closed(CloseReason.CLOSED, "closed")

    @property
    def partial_bytes(self) -> int:
        """Bytes received of an incomplete message."""
        return self._receiver.partial_bytes if self._reading else 0

    def process_at_other_end(self) -> Process | None:
        """The process that opened a UNIX socket; None for a connection by TCP."""
        if self.closed or self._sock.family != socket.AF_UNIX:
            return None
        number, uid, gid = struct.unpack("3i", self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        groups = b""
        with suppress(OSError):  # more groups than there is room for
            groups = self._sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MOST_GROUPS)
        return Process(number, uid, gid, struct.unpack(f"{len(groups) // 4}I", groups))

    def start(self) -> None:
        """Start to read."""
        error_watcher(self._loop).watch(self._sock.fileno(), self._on_error)
        self._watch()

    def redirect(self, received: Received, lost: Lost) -> None:
        """Call these functions from the next message on, and accept messages of full length."""
        self._received, self._lost, self._receiver.longest = received, lost, LONGEST

    def send(self, pieces: Sequence[Bytes], done: Done | None = None) -> None:
        """Send the pieces in order. They must not change until `done` is called, which also happens if the connection
        is lost."""
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
            pieces, total = _remainder(pieces, sent), total - sent
        self._out.append((list(pieces), total, done))
        self.queued += total
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock, self._writable)
        if self.queued > self.most_queued and not (self._choked or self.patient):
            self._choked = True
            self._watch()

    def pause(self) -> None:
        """Take no more messages until `resume`."""
        self._paused = True
        self._watch()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._wake()

    def close(self, reason: CloseReason = CloseReason.CLOSED, detail: str = "") -> None:
        """Close the connection at once, and drop the bytes that wait to be sent."""
        if self.closed:
            return
        self.closed, self._ending = True, Closed(reason, detail or reason.value)
        error_watcher(self._loop).forget(self._sock.fileno())
        with suppress(RuntimeError):  # uvloop raises this for a socket that it has dropped
            self._watch()
        if self._writing:
            self._loop.remove_writer(self._sock)
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._receiver.close()
        self._loop.call_soon(self._report_end)

    def _report_end(self) -> None:
        out, self._out = self._out, deque()
        self.queued = 0
        for _, _, done in out:
            if done:
                done()
        self._lost(self, self._ending)

    def _watch(self) -> None:
        """Add or remove the loop's reader to match the state."""
        want = not (self.closed or self._paused or self._choked or self._asleep)
        if want != self._reading:
            self._reading = want
            if want:
                self._loop.add_reader(self._sock, self._readable)
            else:
                self._loop.remove_reader(self._sock)

    def _readable(self) -> None:
        """Read what has arrived, and hand over its messages until one of them stops the reading."""
        receiver, count = self._receiver, 0
        if not self._backlog:  # else hand over these messages first: there may be no room for more
            room = receiver.room()
            if room is None:
                self._asleep = True
                self._watch()
                self.buffers.wait(self._resume_reading)
                return
            try:
                count = self._sock.recv_into(room)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.close(CloseReason.FAILED, error.strerror or str(error))
                return
            if not count:
                self.close(CloseReason.GONE, "the peer is gone")
                return
        self._backlog = False
        try:
            message = receiver.receive(count)
            while message is not None:
                received = self._received  # not outside the loop, as a message may redirect those that follow it
                received(self, message)
                if not receiver.filled:
                    break
                if not self._reading:
                    self._backlog = True
                    break
                message = receiver.next()
        except BadMessage as error:
            self.close(CloseReason.MALFORMED, str(error))
        received_all = self.received_all
        if received_all is not None:
            received_all()

    def _on_error(self) -> None:
        """Handle an error of the socket: first read the bytes that arrived before it, if possible."""
        for _ in range(_MOST_PIECES):
            if self.closed or not self._reading:
                break
            self._readable()
        self.close(CloseReason.GONE, "the peer is gone")

    def _deliver_backlog(self) -> None:
        if self._backlog and self._reading:
            self._readable()

    def _resume_reading(self) -> None:
        self._asleep = False
        self._loop.call_soon(self._watch)

    def _wake(self) -> None:
        """Read again, starting with the messages that have already arrived."""
        self._watch()
        if self._reading:
            self._loop.call_soon(self._deliver_backlog)

    def _writable(self) -> None:
        while self._out:
            pieces, total, done = self._out[0]
            sent = self._send(pieces)
            if self.closed:
                return
            self.queued -= sent
            if sent < total:
                self._out[0] = (_remainder(pieces, sent), total - sent, done)
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
            self.close(CloseReason.FAILED, error.strerror or str(error))
            return 0


def _remainder(pieces: Sequence[Bytes], sent: int) -> list[Bytes]:
    """The pieces without their first `sent` bytes."""
    for index, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[index + 1 :]]
        sent -= len(piece)
    return []


class ErrorWatcher:
    """Reports errors of one loop's sockets. It holds a descriptor only while it watches sockets.

    libuv reports a socket's error only once, for example after a peer closes before it has read everything. Code that
    reads other bytes at that moment, and then waits for more, would wait for ever.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._epoll: select.epoll | None = None

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call `callback` when the socket has an error, until `forget`."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._look)
        self._callbacks[descriptor] = callback
        # epoll always reports errors. It also reports a peer that hung up, which is not an error; hence EPOLLET.
        self._epoll.register(descriptor, select.EPOLLET)

    def forget(self, descriptor: int) -> None:
        if self._epoll is None or self._callbacks.pop(descriptor, None) is None:
            return
        self._epoll.unregister(descriptor)
        if not self._callbacks:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _look(self) -> None:
        for descriptor, events in self._epoll.poll(0) if self._epoll is not None else ():
            callback = self._callbacks.get(descriptor)
            if callback is not None and events & select.EPOLLERR:
                callback()


_watchers: WeakKeyDictionary[AbstractEventLoop, ErrorWatcher] = WeakKeyDictionary()


def error_watcher(loop: AbstractEventLoop) -> ErrorWatcher:
    """The loop's only watcher."""
    if loop not in _watchers:
        _watchers[loop] = ErrorWatcher(loop)
    return _watchers[loop]
