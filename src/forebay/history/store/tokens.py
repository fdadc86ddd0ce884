"""Tokens of the control service: the store has only their digests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import Connection

from forebay.history.store.schema import tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Who a token stands for: a user by uid and gid, the agent of a node, or an administrator."""

    name: str
    digest: str
    role: str
    uid: int = -1
    gid: int = -1
    node: str = ""
    made: float = 0.0


def digest_of(secret: str) -> str:
    """What is kept of a token. It is long and random, so that one round of hashing is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def keep_token(connection: Connection, token: Token) -> bool:
    """Keep a token instead of any other of that name; whether there was one."""
    replaced = remove_token(connection, token.name)
    values = {name: getattr(token, name) for name in Token.__slots__}
    connection.execute(tokens.insert().values(**values))
    return replaced


def remove_token(connection: Connection, name: str) -> bool:
    """Whether there was one of that name."""
    return connection.execute(tokens.delete().where(tokens.c.name == name)).rowcount > 0


def all_tokens(connection: Connection) -> list[Token]:
    """By name."""
    return [Token(**row) for row in connection.execute(tokens.select().order_by(tokens.c.name)).mappings()]
