"""Objects that a node writes to its own volumes."""

import errno
from pathlib import Path

import pytest

from forebay.act.forward.data.disk_space import DiskSpace
from forebay.act.forward.data.untrusted_tree import Tree
from forebay.act.staging.stored_objects import LocalObject
from support.volumes import small_disk

MIB = 1 << 20


def test_a_copy_leaves_the_space_that_the_server_keeps_for_names(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    with small_disk(root, "ext4", 32 * MIB, "-m", "0"):
        space, tree = DiskSpace(root), Tree(root)
        space.keep_spare()
        room, written = space.measure_room(), 0
        stored = LocalObject(tree, 5, make=True)
        with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
            for number in range(64):
                stored.write(bytes(MIB), number * MIB)
                written += MIB
        assert room - 2 * MIB < written <= room
        stored.write(b"x" * MIB, 0)
        stored.close()
        tree.close()
        assert not space.is_low()
