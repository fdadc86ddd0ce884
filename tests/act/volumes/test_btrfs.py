"""What is particular to btrfs: quotas, and subvolumes inside subvolumes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.volumes.btrfs import Btrfs
from forebay.act.volumes.volume import NotOurs
from forebay.model.errors import BadInput
from support.volumes import GROUP, MIB, NAME, OTHER, USER, Disk, disk_of, free_bytes, sh


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with disk_of("btrfs", tmp_path) as made:
        yield made


def test_subvolumes_of_others_survive(disk: Disk) -> None:
    sh("btrfs", "-q", "subvolume", "create", disk.root / "theirs")
    (disk.root / "theirs" / "thesis").write_text("three years")
    disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    disk.volumes().release(NAME)
    assert (disk.root / "theirs" / "thesis").read_text() == "three years"
    sh("btrfs", "-q", "subvolume", "delete", disk.root / "theirs")


def test_subvolumes_that_the_user_made_inside_are_told_and_go_with_the_volume(disk: Disk) -> None:
    made = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    (made.path / "folder").mkdir()
    for inner in ("folder/a", "folder/a/b", "c"):
        sh("btrfs", "-q", "subvolume", "create", made.path / inner)
    assert [found.enforced for found in disk.volumes().find()] == [False]
    disk.volumes().release(NAME)
    assert disk.left() == []


DEEP = """
import os, subprocess, sys
os.chdir(sys.argv[1])
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
subprocess.run(["btrfs", "-q", "subvolume", "create", "hidden"], check=True)
"""


def test_a_subvolume_hidden_deeper_than_a_path_can_follow_goes_too(disk: Disk) -> None:
    made = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    sh(sys.executable, "-SEc", DEEP, made.path)
    assert [found.enforced for found in disk.volumes().find()] == [False]
    disk.volumes().release(NAME)
    assert disk.left() == []


def test_a_disk_without_quotas_is_refused_with_the_way_out(disk: Disk) -> None:
    sh("btrfs", "quota", "disable", disk.root)
    with pytest.raises(BadInput, match="btrfs quota enable"):
        disk.volumes().check()


def test_another_file_system_is_refused(tmp_path: Path, disk: Disk) -> None:
    assert disk.volumes().kind == "btrfs"
    with pytest.raises(BadInput, match="not on btrfs"):
        Btrfs(root=tmp_path).check()


def test_what_was_granted_and_not_yet_written_is_not_granted_again(disk: Disk) -> None:
    volumes = disk.volumes()
    in_all, now = volumes.usable(), free_bytes(volumes)
    volumes.make(NAME, 100 * MIB, uid=USER, gid=GROUP)
    assert abs(volumes.usable() - in_all) <= 8 * MIB
    assert free_bytes(volumes) <= now - 90 * MIB


def test_a_folder_put_in_the_place_of_the_subvolume_is_not_touched(disk: Disk) -> None:
    volumes = disk.volumes()
    made = volumes.make(OTHER, disk.size, uid=USER, gid=GROUP)
    sh("btrfs", "-q", "subvolume", "delete", made.path)
    made.path.mkdir()
    with pytest.raises(NotOurs, match="is not a subvolume"):
        volumes.release(OTHER)
    made.path.rmdir()
    volumes.release(OTHER)
    assert disk.left() == []
