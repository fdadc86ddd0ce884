"""MUNGE identifies users on all nodes that share its key. Only this module uses its library.

A credential contains the one call that it is valid for. So whoever sees a credential cannot use it for anything else,
neither here nor at another service that accepts MUNGE.
"""

import ctypes
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from forebay.model.errors import UserError

_LIBRARY = "libmunge.so.2"
_SOCKET = 8  # MUNGE_OPT_SOCKET of munge(3)
_LONGEST = 16_384


class NoMunge(UserError):
    """MUNGE is not installed, does not answer, or does not accept a credential."""


def is_installed() -> bool:
    return _library() is not None


def call_line(method: str, target: str, body: bytes) -> str:
    """A call in one line: the method, the path with its query, and a digest of the body.

    >>> call_line("GET", "/v1/grants?limit=3", b"")
    'forebay GET /v1/grants?limit=3 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    return f"forebay {method} {target} {hashlib.sha256(body).hexdigest()}"


def credential(call: str, socket: Path | None = None) -> str:
    """A credential for this call. It is valid once, for a few minutes."""
    payload, made = call.encode(), ctypes.c_void_p()
    with _context(socket) as (library, context):
        _check(library, library.munge_encode(ctypes.byref(made), context, payload, len(payload)))
    return _take(made).decode("ascii")


def verify_credential(call: str, shown: str, socket: Path | None = None) -> tuple[int, int]:
    """The uid and gid of the credential's maker, if it was made for this call and is used for the first time."""
    if len(shown) > _LONGEST or not shown.isascii():
        raise NoMunge("not a MUNGE credential; send one as `munge` prints it")
    payload, length = ctypes.c_void_p(), ctypes.c_int()
    uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
    results = (ctypes.byref(result) for result in (payload, length, uid, gid))
    with _context(socket) as (library, context):
        code = library.munge_decode(shown.encode(), context, *results)
        certified = _take(payload, length.value)  # an error can leave a payload, too
        _check(library, code)
    if certified != call.encode():
        raise NoMunge("the MUNGE credential was made for another call; make one for each call")
    return uid.value, gid.value


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    library.munge_ctx_create.restype = ctypes.c_void_p
    library.munge_ctx_destroy.argtypes = (ctypes.c_void_p,)
    library.munge_strerror.restype = ctypes.c_char_p
    library.munge_encode.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
    library.munge_decode.argtypes = (ctypes.c_char_p, *(5 * (ctypes.c_void_p,)))
    return library


@contextmanager
def _context(socket: Path | None) -> Iterator[tuple[Any, Any]]:
    """The library with a context, which is freed at the end."""
    library = _library()
    if library is None:
        raise NoMunge("MUNGE is not installed here; use a token")
    context = ctypes.c_void_p(library.munge_ctx_create())
    if not context:
        raise NoMunge("MUNGE has run out of memory; try again")
    try:
        if socket is not None:
            library.munge_ctx_set(context, _SOCKET, ctypes.c_char_p(bytes(socket)))
        yield library, context
    finally:
        library.munge_ctx_destroy(context)


def _check(library: Any, code: int) -> None:
    if code:  # the context's longer text contains paths of this machine
        raise NoMunge(f"MUNGE says: {library.munge_strerror(code).decode('ascii', 'replace').lower()}")


def _take(pointer: ctypes.c_void_p, length: int = -1) -> bytes:
    """The bytes at a pointer; frees their memory."""
    if not pointer:
        return b""
    content = ctypes.string_at(pointer, length)
    _free(pointer)
    return content


_free = ctypes.CDLL(None).free
_free.argtypes = (ctypes.c_void_p,)
_free.restype = None
