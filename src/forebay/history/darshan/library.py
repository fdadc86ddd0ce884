"""PyDarshan's interface to the Darshan library.

PyDarshan imports pandas, which takes several times as long as reading a log, for functions that Forebay does not call.
While PyDarshan is imported, a module stands in for pandas that imports it when something first uses it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """A module that is imported with the first use of one of its attributes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def _import_backend() -> Any:
    stands_in = "pandas" not in sys.modules
    if stands_in:
        sys.modules["pandas"] = _Later("pandas")
    try:
        from darshan.backend import cffi_backend

        return cffi_backend
    finally:
        if stands_in:
            del sys.modules["pandas"]


backend = _import_backend()
