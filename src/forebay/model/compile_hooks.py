"""Hooks around the compilation of a kernel, which may take seconds. Apart from numba, which is slow to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _ignore(_name: str) -> None: ...


@dataclass(slots=True)
class CompileHooks:
    """Called with a kernel's name. Kernels that a kernel calls are compiled between its `before` and its `after`."""

    before: Callable[[str], None] = _ignore
    after: Callable[[str], None] = _ignore


hooks = CompileHooks()
