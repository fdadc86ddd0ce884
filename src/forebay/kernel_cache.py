"""A cache of compiled kernels on disk: each is compiled once per machine and version of its sources.

The key is a digest of the sources: the kernel's module and all modules of Forebay that it imports. (Numba's own key
is only the kernel's file and its path.) So two installations of one version share their machine code, and a change to
one module recompiles only the kernels that depend on it.

The cache first searches the installation (`forebay compile --installation` fills it, for packages and images), then
NUMBA_CACHE_DIR if that is set, or else the user's cache folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numba.core.caching

import forebay
from forebay.folders import cache_folder
from forebay.model.compile_hooks import hooks

_numba: Any = numba  # has types for only some of its names
_caching: Any = numba.core.caching

_PACKAGE = Path(forebay.__file__).parent
_NOT_COMPUTING = ("__pycache__", "act", "cli", "show")
INSTALLED = _PACKAGE / "__pycache__" / "kernels"
"""Machine code that comes with the installation."""

_IMPORTS = re.compile(r"^\s*from (forebay[\w.]*) import (?:\(([^)]*)\)|(.*))|^\s*import (forebay[\w.]*)", re.MULTILINE)
_DAMAGE = (OSError, EOFError, ValueError, KeyError, AttributeError, ImportError, IndexError, pickle.UnpicklingError)
"""Errors that a damaged entry may raise; the kernel is then compiled again."""
_keeps_in_installation = False


def kernels_folder() -> Path:
    """The folder for new machine code. Raises RuntimeError if the user has no home."""
    if _keeps_in_installation:
        return INSTALLED
    return Path(_numba.config.CACHE_DIR) if _numba.config.CACHE_DIR else cache_folder("kernels")


def keep_in_installation() -> None:
    """Store kernels of modules imported from now on in the installation, for all its users.

    Raises OSError if the folder is not writable.
    """
    global _keeps_in_installation
    INSTALLED.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=INSTALLED).close()
    _keeps_in_installation = True


def sources_digest() -> str:
    """A digest of all sources that compute results, without those that only show results or act on them."""
    digest = hashlib.sha256()
    for source in sorted(path for path in _PACKAGE.rglob("*") if path.suffix in (".py", ".toml")):
        if not set(source.relative_to(_PACKAGE).parts[:-1]) & set(_NOT_COMPUTING):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


class _Locator(_caching._CacheLocator):  # type: ignore[misc]
    """Finds the folder of a kernel's machine code: one for each module, named after the digest of its sources."""

    def __init__(self, function: Callable[..., object], file: str) -> None:
        self._py_file = file  # numba prints it in warnings
        self._line = function.__code__.co_firstlineno
        self._digest = _digest_with_imports(Path(file))
        name = f"{function.__module__}-{self._digest}-{numba.__version__}"
        self._folder = INSTALLED / name
        if not self._folder.is_dir():
            with contextlib.suppress(RuntimeError):  # without a home folder, each process compiles its own
                self._folder = kernels_folder() / name

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> _Locator:
        return cls(function, file)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Contents(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class KernelCache(_caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache in our folders, with hooks. If no folder is writable, each process compiles its own kernels."""

    _impl_class = _Contents

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            if _is_reusable(signature) and (code := super().load_overload(signature, context)) is not None:
                return code
        except _DAMAGE:
            with contextlib.suppress(OSError):
                self.flush()
        hooks.before(self._py_func.__qualname__)
        return None

    def save_overload(self, signature: Any, data: Any) -> None:
        if _is_reusable(data.signature.args):
            with contextlib.suppress(OSError):
                self._save(signature, data)
        hooks.after(self._py_func.__qualname__)

    def _save(self, signature: Any, data: Any) -> None:
        folder = Path(self.cache_path)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Two processes that save at once would give two signatures the same file.
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            super().save_overload(signature, data)


def _is_reusable(arguments: Any) -> bool:
    """False if an argument is a kernel made at run time, whose type no later process has."""
    passed = (a.dispatcher for a in arguments if isinstance(a, _numba.types.Dispatcher))
    return all("<locals>" not in dispatcher.py_func.__qualname__ for dispatcher in passed)


def _digest_with_imports(path: Path) -> str:
    """The digest of a module and of every module of Forebay that it imports, directly or not."""
    reached: set[Path] = set()
    waiting = [path]
    while waiting:
        if (module := waiting.pop()) not in reached:
            reached.add(module)
            waiting += _read_module(module)[1]
    return hashlib.sha256(b"".join(sorted(_read_module(module)[0] for module in reached))).hexdigest()[:16]


@cache
def _read_module(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """A module's digest, and the files of Forebay's modules that it imports."""
    content = path.read_bytes()
    names: list[str] = []
    for package, several, few, whole in _IMPORTS.findall(content.decode()):
        imported = re.findall(r"[\w.]+(?=\s*(?:,|$|#| as ))", several or few)
        names += [whole] if whole else [package, *(f"{package}.{name}" for name in imported)]
    return hashlib.sha256(content).digest(), tuple(
        dict.fromkeys(file for name in names for file in _module_files(name))
    )


def _module_files(module: str) -> Iterator[Path]:
    """The source file of a module; empty if the name is not a module but something inside one."""
    base = _PACKAGE.joinpath(*module.split(".")[1:])
    return (file for file in (base.with_suffix(".py"), base / "__init__.py") if base != _PACKAGE and file.is_file())
