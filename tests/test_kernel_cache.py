"""Machine code is found again by what it was made from, wherever the sources are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import forebay

PROBE = """
import sys
from forebay.model.compile_hooks import hooks
compiled = []
hooks.before = compiled.append
from forebay.model.random_numbers import draw, seed_state
value = draw(seed_state(1), 10)
print(sys.modules["forebay"].__file__, len(compiled), value)
"""

KEEPS_IN_INSTALLATION = """
import importlib
import numba
from forebay.kernel_cache import INSTALLED, keep_in_installation, kernels_folder
keep_in_installation()
from forebay.model.random_numbers import draw, seed_state
draw(seed_state(1), 10)
others = importlib.import_module("others")
others.double(2)
assert kernels_folder() == INSTALLED and list(INSTALLED.rglob("*.nbc"))
print(numba.config.CACHE_DIR, others.double.stats.cache_path)
"""

PASSES_KERNELS = """
import gc
from forebay.model import calls
from forebay.model.kernels import fresh_kernel

def add(step):
    @fresh_kernel
    def advance(x):
        return x + step
    return advance

for step in (1, 2, 3):
    assert calls.call(add(step), 1) == calls.call_again(add(step), 1) == 1 + step
    gc.collect()
"""

MADE = """
from collections.abc import Callable
from forebay.model.kernels import Array, kernel, name_kernel

def _part(which: int, name: str) -> Callable[[Array], Array]:
    def part(array: Array) -> Array:
        return array[which : which + 2]
    return kernel(name_kernel(part, name))

first, second = _part(0, "first"), _part(1, "second")
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of what the probe needs, as another installation would have it."""
    return _copy(tmp_path / "one")


def _copy(to: Path) -> Path:
    package = Path(forebay.__file__).parent
    shutil.copytree(package / "model", to / "forebay/model", ignore=shutil.ignore_patterns("__pycache__"))
    for module in ("__init__.py", "folders.py", "kernel_cache.py"):
        shutil.copy(package / module, to / "forebay")
    return to


def _compiled(sources: Path, cache: Path, **environment: str) -> int:
    """How many kernels a process compiled that used one."""
    environment = {**os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": str(cache), **environment}
    file, count, value = _run(PROBE, environment).split()
    assert Path(file) == sources / "forebay/__init__.py"
    assert 0 <= int(value) < 10
    return int(count)


def _run(code: str, environment: dict[str, str]) -> str:
    argv = [sys.executable, "-c", code]
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_another_installation_of_the_same_sources_compiles_nothing(sources: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert _compiled(sources, cache) > 0
    assert _compiled(_copy(tmp_path / "two"), cache) == 0


def test_a_change_compiles_what_imports_it_and_nothing_else(sources: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    _compiled(sources, cache)
    with (sources / "forebay/model/curve.py").open("a") as file:
        file.write("# a change elsewhere\n")
    assert _compiled(sources, cache) == 0
    with (sources / "forebay/model/kernels.py").open("a") as file:
        file.write("# a change of what every kernel imports\n")
    assert _compiled(sources, cache) > 0


def test_damaged_entries_are_compiled_again(sources: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = _compiled(sources, cache)
    for entry in cache.rglob("*.nb?"):
        entry.write_bytes(entry.read_bytes()[:20] + b"damage")
    assert _compiled(sources, cache) == first
    assert _compiled(sources, cache) == 0


def test_a_folder_that_cannot_be_used_is_no_error(sources: Path, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    assert _compiled(sources, in_the_way) > 0


def test_machine_code_of_the_installation_comes_first(sources: Path, tmp_path: Path) -> None:
    installed = sources / "forebay/__pycache__/kernels"
    assert _compiled(sources, installed) > 0
    assert _compiled(sources, tmp_path / "empty") == 0
    assert not (tmp_path / "empty").exists()


def test_without_a_cache_of_its_own_a_user_has_one_in_the_home(sources: Path, tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    assert _compiled(sources, tmp_path, **environment) > 0
    assert list((tmp_path / ".cache/forebay/kernels").iterdir())


def test_kernels_of_one_function_that_several_processes_compiled_are_told_apart(sources: Path, tmp_path: Path) -> None:
    """Each is the first that its process compiles, so that numba numbers both alike."""
    (sources / "forebay/model/made.py").write_text(MADE)
    environment = {**os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    call = "import numpy as np; from forebay.model.made import first, second; array = np.arange(9.0);"
    _run(f"{call} first(array)", environment)
    _run(f"{call} second(array)", environment)
    assert _run(f"{call} print(*second(array), *first(array))", environment).split() == ["1.0", "2.0", "0.0", "1.0"]


def test_kernels_made_while_running_are_not_kept_and_may_go(sources: Path, tmp_path: Path) -> None:
    """Numba can't write what it knows of them once they are gone."""
    (sources / "forebay/model/calls.py").write_text(
        "from forebay.model.kernels import kernel\n\n"
        "@kernel\ndef call(function, x):\n    return function(x)\n\n"
        "@kernel\ndef call_again(function, x):\n    return call(function, x)\n"
    )
    cache = tmp_path / "cache"
    _run(PASSES_KERNELS, {**os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": str(cache)})
    assert not list(cache.rglob("calls.call*.nbc"))


@pytest.mark.parametrize("named", [True, False])
def test_other_numba_functions_of_the_process_are_cached_where_they_would_be_anyway(
    sources: Path, tmp_path: Path, named: bool
) -> None:
    (sources / "others.py").write_text("import numba\n\n@numba.njit(cache=True)\ndef double(x):\n    return 2 * x\n")
    cache = tmp_path / "cache" if named else ""
    output = _run(KEEPS_IN_INSTALLATION, {**os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": str(cache)})
    setting, _, folder = output.strip("\n").partition(" ")
    assert setting == str(cache)
    assert Path(folder).is_relative_to(cache or sources / "__pycache__")
    assert list(Path(folder).glob("others.double*.nbc"))
