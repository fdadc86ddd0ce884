"""No test depends on time, nor on chance; `--hypothesis-profile=explore` draws at random, and more."""

import pytest
from hypothesis import settings

settings.register_profile("forebay", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("forebay")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that take longest first, so that nobody waits for them alone at the end."""
    items.sort(key=lambda item: [part not in item.path.as_posix() for part in ("test_volumes_vm", "tests/system")])
