"""The one door to numba: `@kernel` compiles a function over arrays, once per machine and version of its sources.

Machine code is kept on disk under a digest of everything it was made from: the kernel's own module and all modules of
Forebay that it imports. Numba itself would look at the kernel's own file only, and at where it is installed. So two
installations of one version share their machine code, and a change of one module compiles only what depends on it.

Machine code is looked for in the installation (`forebay compile --installation` puts it there, for packages and
images), and otherwise kept in the user's cache folder, or in NUMBA_CACHE_DIR where that is set.
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
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.caching

from forebay.model.compile_hooks import hooks
from forebay.model.folders import cache_folder

F = TypeVar("F", bound=Callable[..., object])
_numba: Any = numba  # which is only partly typed
_caching: Any = numba.core.caching

INSTALLED = Path(str(files("forebay"))) / "__pycache__" / "kernels"
"""Machine code that came with the installation."""

_IMPORTS = re.compile(r"^\s*from (forebay[\w.]*) import (?:\(([^)]*)\)|(.*))|^\s*import (forebay[\w.]*)", re.MULTILINE)
_PACKAGE = Path(str(files("forebay")))
_DAMAGE = (OSError, EOFError, ValueError, KeyError, AttributeError, ImportError, IndexError, pickle.UnpicklingError)
"""What a damaged entry may give; it is compiled again."""


def kernel(function: F) -> F:
    """Compile `function` on first call and keep the machine code on disk for the next start.

    Division by zero gives inf or nan as in numpy, so kernels don't branch on it.
    """
    compiled: Any = numba.njit(error_model="numpy")(function)
    if isinstance(compiled, _numba.core.dispatcher.Dispatcher):  # not where NUMBA_DISABLE_JIT is set
        compiled._cache = _KernelCache(function)
    return cast(F, compiled)


def fresh_kernel(function: F) -> F:
    """The same without keeping it on disk: for functions made while running, which no other process can find again."""
    return cast(F, numba.njit(error_model="numpy")(function))


def kernels_folder() -> Path:
    """Where machine code is kept that did not come with the installation. RuntimeError where the user has no home."""
    if _numba.config.CACHE_DIR:
        return Path(_numba.config.CACHE_DIR)
    return cache_folder("kernels")


def keep_in_installation() -> None:
    """Keep machine code of the modules imported from now on where all users of this installation find it.

    An OSError says why that is not possible.
    """
    INSTALLED.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=INSTALLED).close()
    _numba.config.CACHE_DIR = str(INSTALLED)


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


class _Locator(_caching._CacheLocator):  # type: ignore[misc]
    """Where a kernel's machine code is: a folder for its module, named after the digest of its sources."""

    def __init__(self, function: Callable[..., object], file: str) -> None:
        self._py_file = file  # by which numba names the function in warnings
        self._line = function.__code__.co_firstlineno
        self._digest = _digest_with_imports(Path(file))
        name = f"{function.__module__}-{self._digest}-{numba.__version__}"
        self._folder = INSTALLED / name
        if not self._folder.is_dir():
            with contextlib.suppress(RuntimeError):  # without a home, each process compiles for itself
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


class _KernelCache(_caching.FunctionCache):  # type: ignore[misc]
    """Numba's own, in our folders, with hooks; without a folder that can be used, each process compiles for itself."""

    _impl_class = _Contents

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            if _can_be_found_again(signature) and (known := super().load_overload(signature, context)) is not None:
                return known
        except _DAMAGE:
            with contextlib.suppress(OSError):
                self.flush()
        hooks.before(self._py_func.__qualname__)
        return None

    def save_overload(self, signature: Any, data: Any) -> None:
        if _can_be_found_again(data.signature.args):
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


def _can_be_found_again(arguments: Any) -> bool:
    """Not if a kernel made while running is among the arguments: when it is gone, so is the type that it has."""
    passed = (a.dispatcher for a in arguments if isinstance(a, _numba.types.Dispatcher))
    return all("<locals>" not in dispatcher.py_func.__qualname__ for dispatcher in passed)


def _digest_with_imports(path: Path) -> str:
    """Of a module and of every module of Forebay that it imports, directly or not."""
    reached: set[Path] = set()
    waiting = [path]
    while waiting:
        if (module := waiting.pop()) not in reached:
            reached.add(module)
            waiting += _read(module)[1]
    return hashlib.sha256(b"".join(sorted(_read(module)[0] for module in reached))).hexdigest()[:16]


@cache
def _read(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """A module's digest, and the modules of Forebay that it imports."""
    content = path.read_bytes()
    names: list[str] = []
    for package, several, few, whole in _IMPORTS.findall(content.decode()):
        imported = re.findall(r"[\w.]+(?=\s*(?:,|$|#| as ))", several or few)
        names += [whole] if whole else [package, *(f"{package}.{name}" for name in imported)]
    return hashlib.sha256(content).digest(), tuple(dict.fromkeys(file for name in names for file in _files(name)))


def _files(module: str) -> Iterator[Path]:
    """None where the name is not a module's but something inside one."""
    base = _PACKAGE.joinpath(*module.split(".")[1:])
    return (file for file in (base.with_suffix(".py"), base / "__init__.py") if base != _PACKAGE and file.is_file())
