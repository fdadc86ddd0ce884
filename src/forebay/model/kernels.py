"""The only user of numba: `@kernel` compiles a function over arrays when it is first called."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from forebay.model.compile_hooks import hooks

F = TypeVar("F", bound=Callable[..., object])
Array = Any
"""An array, a structured array or one of its records; numba infers the type."""


def kernel(function: F) -> F:
    """Compile `function` on its first call; `forebay.kernel_cache` keeps the machine code for later processes.

    Division by zero gives inf or nan as in numpy, so kernels don't branch on it.
    """
    return _keep(function, fresh_kernel(function))


def hot_kernel(function: F) -> F:
    """Like `kernel`, but without reference counts: for functions that neither make arrays nor get any from a call.

    The cost of a call then does not depend on how many arrays it passes: an event loop over a tuple of twenty runs
    three times as fast. It may call kernels of both kinds.
    """
    return _keep(function, _compile(function, counts_references=False))


def name_kernel(function: F, name: str) -> F:
    """Give a function that another one returns a name of its own, before it is compiled.

    The cache keeps machine code of several processes, and code that has the same name is taken for the same.
    """
    function.__qualname__ = name
    return function


def fresh_kernel(function: F) -> F:
    """Compile a function made at run time. It is not cached, because no other process could find it again."""
    return cast(F, _compile(function, counts_references=True))


def _compile(function: F, *, counts_references: bool) -> Any:
    # Set in both cases: otherwise numba inherits it from the caller.
    options: dict[str, Any] = {"error_model": "numpy", "_nrt": counts_references}
    return numba.njit(**options)(function)


def _keep(function: F, compiled: Any) -> F:
    has_own_name = "<locals>" not in function.__qualname__  # else each process compiles it
    if has_own_name and hasattr(compiled, "_cache"):  # with NUMBA_DISABLE_JIT it is a plain function
        compiled._cache = hooks.make_cache(function)
    return cast(F, compiled)
