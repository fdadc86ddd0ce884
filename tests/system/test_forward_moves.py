"""Names on several servers: folders move while programs on two mounts, each at its own I/O node, use them."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.fio import needs_fuse
from support.forward_processes import Layer, Part, layer, start
from support.processes import PATIENCE, wait_until

FILES = 25


@pytest.fixture
def running() -> Iterator[tuple[Layer, list[Path]]]:
    """Three servers, two I/O nodes, and a mount at each."""
    needs_fuse()
    with layer() as made:
        made.add_servers(3)
        made.add_nodes(2)
        start(*made.servers, *made.nodes)
        points = []
        for name, addresses in zip(("mount0", "mount1"), (made.addresses, made.addresses[::-1]), strict=True):
            point = made.folder / name
            point.mkdir()
            made.part("mount", str(point), "--nodes", ",".join(map(str, addresses))).start()
            points.append(point)
        yield made, points


def create_files(folder: Path, prefix: str) -> None:
    for number in range(FILES):
        with (folder / f"{prefix}{number}").open("xb") as file:
            file.write(prefix.encode())


def use_folder(points: list[Path], name: str) -> None:
    """Create files from both mounts while the folder moves, and keep one open; then remove everything."""
    first, second = points
    (second / name).mkdir()
    with (first / name / "open").open("w+b", buffering=0) as file:
        file.write(b"before")
        threads = [in_thread(create_files, point / name, prefix) for point, prefix in ((first, "a"), (second, "b"))]
        (second / name / "below").mkdir()
        for thread in threads:
            thread.end()
        (second / name).rename(second / f"{name}-new")
        expected = {"open", "below", *(f"{prefix}{number}" for prefix in "ab" for number in range(FILES))}
        for point in points:
            folder = point / f"{name}-new"
            assert set(os.listdir(folder)) == expected  # noqa: PTH208
            assert all((folder / each).read_bytes() == each[:1].encode() for each in expected - {"open", "below"})
        (second / f"{name}-new" / "open").unlink()
        file.write(b" and after")
        assert os.pread(file.fileno(), 100, 0) == b"before and after"
        assert os.fstat(file.fileno()).st_nlink == 0
    for each in sorted(expected - {"open", "below"}):
        (first / f"{name}-new" / each).unlink()
    (first / f"{name}-new" / "below").rmdir()
    (second / f"{name}-new").rmdir()


class in_thread(threading.Thread):  # noqa: N801  (a verb where it is used)
    """Runs work in a thread; `end` raises its error."""

    def __init__(self, work: Callable[[Path, str], None], folder: Path, prefix: str) -> None:
        super().__init__(daemon=True)
        self._work, self._folder, self._prefix = work, folder, prefix
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work(self._folder, self._prefix)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        self.join(PATIENCE)
        assert not self.is_alive()
        if self._error is not None:
            raise self._error


def objects(made: Layer) -> int:
    return sum(len(files) for i in range(3) for _, _, files in os.walk(made.folder / f"data{i}" / "objects"))


def test_folders_move_while_two_mounts_create_files_and_have_some_open(running: tuple[Layer, list[Path]]) -> None:
    made, points = running
    for number in range(4):
        use_folder(points, f"folder{number}")
    assert not any(points[0].iterdir())
    wait_until(lambda: not objects(made), "objects of removed files are left")


def test_folders_move_while_servers_and_io_nodes_are_killed(running: tuple[Layer, list[Path]]) -> None:
    made, points = running
    draw, over = random.Random(11), threading.Event()
    parts: list[Part] = [*made.servers, *made.nodes]

    def kill(_: Path, __: str) -> None:
        while not over.wait(draw.uniform(0.1, 0.4)):
            part = draw.choice(parts)
            part.kill()
            part.start()

    killer = in_thread(kill, made.folder, "")
    try:
        for number in range(5):
            use_folder(points, f"folder{number}")
    finally:
        over.set()
        killer.end()
    assert not any(points[1].iterdir())
    wait_until(lambda: not objects(made), "objects of removed files are left")


def test_programs_that_look_at_everything_see_folders_on_all_servers(running: tuple[Layer, list[Path]]) -> None:
    made, points = running
    for number in range(6):
        (points[0] / f"folder{number}").mkdir()
        (points[0] / f"folder{number}" / "file").write_bytes(bytes(8192))
    named = [made.folder / f"data{i}" / "names.db" for i in range(3)]
    assert all(path.exists() for path in named)
    for point in points:
        listed = subprocess.run(
            ["find", str(point), "-name", "file"], stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE
        )
        assert len(listed.stdout.split()) == 6
        used = subprocess.run(
            ["du", "-sB1", str(point)], stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE
        )
        assert int(used.stdout.split()[0]) >= 6 * 8192
        space = os.statvfs(point)
        assert space.f_bavail <= space.f_bfree <= space.f_blocks
        assert sorted(path.name for path in point.iterdir()) == [f"folder{number}" for number in range(6)]
