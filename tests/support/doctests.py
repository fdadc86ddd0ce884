"""Only files with an example are searched for doctests: a search imports the module and looks at all that is in it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    collectors = yield
    return [each for each in collectors if not isinstance(each, DoctestModule) or ">>>" in file_path.read_text("utf-8")]
