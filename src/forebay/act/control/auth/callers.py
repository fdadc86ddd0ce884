"""Identifies callers by the kernel on a UNIX socket, by MUNGE or by a token."""

import asyncio
import os
import pwd
import re
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from forebay.act.control.auth.munge import NoMunge, verify_credential
from forebay.act.control.errors import NotAuthenticated, NotLoggedIn
from forebay.decide.grants.commands import Caller
from forebay.decide.grants.machine import Role
from forebay.history.store.tokens import Token, digest_token
from forebay.model.grant import NotAllowed

Call = Callable[[], Awaitable[str]]
_FRESH = 2.0  # seconds until the tokens are read again; a token that another instance removed works for that long
_SOON = 0.2  # shortest time in seconds between two reads because of unknown tokens
ONLY_METRICS = "this token permits only GET /metrics"
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Who(Caller):
    """A caller of the API; `local` if this machine's kernel identified it."""

    gid: int = -1
    name: str = ""
    local: bool = False

    def for_node(self, node: str) -> Caller:
        """The caller as an agent of a node. An administrator on the service's machine can act as any agent."""
        if self.role == "administrator" and self.local:
            return Caller(role="agent", node=node)
        return self

    def as_agent(self, node: str) -> Caller:
        """The same, but refuses every caller that cannot act as the node's agent."""
        caller = self.for_node(node)
        if caller.role != "agent" or caller.node != node:
            raise NotAllowed(f"only the agent of node {node!r} may do this")
        return caller

    @property
    def is_administrator(self) -> bool:
        return self.role == "administrator"


def check_administrator(who: Who) -> None:
    if who.role != "administrator":
        raise NotAllowed("only an administrator may do this")


class Peer(NamedTuple):
    """The process at the other end of a UNIX socket."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: Any) -> Peer | None:
    """The process at the other end of a UNIX socket; None for other sockets."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return Peer(*struct.unpack("3i", raw))


@lru_cache(maxsize=4096)
def _user_entry(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return None


def user_name(uid: int) -> str:
    """The name of a user, if this machine knows it."""
    entry = _user_entry(uid)
    return "" if entry is None else entry.pw_name


def first_group(uid: int) -> int | None:
    entry = _user_entry(uid)
    return None if entry is None else entry.pw_gid


class Authenticator:
    """Identifies callers. `tokens` reads the tokens from the store; `munge` is the socket of MUNGE's daemon.

    MUNGE identifies administrators by their uid, too. Root on any node with the key can make a credential for any
    uid, including those of administrators.
    """

    def __init__(
        self, administrators: Iterable[int], tokens: Callable[[], Awaitable[list[Token]]], munge: Path | None = None
    ) -> None:
        self._administrators = frozenset(administrators)
        self._munge = munge
        self._tokens = tokens
        self._known: dict[str, Token] = {}
        self._looked = -1e9
        self._looking = asyncio.Lock()

    async def identify(self, peer: Peer | None, authorization: str, call: Call | None = None) -> Who:
        """Identify a caller. A token or a MUNGE credential takes precedence over the user of a UNIX socket.

        A credential must have been made for the line that `call` returns.
        """
        kind, _, secret = authorization.strip().partition(" ")
        if kind.lower() == "bearer":
            return await self.by_digest(digest_token(secret.strip()))
        if kind.lower() == "munge":
            return await self._by_munge(secret.strip(), call)
        if peer is None or kind:
            raise NotLoggedIn("authentication required: send Authorization: Bearer TOKEN, or MUNGE CREDENTIAL")
        return self._user(peer.uid, peer.gid, local=True)

    def _user(self, uid: int, gid: int, *, local: bool) -> Who:
        is_administrator = uid in self._administrators or (local and uid == os.getuid())
        role: Role = "administrator" if is_administrator else "user"
        return Who(role=role, uid=uid, gid=gid, name=user_name(uid), local=local)

    def user(self, uid: int, gid: int) -> Who:
        """A user whom the kernel or MUNGE identified earlier."""
        return replace(self._user(uid, gid, local=uid == os.getuid()), local=False)

    async def by_digest(self, digest: str) -> Who:
        """The owner of the token with this digest, if it still exists."""
        now = time.monotonic()
        await self._look_since(now - _FRESH)
        if digest not in self._known:
            await self._look_since(now)
        token = self._known.get(digest)
        if token is None:
            raise NotAuthenticated("unknown token; ask an administrator for a new one")
        role = cast(Role, token.role)
        name = user_name(token.uid) if role == "user" else token.name
        return Who(role=role, uid=token.uid, gid=token.gid, node=token.node, name=name)

    async def refresh(self) -> None:
        now = time.monotonic()
        self._known = {token.digest: token for token in await self._tokens()}
        self._looked = now

    async def _look_since(self, moment: float) -> None:
        """Read the tokens unless they were read at `moment` or later. All waiting callers share one read."""
        if self._looked >= moment:
            return
        async with self._looking:
            if self._looked < moment:
                await asyncio.sleep(max(0.0, self._looked + _SOON - time.monotonic()))
                await self.refresh()

    async def _by_munge(self, shown: str, call: Call | None) -> Who:
        if call is None or not _CREDENTIAL.fullmatch(shown):
            raise NotAuthenticated("not a MUNGE credential; send one as `munge` prints it")
        expected, loop = await call(), asyncio.get_running_loop()
        try:
            uid, gid = await loop.run_in_executor(_munge_threads(), verify_credential, expected, shown, self._munge)
        except NoMunge as error:
            raise NotAuthenticated(str(error)) from None
        return self._user(uid, gid, local=False)


@cache
def _munge_threads() -> ThreadPoolExecutor:
    """Few threads, so that invalid credentials cannot occupy the service."""
    return ThreadPoolExecutor(2, thread_name_prefix="munge")
