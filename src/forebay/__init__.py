"""Forebay decides which share of a supercomputer's I/O each job gets, and proves it by simulation first."""

from collections.abc import Callable
from importlib import import_module

from forebay.model.compile_hooks import hooks

__version__ = "0.2.0"


def _make_kernel_cache(function: Callable[..., object]) -> object:
    """Import numba only when a kernel needs it: the import is slow, and most commands need none."""
    return import_module("forebay.kernel_cache").KernelCache(function)


hooks.make_cache = _make_kernel_cache
