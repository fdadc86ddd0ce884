"""The one door to numba: `@kernel` compiles a function over arrays, once per machine.

Numba keeps machine code on disk, and looks at the age of a kernel's own file only: that a kernel
which it calls, in another file, has changed, it would not notice. So every state of Forebay's
sources has a cache of its own, unless NUMBA_CACHE_DIR says where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function` on first call and keep the machine code on disk for the next start.

    Division by zero gives inf or nan as in numpy, so kernels don't branch on it.
    """
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))


def fresh_kernel(function: F) -> F:
    """The same without keeping it on disk: for functions made while running, which no other process can find again."""
    return cast(F, numba.njit(error_model="numpy")(function))


def sources_digest() -> str:
    """Tells one state of the sources that compute from another; what only shows or acts is left out."""
    digest = hashlib.sha256()
    for source in _sources(files("forebay")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir() and entry.name not in ("__pycache__", "act", "show"):
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry


_config: Any = numba.config
if not _config.CACHE_DIR:
    # Where this can't be written, numba falls back to a folder of the user's.
    _config.CACHE_DIR = str(files("forebay") / "__pycache__" / f"kernels-{sources_digest()}")
