"""The one door to numba: `@kernel` compiles a function over arrays, once per machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function` on first call and keep the machine code on disk for the next start.

    Division by zero gives inf or nan as in numpy, so kernels don't branch on it.
    """
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))
