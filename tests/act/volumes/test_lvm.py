"""What is particular to logical volumes. It runs in a virtual machine (tests/system)."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.command import CommandFailed
from forebay.act.volumes.lvm import Lvm
from forebay.model.errors import BadInput
from support.volumes import GROUP, NAME, OTHER, UNMARKED, USER, Disk, disk_of, sh


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
    with pytest.raises(BadInput, match="is not a valid name"):
        Lvm(root=disk.root, group="--all").check()


def test_who_reaches_the_device_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    """On the same blocks: the volume group has no others that are free for it."""
    secret = b"what the job before computed"
    with disk_of("nvmet", tmp_path) as disk:
        device = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP).path
        with device.open("r+b", buffering=0) as file, suppress(OSError):  # until it is full
            while file.write((secret * 40_000)[: 1 << 20]):
                pass
        disk.volumes().release(NAME)
        device = disk.volumes().make(OTHER, disk.size, uid=USER + 1, gid=GROUP).path
        assert secret not in device.read_bytes()
        disk.volumes().release(OTHER)
