"""Who is calling: by the kernel's word on a UNIX socket, by MUNGE, or by a token."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from forebay.act.command import CommandFailed, ended
from forebay.decide.grants.commands import Caller, Role
from forebay.history.store.tokens import Token, digest_of
from forebay.model.errors import UserError
from forebay.model.grant import NotAllowed

_TIMEOUT = 5.0
_FRESH = 2.0  # seconds until the tokens are looked up again; so long lives one that another instance removed
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")


class Unknown(UserError):
    """Nobody knows who is calling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A caller; `local` if the kernel of this machine vouches for it."""

    role: Role
    uid: int = -1
    gid: int = -1
    node: str = ""
    name: str = ""
    local: bool = False

    @property
    def caller(self) -> Caller:
        return Caller(role=self.role, uid=self.uid, node=self.node)

    def for_node(self, node: str) -> Caller:
        """As whom it speaks for a node: its own agent, or an administrator on the service's machine, as any agent."""
        if self.role == "administrator" and self.local:
            return Caller(role="agent", node=node)
        return self.caller

    def is_administrator(self) -> bool:
        return self.role == "administrator"


def only_administrators(who: Who) -> None:
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


class Doorman:
    """Tells who is calling. `tokens` looks up those that there are now."""

    def __init__(self, administrators: Iterable[int], tokens: Callable[[], Awaitable[list[Token]]]) -> None:
        self._administrators = frozenset(administrators)
        self._tokens = tokens
        self._known: dict[str, Token] = {}
        self._looked = -1e9

    async def who(self, peer: Peer | None, authorization: str) -> Who:
        """A caller that shows a token or a MUNGE credential is who that says, also on a UNIX socket."""
        kind, _, secret = authorization.strip().partition(" ")
        if kind.lower() == "bearer":
            return await self._by_token(secret.strip())
        if kind.lower() == "munge":
            return await asyncio.to_thread(self._by_munge, secret.strip())
        if peer is None or kind:
            raise Unknown("say who you are: Authorization: Bearer TOKEN, or MUNGE CREDENTIAL")
        return self._user(peer.uid, peer.gid, local=True)

    def _user(self, uid: int, gid: int, *, local: bool) -> Who:
        own = uid in self._administrators or (local and uid == os.getuid())
        role: Role = "administrator" if own else "user"
        return Who(role=role, uid=uid, gid=gid, name=user_name(uid), local=local)

    async def _by_token(self, secret: str) -> Who:
        if time.monotonic() - self._looked > _FRESH:
            await self.look_again()
        token = self._known.get(digest_of(secret))
        if token is None:
            raise Unknown("no such token")
        role = cast(Role, token.role)
        name = user_name(token.uid) if role == "user" else token.name
        return Who(role=role, uid=token.uid, gid=token.gid, node=token.node, name=name)

    async def look_again(self) -> None:
        self._known = {token.digest: token for token in await self._tokens()}
        self._looked = time.monotonic()

    def _by_munge(self, credential: str) -> Who:
        if shutil.which("unmunge") is None:
            raise Unknown("MUNGE is not installed where the service runs; use a token")
        if not _CREDENTIAL.fullmatch(credential):
            raise Unknown("this is no MUNGE credential")
        said = _unmunged(credential)
        return self._user(_number(said, "UID"), _number(said, "GID"), local=False)


def _unmunged(credential: str) -> dict[str, str]:
    """What unmunge says; the credential goes by a file, so that no list of processes shows it."""
    with tempfile.NamedTemporaryFile("w", prefix="forebay-", suffix=".munge") as file:  # only we may read it
        file.write(credential)
        file.flush()
        try:
            done = ended(("unmunge", "--input", file.name, "--keys", "STATUS,UID,GID"), timeout=_TIMEOUT)
        except CommandFailed:
            raise Unknown("unmunge does not answer") from None
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in done.out.splitlines())}
    if done.code or not said.get("STATUS", "").endswith("(0)"):
        raise Unknown(f"MUNGE does not accept the credential: {said.get('STATUS') or 'it gave no reason'}")
    return said


def _number(said: dict[str, str], key: str) -> int:
    """
    >>> _number({"UID": "alice (1000)"}, "UID")
    1000
    """
    found = re.search(r"\((\d+)\)$", said.get(key, ""))
    if found is None:
        raise Unknown(f"unmunge does not tell the {key}")
    return int(found[1])
