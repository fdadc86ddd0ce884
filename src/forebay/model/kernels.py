"""The door to numba: `@kernel` compiles a function over arrays when it is first called."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from forebay.model.compile_hooks import hooks

F = TypeVar("F", bound=Callable[..., object])
Array = Any
"""An array, a structured array or one of its records in a kernel, whose type numba infers."""


def kernel(function: F) -> F:
    """Compile `function` on its first call; `forebay.kernel_cache` keeps the machine code for later processes.

    Division by zero gives inf or nan as in numpy, so kernels don't branch on it.
    """
    return _keep(function, fresh_kernel(function))


def hot_kernel(function: F) -> F:
    """The same without counting references to arrays, for functions that neither make arrays nor get any from a call.

    A call then costs the same however many arrays it passes on: an event loop over a tuple of twenty is three times
    as fast. It may call kernels of both kinds.
    """
    return _keep(function, _compile(function, counts_references=False))


def fresh_kernel(function: F) -> F:
    """A kernel made at run time, which no other process can find again: nothing is kept."""
    return cast(F, _compile(function, counts_references=True))


def _compile(function: F, *, counts_references: bool) -> Any:
    # Said in both cases, as numba would take it from whoever calls.
    options: dict[str, Any] = {"error_model": "numpy", "_nrt": counts_references}
    return numba.njit(**options)(function)


def _keep(function: F, compiled: Any) -> F:
    if hasattr(compiled, "_cache"):  # not a plain function, as with NUMBA_DISABLE_JIT
        compiled._cache = hooks.make_cache(function)
    return cast(F, compiled)
