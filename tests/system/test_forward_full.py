"""A data server whose disk is full: the program gets ENOSPC, and what was written before is there."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fio import needs_fuse
from support.forward_processes import Layer, layer, start
from support.processes import wait_until

MIB = 1 << 20


def has_room(file: Path, data: bytes) -> bool:
    try:
        file.write_bytes(data)
    except OSError as error:
        assert error.errno == errno.ENOSPC
        return False
    return True


@pytest.fixture
def running() -> Iterator[tuple[Layer, Path]]:
    """Two data servers; the second has 8 MiB of room."""
    needs_fuse()
    with layer() as made:
        small = made.folder / "small"
        small.mkdir()
        mounted = ["mount", "-t", "tmpfs", "-o", "size=8m", "forebay-test", str(small)]
        if subprocess.run(mounted, capture_output=True, timeout=60).returncode:
            pytest.skip("a small file system can't be mounted here: that needs root")
        try:
            made.add_servers(2, [made.folder / "data0", small / "data1"])
            made.add_nodes(1)
            start(*made.servers, *made.nodes)
            part, point = made.add_mount()
            part.start()
            yield made, point
            made.stop()
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True, timeout=60)


def test_a_full_disk_reaches_the_program_and_nothing_earlier_is_hurt(running: tuple[Layer, Path]) -> None:
    made, point = running
    earlier = os.urandom(3 * MIB)
    (point / "earlier").write_bytes(earlier)
    written = 0
    full = pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC)
    with (point / "large").open("wb", buffering=0) as file, full:
        for number in range(64):
            written += file.write(bytes([number]) * MIB)
    assert 0 < written < 32 * MIB
    assert (point / "earlier").read_bytes() == earlier
    for number in range(written // MIB):
        with (point / "large").open("rb") as file:
            file.seek(number * MIB)
            assert file.read(MIB) == bytes([number]) * MIB
    (point / "large").unlink()
    wait_until(lambda: has_room(point / "again", earlier), "there is no room again")  # closed files end a moment later
    assert (point / "again").read_bytes() == earlier
    with made.client() as client:
        assert client.stat("/again").size == 3 * MIB
