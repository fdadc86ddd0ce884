"""The handshake: peers prove to each other that they hold the layer's key, without sending it.

    asker    -> HELLO    who I am, a nonce
    answerer -> HELLO    who I am, a nonce
    asker    -> PROOF    HMAC-SHA256 of the key over "asker" and both HELLOs
    answerer -> WELCOME  HMAC-SHA256 of the key over "answerer" and both HELLOs

Both proofs cover both HELLOs completely, so nobody can change roles, names, nonces or other facts in transit, and a
proof is valid for one connection and one direction only. No code here uses a socket.
"""

import hashlib
import hmac
import secrets
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from forebay.act.forward.net.wire import SHORT, BadMessage, Flag, Kind, Message, pack, unpack_as
from forebay.model.errors import ForebayError

NONCE = 32
ROLES = ("client", "node", "council", "server")


class Denied(ForebayError):
    """The peer could not prove that it has the key, or its role is not accepted here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process at the other end, which has proved that it has the key; `facts` are its other announcements."""

    role: str
    name: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"unknown role {self.role!r}")


class Credentials(NamedTuple):
    """The layer's key, the identity of this process, and the roles that it accepts at the other end."""

    key: bytes
    me: Peer
    accepts: Collection[str]


class _Handshake:
    """The state of either side; `peer` is set once the other side has proved itself."""

    def __init__(self, key: bytes, me: Peer, accepts: Collection[str]) -> None:
        self._key = key
        self._accepts = accepts
        self._mine = pack([me.role, me.name, dict(me.facts), secrets.token_bytes(NONCE)])
        if len(self._mine) > SHORT:
            raise ValueError(f"the facts of a peer must fit into {SHORT} bytes, not {len(self._mine)}")
        self._theirs = b""
        self._claimed: Peer | None = None
        self.peer: Peer | None = None

    def _hello(self, message: Message) -> None:
        _expect(message, Kind.HELLO)
        if self._theirs:
            raise BadMessage("received a second HELLO")
        self._theirs = bytes(message.payload)
        match unpack_as(object, self._theirs):
            case [str(role), str(name), dict(facts), bytes(nonce)] if len(nonce) == NONCE and role in ROLES:
                if not all(isinstance(key, str) for key in facts):
                    raise BadMessage("HELLO is malformed")
                self._claimed = Peer(role=role, name=name, facts=facts)
            case _:
                raise BadMessage("HELLO is malformed")
        if self._claimed.role not in self._accepts:
            raise Denied(f"role {self._claimed.role!r} is not accepted at this address")

    def _proof(self, side: bytes, asker: bytes, answerer: bytes) -> bytes:
        lengths = struct.pack("<II", len(asker), len(answerer))
        return hmac.digest(self._key, b"forebay 1 " + side + lengths + asker + answerer, hashlib.sha256)

    def _check(self, message: Message, proof: bytes) -> None:
        if not hmac.compare_digest(bytes(message.payload), proof):
            raise Denied("wrong key; all processes of a layer must use the same key file")
        self.peer = self._claimed


class Asker(_Handshake):
    """The side that connects: send `first`, then what `receive` returns, until `peer` is set."""

    def first(self) -> Message:
        return Message(Kind.HELLO, payload=self._mine)

    def receive(self, message: Message) -> Message | None:
        if message.status:
            raise Denied("the other side refused the connection; check the key and the address")
        if not self._theirs:
            self._hello(message)
            return Message(Kind.PROOF, payload=self._proof(b"asker", self._mine, self._theirs))
        _expect(message, Kind.WELCOME)
        self._check(message, self._proof(b"answerer", self._mine, self._theirs))
        return None


class Answerer(_Handshake):
    """The side that listens: send what `receive` returns; the handshake is complete once `peer` is set."""

    def receive(self, message: Message) -> Message:
        if not self._theirs:
            self._hello(message)
            return Message(Kind.HELLO, flags=Flag.REPLY, payload=self._mine)
        _expect(message, Kind.PROOF)
        self._check(message, self._proof(b"asker", self._theirs, self._mine))
        return Message(Kind.WELCOME, flags=Flag.REPLY, payload=self._proof(b"answerer", self._theirs, self._mine))


def _expect(message: Message, kind: Kind) -> None:
    if message.kind != kind:
        raise BadMessage(f"expected {kind.name}, received a message of kind {message.kind}")
