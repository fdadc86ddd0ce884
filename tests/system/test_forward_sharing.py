"""What programs on two mounts of one layer share beyond whole files: appended lines, locks, mapped memory."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from support.fio import needs_fuse
from support.forward_processes import Layer, layer, start


@pytest.fixture(scope="module")
def running() -> Iterator[Layer]:
    needs_fuse()
    with layer() as made:
        made.add_servers(2)
        made.add_nodes(2)
        start(*made.servers, *made.nodes)
        yield made


@pytest.fixture(scope="module")
def points(running: Layer) -> Iterator[list[Path]]:
    """Two mounts of one layer."""
    made = [running.add_mount(name) for name in ("mount0", "mount1")]
    start(*(part for part, _ in made))
    yield [point for _, point in made]
    for part, _ in made:
        part.stop()


# Mapped memory


@contextmanager
def mapped(path: Path, access: int = mmap.ACCESS_WRITE) -> Iterator[mmap.mmap]:
    with path.open("r+b" if access == mmap.ACCESS_WRITE else "rb", buffering=0) as file:
        try:
            memory = mmap.mmap(file.fileno(), 0, access=access)
        except OSError as error:
            if error.errno == errno.ENODEV:
                pytest.skip("this kernel maps no shared memory of FUSE's files; Linux 6.6 or later does")
            raise
        with memory:
            yield memory


def test_numpy_maps_an_array_that_another_mount_has_written(points: list[Path]) -> None:
    array = np.arange(100_000, dtype=np.int64)
    np.save(points[0] / "array.npy", array)
    with mapped(points[1] / "array.npy", mmap.ACCESS_READ):
        loaded = np.load(points[1] / "array.npy", mmap_mode="r")
    assert np.array_equal(loaded, array)


def test_a_shared_mapping_is_written_back(points: list[Path]) -> None:
    here, there = points[0] / "mapped", points[1] / "mapped"
    here.write_bytes(b"before" + bytes(200_000))
    with mapped(here) as memory, mapped(here) as again:
        memory[:6] = b"MAPPED"
        memory[150_000:150_004] = b"more"
        assert again[:6] == b"MAPPED"
        with here.open("rb", buffering=0) as file:
            assert file.read(6) == b"MAPPED"
        memory.flush()
        content = there.read_bytes()
        assert (content[:6], content[150_000:150_004], len(content)) == (b"MAPPED", b"more", 200_006)
        memory[:6] = b"closed"
    assert there.read_bytes()[:6] == b"closed"


def test_a_new_mapping_shows_what_another_mount_has_written(points: list[Path]) -> None:
    here, there = points[0] / "remapped", points[1] / "remapped"
    here.write_bytes(b"first " * 10_000)
    with mapped(there, mmap.ACCESS_READ) as memory:
        assert memory[:5] == b"first"
    with here.open("r+b") as file:
        file.write(b"second")
    with mapped(there, mmap.ACCESS_READ) as memory:
        assert memory[:6] == b"second"
