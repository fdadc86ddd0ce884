"""What several tests of mounts need."""

from collections.abc import Iterator

import pytest

from support.forward_mounts import Mount
from support.forward_nodes import NodeThread


@pytest.fixture
def mounts(layer: NodeThread) -> Iterator[tuple[Mount, Mount]]:
    """Two mounts without a kernel, of the `layer` of each module."""
    one, other = Mount(layer), Mount(layer)
    yield one, other
    one.close()
    other.close()
