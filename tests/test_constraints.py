"""What `make` installs can be installed on every Python that pyproject.toml admits."""

from __future__ import annotations

import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PINS = {
    canonicalize_name(name): version
    for name, _, version in (line.partition("==") for line in (ROOT / "constraints.txt").read_text().split())
}
INSTALLED = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
NOT_OURS = {"forebay", "pip", "setuptools", "wheel"}


def test_what_is_admitted_begins_with_the_first_release_of_python_3_11() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_every_pin_admits(python: str) -> None:
    """Debian 12 has 3.11.2, so a package that needs 3.11.5 can't be pinned."""
    needs = {name: each.metadata["Requires-Python"] for name, each in INSTALLED.items() if name in PINS}
    assert needs
    assert {name: what for name, what in needs.items() if what and not SpecifierSet(what).contains(python)} == {}


def test_all_that_is_installed_is_pinned() -> None:
    """As an ordinary install would take whatever is newest that day."""
    assert {name for name in INSTALLED if name not in PINS} <= NOT_OURS


def test_every_pin_is_what_the_tests_run_with() -> None:
    assert {
        name: each.version for name, each in INSTALLED.items() if PINS.get(name, each.version) != each.version
    } == {}
