"""No test depends on time, nor on chance; `--hypothesis-profile=explore` draws at random, and more."""

import atexit
import gc
import os

import pytest
from hypothesis import settings

from forebay.cli import with_system_folders
from forebay.kernel_cache import kernels_folder

gc.disable()  # until all tests are collected, because what is imported stays
pytest_plugins = ["support.doctests", "support.limits", "support.no_processes"]
settings.register_profile("forebay", deadline=None, derandomize=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("forebay")
# Tests give processes homes and caches of their own; machine code is the same in all of them.
os.environ["NUMBA_CACHE_DIR"] = str(kernels_folder())
os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        atexit.register(_end_worker, os.getpid())


def _end_worker(worker: int) -> None:
    """End a worker of xdist without freeing its objects one by one, which takes seconds."""
    if os.getpid() == worker:
        os._exit(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that take longest first, so that nobody waits for them alone at the end; and the documentation's commands
    last, as each page is a new machine, which finds what others have compiled before it."""

    def turn(item: pytest.Item) -> list[bool]:
        path = item.path.as_posix()
        return ["test_volumes_vm" not in path, "tests/system" not in path, "docs/test_commands" in path]

    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """All that was imported and collected stays: the garbage collector need not look at it again and again."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Free frozen objects as usual; otherwise some libraries report them as leaks. A worker ends without that."""
    if not hasattr(config, "workerinput"):
        gc.unfreeze()
