"""Whether the folders of objects are kept apart, on small ext4 file systems with and without a journal."""

import os
from pathlib import Path

import pytest

from forebay.act.forward.data.objects import Objects
from support.volumes import mounted, sh

_INODES = 128  # of a group


def groups_of_folders(folder: Path) -> int:
    """In how many groups the folders of 64 objects are."""
    objects = Objects(folder / "objects")
    for number in range(64):
        objects.write(number << 56, 0, b"abc")
    objects.close()
    return len({(path.stat().st_ino - 1) // _INODES for path in (folder / "objects").iterdir()})


def groups_on_new_ext4(image: Path, *features: str) -> int:
    with image.open("wb") as file:
        file.truncate(64 << 20)
    sh("mkfs.ext4", "-q", "-b", "1024", "-g", "1024", "-N", str(64 * _INODES), "-G", "1", *features, str(image))
    with mounted(image, "-o", "loop") as top:
        return groups_of_folders(top)


def test_folders_of_objects_are_in_different_groups_of_an_ext4_without_a_journal(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    assert groups_on_new_ext4(tmp_path / "with") < 10
    assert groups_on_new_ext4(tmp_path / "without", "-O", "^has_journal") > 30


def test_a_file_system_that_knows_no_groups_takes_objects_as_before(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "objects")
    objects.write(7, 0, b"abc")
    assert objects.size(7).size == 3
    objects.close()
