"""What programs on two mounts of one layer share beyond whole files: appended lines, locks, mapped memory."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from support.fio import needs_fuse
from support.forward_processes import Layer, layer, start
from support.processes import limited, piped


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


# Appended lines


def append_lines(path: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _APPEND, str(path), name, str(count)])


_APPEND = """
import os, sys
path, name, count = sys.argv[1:]
file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(int(count)):
    line = f"{name} {number:05} ".ljust(20 + 30 * (number % 7), name) + "\\n"
    assert os.write(file, line.encode()) == len(line)
"""


def check_lines(path: Path, names: str, count: int) -> None:
    """Every line that was appended is there, whole, in the order in which its program wrote it."""
    lines = path.read_text().splitlines()
    assert len(lines) == len(names) * count
    for name in names:
        mine = [line for line in lines if line[0] == name]
        expected = [f"{name} {number:05} ".ljust(20 + 30 * (number % 7), name) for number in range(count)]
        assert mine == expected


def test_two_mounts_append_and_no_line_is_lost(points: list[Path]) -> None:
    """The file has stripes on both servers."""
    processes = [append_lines(point / "log", name, 1000) for point, name in zip(points, "ab", strict=True)]
    assert [process.wait(120) for process in processes] == [0, 0]
    for point in points:
        check_lines(point / "log", "ab", 1000)


# Locks


def lock_command(path: Path, work: str, *arguments: object) -> subprocess.Popen[str]:
    """A program that opens the file, does `work`, and prints lines."""
    program = f"import errno, fcntl, os, sys, time\nfile = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n{work}"
    argv = [sys.executable, "-c", program, str(path), *map(str, arguments)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def holding(path: Path, work: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has locked a file, and holds the lock until its input ends."""
    process = lock_command(path, f"{work}\nprint('locked', flush=True)\nsys.stdin.read()")
    try:
        assert limited(piped(process.stdout).readline) == "locked\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield file
    finally:
        os.close(file)


EVERYTHING = "fcntl.lockf(file, fcntl.LOCK_EX)"
FLOCK = "fcntl.flock(file, fcntl.LOCK_EX)"


def is_free(file: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.lockf(file, fcntl.LOCK_UN)
    return True


@pytest.mark.parametrize(("work", "lock"), [(EVERYTHING, fcntl.lockf), (FLOCK, fcntl.flock)])
@pytest.mark.parametrize("how", ["unlock", "end", "kill"])
def test_a_lock_holds_on_the_other_mount_until_its_program_gives_it_back(
    points: list[Path], work: str, lock: Callable[[int, int], None], how: str
) -> None:
    name = f"lock {lock.__name__} {how}"
    with opened(points[1] / name) as file:
        release = f"{work}\nprint('locked', flush=True)\nsys.stdin.readline()\n"
        release += f"{work.replace('LOCK_EX', 'LOCK_UN') if how == 'unlock' else 'sys.exit()'}\n"
        process = lock_command(points[0] / name, release + "print('unlocked', flush=True)\nsys.stdin.read()")
        assert limited(piped(process.stdout).readline) == "locked\n"
        for kind in (fcntl.LOCK_EX, fcntl.LOCK_SH):
            with pytest.raises(BlockingIOError):
                lock(file, kind | fcntl.LOCK_NB)
        if how == "kill":
            process.kill()
        else:
            print(file=process.stdin, flush=True)
        lock(file, fcntl.LOCK_EX)  # waits
        process.kill()
        process.communicate(timeout=60)


def test_shared_locks_keep_only_exclusive_ones_away(points: list[Path]) -> None:
    with (
        holding(points[0] / "shared", "fcntl.flock(file, fcntl.LOCK_SH)"),
        opened(points[1] / "shared") as mine,
        opened(points[1] / "shared") as second,
    ):
        fcntl.flock(mine, fcntl.LOCK_SH)
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_ranges_are_locked_apart_and_tell_who_holds_them(points: list[Path]) -> None:
    work = "fcntl.lockf(file, fcntl.LOCK_EX, 100, 50)\nfcntl.lockf(file, fcntl.LOCK_UN, 10, 80)"
    with holding(points[0] / "ranges", work) as holder, opened(points[1] / "ranges") as file:
        for begin, length in ((0, 50), (80, 10), (150, 0)):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, begin)
        for begin in (50, 79, 90, 149):
            with pytest.raises(BlockingIOError):
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, begin)
        wanted = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 85, 20, 0)
        kind, _, begin, length, process = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, wanted))
        assert (kind, begin, length, process) == (fcntl.F_WRLCK, 90, 60, holder.pid)


def test_closing_any_descriptor_gives_posix_locks_back_but_not_a_flock(points: list[Path]) -> None:
    for work, free in ((EVERYTHING, True), (FLOCK, False)):
        path = points[0] / f"descriptors {free}"
        with (
            holding(path, f"{work}\nos.close(os.open(sys.argv[1], os.O_RDONLY))"),
            opened(points[1] / path.name) as file,
        ):
            if free:
                assert is_free(file)
            else:
                with pytest.raises(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_signal_ends_the_wait_for_a_lock(points: list[Path]) -> None:
    with holding(points[0] / "signal", EVERYTHING), opened(points[1] / "signal") as file:
        work = "print('waits', flush=True)\nfcntl.lockf(file, fcntl.LOCK_EX)"
        waiting = lock_command(points[1] / "signal", work)
        assert limited(piped(waiting.stdout).readline) == "waits\n"
        time.sleep(0.2)  # usually enough to be in the middle of the wait; it may be too early, too
        waiting.send_signal(signal.SIGTERM)
        waiting.communicate(timeout=4)
        assert waiting.returncode == -signal.SIGTERM
        assert not is_free(file)
    with opened(points[1] / "signal") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)


def test_two_programs_that_wait_for_each_other_get_an_error(points: list[Path]) -> None:
    work = """
own, other = map(int, sys.argv[2:])
fcntl.lockf(file, fcntl.LOCK_EX, 1, own)
print('locked', flush=True)
sys.stdin.readline()
try:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, other)
    print('granted', flush=True)
except OSError as error:
    print("deadlock" if error.errno == errno.EDEADLK else error, flush=True)
"""
    places = zip(points, ((0, 1), (1, 0)), strict=True)
    processes = [lock_command(point / "deadlock", work, *order) for point, order in places]
    for process in processes:
        assert limited(piped(process.stdout).readline) == "locked\n"
    for process in processes:
        print(file=process.stdin, flush=True)
    assert sorted(limited(piped(process.stdout).readline) for process in processes) == ["deadlock\n", "granted\n"]
    for process in processes:
        process.communicate(timeout=60)


def test_many_programs_wait_while_others_work(points: list[Path]) -> None:
    """More of them than a mount has threads."""
    path = points[0] / "many"
    with opened(path) as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        work = "print('waits', flush=True)\nfcntl.lockf(file, fcntl.LOCK_EX)\nprint('granted', flush=True)"
        waiting = [lock_command(path, work) for _ in range(12)]
        for process in waiting:
            assert limited(piped(process.stdout).readline) == "waits\n"
        (points[0] / "other").write_text("still works")
    for process in waiting:
        assert process.wait(60) == 0
        process.communicate(timeout=60)


_COUNT = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
for _ in range(int(sys.argv[2])):
    fcntl.lockf(file, fcntl.LOCK_EX)
    value = int(os.pread(file, 20, 0) or b"0")
    os.pwrite(file, b"%020d" % (value + 1), 0)
    fcntl.lockf(file, fcntl.LOCK_UN)
"""


def test_a_counter_under_a_lock_counts_right_on_two_mounts(points: list[Path]) -> None:
    (points[0] / "counter").write_bytes(b"%020d" % 0)
    argv = [[sys.executable, "-c", _COUNT, str(point / "counter"), "100"] for point in points * 2]
    processes = [subprocess.Popen(each) for each in argv]
    assert [process.wait(120) for process in processes] == [0] * 4
    assert int((points[0] / "counter").read_bytes()) == 400
