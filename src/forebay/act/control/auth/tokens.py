"""Makes tokens for callers, and writes their secrets to files."""

import os
import re
import secrets
from pathlib import Path

from forebay.act.control.api.forms import TokenForm
from forebay.act.control.auth.callers import first_group
from forebay.decide.grants.machine import check_node
from forebay.history.store.tokens import Token, digest_token
from forebay.model.errors import BadInput, why

_BYTES = 32
_LENGTH = 43  # of as many bytes in base64


def new_token(form: TokenForm, now: float) -> tuple[str, Token]:
    """A new secret, and the token to store."""
    if form.role == "agent":
        check_node(form.node, 1.0)
    elif form.node:
        raise BadInput("node", "only an agent's token has a node")
    if form.role == "user" and form.uid is None:
        raise BadInput("uid", "is missing; a user's token needs one")
    uid = -1 if form.uid is None or form.role in ("agent", "metrics") else form.uid
    gid = form.gid if form.gid is not None else (first_group(uid) if uid >= 0 else -1)
    secret = secrets.token_urlsafe(_BYTES)
    return secret, Token(
        name=form.name, digest=digest_token(secret), role=form.role, uid=uid, gid=uid if gid is None else gid,
        node=form.node, made=now,
    )  # fmt: skip


def _is_token_file(path: Path) -> bool:
    """Whether it is empty or holds one secret, as `new_token` makes them."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            text = file.read(_LENGTH + 2)
    except OSError as error:
        raise BadInput(str(path), f"cannot read the token to replace: {why(error)}") from None
    return re.fullmatch(rb"([A-Za-z0-9_-]{%d}\n?)?" % _LENGTH, text) is not None


def write_secret(path: Path, secret: str) -> None:
    """Write a secret to a file that only its owner can read. An existing file of a token is replaced atomically."""
    path = path.resolve()  # what a link names is replaced, not the link
    if path.exists() and not _is_token_file(path):
        raise BadInput(str(path), "exists and is not the file of a token; remove it or give --out another name")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(f"{secret}\n")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise BadInput(str(path), f"cannot write the token: {why(error)}") from None
