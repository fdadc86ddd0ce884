"""What is particular to logical volumes. It runs in a virtual machine (tests/system)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.command import CommandFailed
from forebay.act.volumes.lvm import Lvm
from forebay.model.errors import BadInput
from support.volumes import GROUP, NAME, UNMARKED, USER, Disk, disk_of, sh


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with disk_of("lvm", tmp_path) as made:
        yield made


def test_logical_volumes_of_others_survive(disk: Disk) -> None:
    new = ("lvcreate", "-q", "--yes", "--zero", "n", "--wipesignatures", "n", "--size", "4m")
    sh(*new, "--name", "data", "testers")
    sh(*new, "--name", f"forebay.{UNMARKED}", "testers")
    sh(*new, "--name", "tagged", "--addtag", "forebay", "testers")
    theirs = disk.left()
    with pytest.raises(CommandFailed, match="already exists"):
        disk.volumes().make(UNMARKED, disk.size, uid=USER, gid=GROUP)
    disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    assert [made.name for made in disk.volumes().find()] == [NAME]
    for name in (NAME, UNMARKED):
        disk.volumes().release(name)
    assert disk.left() == theirs
    sh("lvremove", "--yes", "testers")


def test_a_volume_group_that_is_not_there_is_told(disk: Disk) -> None:
    with pytest.raises(CommandFailed, match="nobodys"):
        Lvm(root=disk.root, group="nobodys").check()
    with pytest.raises(BadInput, match="is no name of one"):
        Lvm(root=disk.root, group="--all").check()
