"""Who is calling: by the kernel's word on a UNIX socket, by MUNGE, or by a token."""

from __future__ import annotations

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
from typing import Any, Literal, cast

from forebay.act.control.auth.munge import NoMunge, who_calls
from forebay.act.control.errors import NotAuthenticated, NotLoggedIn
from forebay.decide.grants.commands import Caller, Role
from forebay.history.store.tokens import Token, digest_token
from forebay.model.grant import NotAllowed

Call = Callable[[], Awaitable[str]]
_FRESH = 2.0  # seconds until the tokens are looked up again; so long lives one that another instance removed
_SOON = 0.2  # seconds between looks for tokens that are not known, however many of them are shown
ONLY_METRICS = "this token is good for GET /metrics alone"
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A caller; `local` if the kernel of this machine vouches for it. One that is there for metrics may read those, and
    nothing else."""

    role: Role | Literal["metrics"]
    uid: int = -1
    gid: int = -1
    node: str = ""
    name: str = ""
    local: bool = False

    @property
    def caller(self) -> Caller:
        if self.role == "metrics":
            raise NotAllowed(ONLY_METRICS)
        return Caller(role=self.role, uid=self.uid, node=self.node)

    def for_node(self, node: str) -> Caller:
        """As whom it speaks for a node: its own agent, or an administrator on the service's machine, as any agent."""
        if self.role == "administrator" and self.local:
            return Caller(role="agent", node=node)
        return self.caller

    def as_agent(self, node: str) -> Caller:
        """The same, for what only the node's agent may do."""
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


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a UNIX socket."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: Any) -> Peer | None:
    """Who is at the other end; None if it is no UNIX socket."""
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return Peer(*struct.unpack("3i", raw))


@lru_cache(maxsize=4096)
def user_name(uid: int) -> str:
    """The name of a user, if this machine knows it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


@lru_cache(maxsize=4096)
def first_group(uid: int) -> int | None:
    """A user's own group, if this machine knows it."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except (KeyError, OverflowError):
        return None


class Authenticator:
    """Tells who is calling. `tokens` looks up those that there are now; `munge` is the socket of its daemon.

    Administrators are known by their uid by MUNGE too, root among them if it is one: root on any node with the key
    could make itself a credential of anybody.
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
        """A caller that shows a token or a MUNGE credential is who that says, also on a UNIX socket.

        `call` tells what is called, for which a credential must have been made.
        """
        kind, _, secret = authorization.strip().partition(" ")
        if kind.lower() == "bearer":
            return await self._by_token(secret.strip())
        if kind.lower() == "munge":
            return await self._by_munge(secret.strip(), call)
        if peer is None or kind:
            raise NotLoggedIn("say who you are: Authorization: Bearer TOKEN, or MUNGE CREDENTIAL")
        return self._user(peer.uid, peer.gid, local=True)

    def _user(self, uid: int, gid: int, *, local: bool) -> Who:
        own = uid in self._administrators or (local and uid == os.getuid())
        role: Role = "administrator" if own else "user"
        return Who(role=role, uid=uid, gid=gid, name=user_name(uid), local=local)

    def user(self, uid: int, gid: int) -> Who:
        """Somebody whom the kernel or MUNGE vouched for earlier."""
        own = uid == os.getuid()
        return replace(self._user(uid, gid, local=own), local=False)

    async def _by_token(self, secret: str) -> Who:
        return await self.by_digest(digest_token(secret))

    async def by_digest(self, digest: str) -> Who:
        """Whom the token with this digest stands for, if there still is one."""
        now = time.monotonic()
        await self._look_since(now - _FRESH)
        if digest not in self._known:
            await self._look_since(now)
        token = self._known.get(digest)
        if token is None:
            raise NotAuthenticated("no such token")
        role = cast(Role, token.role)
        name = user_name(token.uid) if role == "user" else token.name
        return Who(role=role, uid=token.uid, gid=token.gid, node=token.node, name=name)

    async def refresh(self) -> None:
        now = time.monotonic()
        self._known = {token.digest: token for token in await self._tokens()}
        self._looked = now

    async def _look_since(self, moment: float) -> None:
        """Know the tokens as they were at `moment` or later, as one may have been made just now by a command or another
        instance. One look serves all who wait for it."""
        if self._looked >= moment:
            return
        async with self._looking:
            if self._looked < moment:
                await asyncio.sleep(max(0.0, self._looked + _SOON - time.monotonic()))
                await self.refresh()

    async def _by_munge(self, shown: str, call: Call | None) -> Who:
        if call is None or not _CREDENTIAL.fullmatch(shown):
            raise NotAuthenticated("this is no MUNGE credential")
        said, loop = await call(), asyncio.get_running_loop()
        try:
            uid, gid = await loop.run_in_executor(_munge_threads(), who_calls, said, shown, self._munge)
        except NoMunge as error:
            raise NotAuthenticated(str(error)) from None
        return self._user(uid, gid, local=False)


@cache
def _munge_threads() -> ThreadPoolExecutor:
    """Few: whoever shows nonsense all the time must not keep the service from its work."""
    return ThreadPoolExecutor(2, thread_name_prefix="munge")
