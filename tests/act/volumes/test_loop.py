"""What is particular to images: space that is set aside, a disk that fills up, mount points in use, jobs that stay."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.command import CommandFailed
from forebay.act.volumes.bandwidth_limit import read_limit
from forebay.act.volumes.loop import Loop
from forebay.act.volumes.volume import NoRoom, NotOurs, VolumeFailed
from forebay.model.errors import BadInput, UnknownName
from support.processes import limited
from support.volumes import (
    GROUP,
    MIB,
    NAME,
    OTHER,
    UNMARKED,
    USER,
    LoopDisk,
    disk_of,
    dying,
    free_bytes,
    loops_below,
    sh,
    small_loop_disk,
)

SIZE = 16 * MIB


@pytest.fixture(params=["ext4", "xfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDisk]:
    with disk_of(f"loop-{request.param}", tmp_path) as made:
        assert isinstance(made, LoopDisk)
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[LoopDisk]:
    with small_loop_disk(tmp_path / "disk") as made:
        yield made


def test_all_of_the_space_is_set_aside_when_the_volume_is_made(disk: LoopDisk) -> None:
    disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    image = disk.root / ".forebay" / f"{NAME}.image"
    assert image.stat().st_blocks * 512 >= image.stat().st_size > disk.size
    assert image.stat().st_mode & 0o077 == 0


def test_a_full_disk_does_not_take_from_what_was_granted(small: LoopDisk) -> None:
    made = small.volumes().make(NAME, SIZE, uid=USER, gid=GROUP)
    sh("sh", "-c", f"cat /dev/zero > {small.root}/greedy || true")
    assert os.statvfs(small.root).f_bavail == 0
    with (made.path / "result").open("wb") as file:
        file.write(bytes(SIZE))
        file.flush()
        os.fsync(file.fileno())
    assert (made.path / "result").stat().st_size == SIZE


def test_a_disk_that_fills_up_while_a_volume_is_made_is_as_before(small: LoopDisk) -> None:
    def fill(_step: str) -> None:
        sh("sh", "-c", f"cat /dev/zero >> {small.root}/greedy || true")

    with pytest.raises(VolumeFailed, match="cannot reserve its space: no space left on device"):
        small.volumes(fill).make(NAME, SIZE, uid=USER, gid=GROUP)
    assert small.left() == [str(small.root / "greedy")]
    (small.root / "greedy").unlink()
    assert small.volumes().make(NAME, SIZE, uid=USER, gid=GROUP).state == "whole"


def test_blocks_of_a_file_that_was_removed_are_not_in_a_new_image(small: LoopDisk) -> None:
    """Who reaches the image itself finds nothing of the one before."""
    secret = b"what the job before computed"
    with (small.root / "before").open("wb") as file, suppress(OSError):
        while True:
            file.write(secret * 40_000)
    (small.root / "before").unlink()
    Loop(root=small.root, local=False).make(NAME, SIZE, uid=USER, gid=GROUP)
    assert secret not in (small.root / ".forebay" / f"{NAME}.image").read_bytes()


def test_a_trim_gives_nothing_back_to_the_disk(disk: LoopDisk) -> None:
    made = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    image = disk.root / ".forebay" / f"{NAME}.image"
    before = image.stat().st_blocks
    sh("sh", "-c", f"fstrim {made.path} || true")
    assert image.stat().st_blocks == before


def test_a_disk_that_fills_up_while_a_volume_is_made_leaves_all_as_before(small: LoopDisk) -> None:
    def fill(step: str) -> None:
        if step.startswith("create"):
            sh("sh", "-c", f"cat /dev/zero > {small.root}/greedy || true")

    with pytest.raises(VolumeFailed, match="cannot reserve its space: no space left on device"):
        small.volumes(fill).make(NAME, SIZE, uid=USER, gid=GROUP)
    (small.root / "greedy").unlink()
    assert small.left() == []
    assert small.volumes().make(NAME, SIZE, uid=USER, gid=GROUP).state == "whole"


def test_a_disk_without_room_for_the_file_system_on_top_is_refused(small: LoopDisk) -> None:
    room = os.statvfs(small.root)
    with pytest.raises(NoRoom, match="with file system overhead"):
        small.volumes().make(NAME, room.f_bavail * room.f_frsize, uid=USER, gid=GROUP)
    assert small.left() == []


def test_what_can_be_granted_in_all_stays_and_what_can_be_granted_now_shrinks(small: LoopDisk) -> None:
    volumes = small.volumes()
    in_all, now = volumes.usable(), free_bytes(volumes)
    assert in_all == now > 0
    volumes.make(NAME, SIZE, uid=USER, gid=GROUP)
    assert abs(volumes.usable() - in_all) <= MIB
    assert free_bytes(volumes) <= now - SIZE * 0.95


def test_all_that_can_be_granted_can_be_made(small: LoopDisk) -> None:
    volumes = small.volumes()
    in_all = volumes.usable()
    made = volumes.make(NAME, in_all, uid=USER, gid=GROUP)
    assert made.state == "whole"


def test_a_mount_point_in_use_is_refused_and_left_alone(disk: LoopDisk) -> None:
    made = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    (made.path / "result").write_text("42")
    disk.restart(made)
    sh("mount", "-t", "tmpfs", "theirs", made.path)
    try:
        for refused in (
            lambda: disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP),
            lambda: disk.volumes().release(NAME),
        ):
            with pytest.raises(NotOurs, match="something without Forebay's mark is mounted there"):
                refused()
        assert disk.volumes().find()[0].state == "half"
    finally:
        sh("umount", made.path)
    disk.volumes().release(NAME)
    assert disk.left() == []


def test_images_and_mounts_of_others_beside_survive(disk: LoopDisk) -> None:
    home = disk.root / ".forebay"
    home.mkdir(mode=0o700)
    theirs = home / f"{UNMARKED}.image"
    theirs.touch()
    os.truncate(theirs, 20 * MIB)
    sh("mkfs.ext4", "-q", theirs)
    (home / "notes.whole").write_text("{}")
    point = disk.root / "theirs"
    point.mkdir()
    sh("mount", "-o", "loop", theirs, point)
    try:
        (point / "thesis").write_text("three years")
        with pytest.raises(NotOurs):
            disk.volumes().make(UNMARKED, disk.size, uid=USER, gid=GROUP)
        for name in (NAME, OTHER):
            disk.volumes().make(name, disk.size, uid=USER, gid=GROUP)
        for name in (NAME, OTHER, UNMARKED):
            disk.volumes().release(name)
        assert (point / "thesis").read_text() == "three years"
        assert sorted(path.name for path in home.iterdir()) == sorted(["notes.whole", theirs.name])
        assert disk.volumes().find() == []
    finally:
        sh("umount", point)


def test_a_program_that_holds_on_loses_its_files_and_the_disk_has_its_space_back(small: LoopDisk) -> None:
    free = os.statvfs(small.root).f_bavail
    made = small.volumes().make(NAME, SIZE, uid=USER, gid=GROUP)
    held = os.open(made.path / "open", os.O_RDWR | os.O_CREAT)
    try:
        small.volumes().release(NAME)
        with pytest.raises(OSError, match="nput/output error"):
            os.write(held, b"still here")
        assert os.statvfs(small.root).f_bavail >= free - 64
    finally:
        os.close(held)
    assert small.volumes().find() == []


def test_a_process_killed_while_it_makes_leaves_what_the_next_one_finishes(disk: LoopDisk) -> None:
    def die(step: str) -> None:
        if step.startswith("mount"):
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        disk.volumes(die).make(NAME, disk.size, uid=USER, gid=GROUP)
        os._exit(0)
    assert limited(lambda: os.waitpid(child, 0))[1] == signal.SIGKILL
    assert [made.state for made in disk.volumes().find()] == ["half"]
    assert len(loops_below(disk.root)) == 1
    assert disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP).state == "whole"
    assert len(loops_below(disk.root)) == 1


def test_a_mark_that_can_not_be_read_is_told_and_released(disk: LoopDisk) -> None:
    disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    mark = disk.root / ".forebay" / f"{NAME}.whole"
    mark.write_text(mark.read_text()[:20])
    assert [(made.name, made.state) for made in disk.volumes().find()] == [(NAME, "half")]
    with pytest.raises(BadInput, match="release it first"):
        disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    disk.volumes().release(NAME)
    assert disk.left() == []


def test_a_ceiling_is_set_on_the_device_and_lifted_with_the_volume(disk: LoopDisk) -> None:
    if not Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device").exists():
        pytest.skip("the root control group here has no limits on devices")
    made = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP, ceiling=5e6)
    assert made.ceiling == 5e6
    device = Path(made.device).stat().st_rdev
    number = f"{os.major(device)}:{os.minor(device)}"
    assert read_limit(number) == 5e6
    disk.volumes().release(NAME)
    assert read_limit(number) is None


def test_a_make_that_fails_on_a_volume_in_use_leaves_it_in_use(disk: LoopDisk) -> None:
    made = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP, ceiling=5e6)
    held = os.open(made.path / "open", os.O_RDWR | os.O_CREAT)
    try:
        with pytest.raises(CommandFailed, match="no more"):
            again = disk.volumes(dying(0, CommandFailed("no more")))
            again.make(NAME, disk.size, uid=USER, gid=GROUP, ceiling=5e6)
        assert os.write(held, b"still here") == 10
    finally:
        os.close(held)
    assert disk.volumes().find() == [made]


def test_a_volume_is_mounted_so_that_nobody_gains_by_it(disk: LoopDisk) -> None:
    made = disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)
    line = next(line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {made.path} " in line)
    assert {"nosuid", "nodev"} <= set(line.split()[3].split(","))


def test_a_small_volume_with_xfs_is_refused_with_the_least_size(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"is too small; the minimum is 230\.69 MB"):
        Loop(root=tmp_path, fs="xfs").make(NAME, SIZE, uid=USER, gid=GROUP)


def test_an_unknown_file_system_is_told_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no file system 'ext5'; did you mean 'ext4'"):
        Loop(root=tmp_path, fs="ext5").check()
