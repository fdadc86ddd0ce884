"""A data server whose disk is full or read-only: the program is told so, and what was written before is there."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.fio import needs_fuse
from support.forward_processes import Layer, layer, start
from support.processes import wait_until
from support.volumes import small_disk

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


def _write(path: Path, text: str) -> None:
    path.write_text(text)


@contextmanager
def disk_that_breaks(folder: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A file system, and what makes it read-only, as ext4 does by itself after an error."""
    image, disk = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(32 * MIB)
    disk.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=60)
    mounted = ["mount", "-o", "loop,errors=remount-ro", str(image), str(disk)]
    if subprocess.run(mounted, capture_output=True, timeout=60).returncode:
        pytest.skip("an image can't be mounted here: that needs root and a loop device")
    try:
        source = subprocess.run(["findmnt", "-n", "-o", "SOURCE", disk], stdout=subprocess.PIPE, text=True, timeout=60)
        trigger = Path("/sys/fs/ext4", Path(source.stdout.strip()).name, "trigger_fs_error")
        if not os.access(trigger, os.W_OK):
            pytest.skip("ext4 takes no errors from here")
        yield disk, lambda: _write(trigger, "error")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True, timeout=60)


@pytest.mark.parametrize("server", [0, 1])
def test_a_disk_that_becomes_read_only_is_told_of_and_keeps_what_it_has(tmp_path: Path, server: int) -> None:
    needs_fuse()
    with disk_that_breaks(tmp_path) as (disk, break_disk), layer() as made:
        places = [made.folder / "data0", made.folder / "data1"]
        places[server] = disk / "data"
        made.add_servers(2, places)
        made.add_nodes(1)
        start(*made.servers, *made.nodes)
        part, point = made.add_mount()
        part.start()
        earlier = os.urandom(MIB)
        (point / "earlier").write_bytes(earlier)
        (point / "folder").mkdir()
        (point / "folder" / "first").write_bytes(b"first")
        break_disk()
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EROFS):
            (point / "later").write_bytes(bytes(MIB))
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EROFS):
            (point / "folder" / "below").mkdir()  # the folder's names would move
        assert (point / "earlier").read_bytes() == earlier
        with made.client() as client, client.open("/folder/first") as file:
            assert file.pread(10, 0) == b"first"
        made.stop()


def test_a_full_server_refuses_no_file_of_a_folder_whose_names_it_has(running: tuple[Layer, Path]) -> None:
    made, point = running
    for folder in ("a", "b", "c", "d"):
        (point / folder).mkdir()
        (point / folder / "first").write_bytes(b"first")
    ballast = made.folder / "small" / "ballast"
    with (
        ballast.open("wb", buffering=0) as file,
        pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC),
    ):
        while True:
            file.write(bytes(4096))
    for folder in ("a", "b", "c", "d"):
        for number in range(200):
            (point / folder / f"{number}").symlink_to("first")
        assert len(list((point / folder).iterdir())) == 201
        assert (point / folder / "first").read_bytes() == b"first"
    ballast.unlink()
    for folder in ("a", "b", "c", "d"):
        (point / folder / "last").write_bytes(b"last")
        (point / folder).rename(point / f"{folder}-new")
        assert len(list((point / f"{folder}-new").iterdir())) == 202


@pytest.fixture
def small_servers() -> Iterator[tuple[Layer, Path, Path]]:
    """Three data servers, each with a small disk of its own, and two mounts."""
    needs_fuse()
    with layer() as made, ExitStack() as disks:
        places = []
        for number in range(3):
            root = made.folder / f"{number}" / "disk"
            root.mkdir(parents=True)
            disks.enter_context(small_disk(root, "ext4", 32 * MIB, "-m", "0"))
            places.append(root / "data")
        made.add_servers(3, places)
        made.add_nodes(1)
        start(*made.servers, *made.nodes)
        points = []
        for name in ("first", "second"):
            part, point = made.add_mount(name)
            part.start()
            points.append(point)
        yield made, points[0], points[1]
        made.stop()


def _fill(path: Path) -> None:
    for size in (MIB, 4096):
        with (
            path.open("ab", buffering=0) as file,
            pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC),
        ):
            while True:
                file.write(bytes(size))


def _available(point: Path) -> int:
    status = os.statvfs(point)
    return status.f_bavail * status.f_frsize


def test_a_full_file_system_can_be_emptied_again_and_again(small_servers: tuple[Layer, Path, Path]) -> None:
    made, first, second = small_servers
    empty = _available(first)
    for turn in range(3):
        folders = [first / f"{turn}-{number}" for number in range(4)]  # the servers take turns to have their names
        for folder in folders:
            folder.mkdir()
            for number in range(50):
                (folder / f"{number}").write_bytes(bytes(100))
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(_fill, (first / "large", second / "larger")))
        for folder in folders:
            for number in range(100):
                has_room(folder / f"small{number}", bytes(30000))
        assert _available(first) < 8 * MIB
        if turn == 1:
            for server in made.servers:
                server.kill()
            start(*made.servers)
        os.truncate(second / "large", 100)
        _fill(first / "again")
        (first / "larger").rename(first / "again")
        (second / folders[1].name / "0").rename(second / folders[1].name / "1")
        for folder in folders:
            subprocess.run(["rm", "-r", str(folder)], check=True, timeout=60)
        for name in ("large", "again"):
            (second / name).unlink()
        assert list(first.iterdir()) == []
        wait_until(lambda: _available(first) > empty - 16 * MIB, "the space does not come back")
