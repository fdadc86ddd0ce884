"""Hooks around the compilation of a kernel, which may take seconds. Does not import numba, which is slow."""

from collections.abc import Callable
from dataclasses import dataclass

WITHOUT_NOTICE = "FOREBAY_WITHOUT_COMPILE_NOTICE"
"""The environment variable of processes whose stderr a program reads for the reason why they ended."""


def _ignore(_name: str) -> None: ...


def _do_nothing() -> None: ...


@dataclass(slots=True)
class CompileHooks:
    """`before` and `after` get the kernel's name. Kernels that it calls are compiled between the two.

    `set_in_worker` sets the hooks of a worker process; it is called in the first one of a command.
    `make_cache` returns numba's cache object for a kernel's function. The package sets it (see `forebay.kernel_cache`).
    """

    before: Callable[[str], None] = _ignore
    after: Callable[[str], None] = _ignore
    set_in_worker: Callable[[], None] = _do_nothing
    make_cache: Callable[[Callable[..., object]], object] = lambda _function: None


hooks = CompileHooks()
