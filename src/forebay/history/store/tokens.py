"""Tokens of the control service. The store keeps only their digests."""

import hashlib
import secrets
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.schema import meta, tokens

_SECRET = "volume-keys"


class Token(NamedTuple):
    """The identity of a token: a user by uid and gid, the agent of a node, or an administrator."""

    name: str
    digest: str
    role: str
    uid: int = -1
    gid: int = -1
    node: str = ""
    made: float = 0.0


def digest_token(secret: str) -> str:
    """The digest to store. One round of hashing is enough, because tokens are long and random."""
    return hashlib.sha256(secret.encode()).hexdigest()


def save_token(connection: Connection, token: Token) -> bool:
    """Save a token; returns whether it replaces one of the same name."""
    replaced = remove_token(connection, token.name)
    connection.execute(tokens.insert().values(**token._asdict()))
    return replaced


def remove_token(connection: Connection, name: str) -> bool:
    """Delete a token; returns whether it existed."""
    return connection.execute(tokens.delete().where(tokens.c.name == name)).rowcount > 0


def list_tokens(connection: Connection) -> list[Token]:
    return [Token(**row) for row in connection.execute(tokens.select().order_by(tokens.c.name)).mappings()]


def shared_secret(connection: Connection) -> str:
    """The secret that all instances with this store share, in hexadecimal; created on the first call."""
    new = {"key": _SECRET, "value": secrets.token_hex(32)}
    insert_once = sa.text(f"INSERT INTO {meta.name} (key, value) VALUES (:key, :value) ON CONFLICT DO NOTHING")
    connection.execute(insert_once, new)
    return str(connection.execute(sa.select(meta.c.value).where(meta.c.key == _SECRET)).scalar_one())
