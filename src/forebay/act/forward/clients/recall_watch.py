"""Tells a mount which leases it must give up: a connection of its own to an I/O node, on which recalls arrive."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from forebay.act.forward.clients.channel import Identity
from forebay.act.forward.clients.node_socket import NodeSocket, fill
from forebay.act.forward.clients.requests import Lost, Request
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.payloads import NodeList
from forebay.act.forward.net.wire import HEADER, LONGEST, MAGIC, VERSION, BadMessage, Kind, pack, unpack_as

NO_TIMEOUT = socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0)
_PAUSE = 0.5
_FIRST = 2.0
_TIMEOUT = 60.0


class LeaseWatch:
    """Watches in a thread. `recalled(nodes)` must drop what is kept of these nodes before it returns.

    `lost()` must drop everything: the mount has no leases any more. It keeps nothing then until `begun()`, as the layer
    forgets all leases when the mount watches again.
    """

    def __init__(
        self,
        nodes: Sequence[Address],
        key: bytes,
        who: Identity,
        *,
        recalled: Callable[[list[int]], None],
        lost: Callable[[], None],
        begun: Callable[[], None],
    ) -> None:
        self._new_socket = partial(NodeSocket, nodes, key, who, timeout=_TIMEOUT, checked=False)
        self._holder = who.holder
        self._recalled, self._lost, self._begun = recalled, lost, begun
        self._closed = False
        self._socket: NodeSocket | None = None

    def start(self) -> None:
        """Start to watch, once the first connection has been tried."""
        tried = threading.Event()
        threading.Thread(target=self._watch_again_and_again, args=(tried,), name="leases", daemon=True).start()
        tried.wait(_FIRST)

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._socket.interrupt()

    def _watch_again_and_again(self, tried: threading.Event) -> None:
        sock = self._socket = self._new_socket()
        while not self._closed:
            try:
                if self._begin(sock):
                    return
                self._begun()
                tried.set()
                self._watch(sock)
            except (Lost, OSError, BadMessage, struct.error):
                pass
            finally:
                self._lost()
                sock.close()
                tried.set()
            if not self._closed:
                time.sleep(_PAUSE)

    def _begin(self, sock: NodeSocket) -> bool:
        """Ask for leases; return whether the layer grants none because it is in front of another file system."""
        try:
            sock.exchange(Request(Kind.WATCH, file=self._holder)).send(None)
        except StopIteration as end:
            return bool(end.value.status)
        raise RuntimeError("a blocking exchange must not wait")

    def _watch(self, sock: NodeSocket) -> None:
        link = sock.link
        head = memoryview(bytearray(HEADER.size))
        link.setsockopt(*NO_TIMEOUT)
        while True:
            fill(link, head)
            magic, version, kind, _, _, length, _, _, _, holder, _, _ = HEADER.unpack(head)
            if magic != MAGIC or version != VERSION or length > LONGEST:
                raise BadMessage("the I/O node violates the protocol")
            payload = memoryview(bytearray(length))
            fill(link, payload)
            if kind != Kind.RECALL or holder != self._holder:
                continue
            nodes = unpack_as(NodeList, payload).nodes
            with suppress(OSError):  # a file that cannot be opened any more
                self._recalled(nodes)
            given_up = pack(NodeList(nodes=nodes))
            header = HEADER.pack(
                MAGIC, VERSION, Kind.RECALLED, 0, 0, len(given_up), 0, 0, 1, self._holder, 0, sock.session
            )
            link.sendall(header + given_up)
