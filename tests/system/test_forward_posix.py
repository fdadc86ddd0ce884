"""A mount is a POSIX file system: random operations give the same as in a plain folder, also on two mounts."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.act.forward.clients.channel import identify
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.payloads import Caller
from forebay.model.file_times import LAST, clamp_time
from support.examples import examples
from support.fio import needs_fuse
from support.forward_processes import Layer, layer, start
from support.processes import limited, piped, started, wait_until

ROOT = os.geteuid() == 0
USERS = ((0, 0), (4711, 4712), (4713, 4712)) if ROOT else ((os.getuid(), os.getgid()),)
"""Users and groups who do things; the second and the third share a group."""
_HERE, _NOREPLACE, _EXCHANGE = -100, 1, 2  # of renameat2(2)


@pytest.fixture(scope="module")
def running() -> Iterator[Layer]:
    needs_fuse()
    with layer() as made:
        made.folder.chmod(0o711)
        made.add_servers(4)
        made.add_nodes(2)
        start(*made.servers, *made.nodes)
        yield made


@pytest.fixture(scope="module")
def points(running: Layer) -> Iterator[list[Path]]:
    """Two mounts of one layer, each at an I/O node of its own."""
    options = ("--everybody",) if ROOT else ()
    made = []
    for name in ("mount0", "mount1"):
        made.append(running.add_mount(name, *options))
        running.addresses.reverse()
    start(*(part for part, _ in made))
    yield [point for _, point in made]
    for part, _ in made:
        part.stop()


# Operations: each gets a folder and its arguments, and returns what a program can see of it.


def _create(place: Path, flags: int, mode: int) -> None:
    os.close(os.open(place, os.O_CREAT | flags, mode))


def _write(place: Path, offset: int, size: int) -> int:
    handle = os.open(place, os.O_WRONLY)
    try:
        return os.pwrite(handle, bytes([size % 251]) * size, offset)
    finally:
        os.close(handle)


def _extend(place: Path, flags: int, size: int) -> tuple[int, int]:
    """Write at the end, twice, and return what the size is each time."""
    handle = os.open(place, os.O_WRONLY | flags)
    try:
        sizes = []
        for _ in range(2):
            os.pwrite(handle, b"e" * size, os.fstat(handle).st_size)
            sizes.append(os.fstat(handle).st_size)
        return sizes[0], sizes[1]
    finally:
        os.close(handle)


def _read(place: Path) -> bytes:
    handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.pread(handle, 1 << 20, 0)
    finally:
        os.close(handle)


def _status(place: Path) -> object:
    found = place.lstat()
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return found.st_mode, found.st_nlink, found.st_uid, found.st_gid, size


def _set_times(place: Path, atime: int, mtime: int) -> object:
    os.utime(place, ns=(atime, mtime))
    found = place.stat()
    return found.st_atime_ns, found.st_mtime_ns


def _allocate(place: Path, offset: int, size: int) -> int:
    handle = os.open(place, os.O_WRONLY)
    try:
        os.posix_fallocate(handle, offset, size)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _churn(place: Path) -> None:
    """Create files and remove most of them; the mount removes the last ones before the layer hears of it."""
    for names in (("x0", "x1"), ("x2", "x3", "x4", "x5")):
        for name in names:
            os.close(os.open(place / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        for name in names[:3]:
            os.unlink(place / name)  # noqa: PTH108


def _list_attributes(place: Path) -> object:
    return sorted(name for name in os.listxattr(place) if name.startswith("user."))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "create": _create,
    "write": _write,
    "extend": _extend,
    "read": _read,
    "status": _status,
    "list": lambda place: sorted(os.listdir(place)),  # noqa: PTH208
    "truncate": os.truncate,
    "unlink": os.unlink,
    "churn": _churn,
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "rename": os.rename,
    "link": lambda place, to: os.link(place, to, follow_symlinks=False),
    "symlink": lambda place, target: place.symlink_to(target),
    "readlink": os.readlink,
    "mkfifo": os.mkfifo,
    "chmod": os.chmod,
    "chown": lambda place, uid, gid: os.chown(place, uid, gid, follow_symlinks=False),
    "utime": _set_times,
    "touch": os.utime,
    "access": os.access,
    "setxattr": os.setxattr,
    "getxattr": os.getxattr,
    "removexattr": os.removexattr,
    "listxattr": _list_attributes,
    "allocate": _allocate,
}
HANDLES: dict[str, Callable[..., Any]] = {
    "pread": lambda handle, offset: os.pread(handle, 1 << 20, offset),
    "pwrite": lambda handle, offset, size: os.pwrite(handle, b"h" * size, offset),
    "ftruncate": os.ftruncate,
    "fstatus": lambda handle: (os.fstat(handle).st_nlink, os.fstat(handle).st_size, os.fstat(handle).st_mode),
    "fchmod": os.fchmod,
    "fsync": os.fsync,
}

ANY_PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
PATHS = st.one_of(st.sampled_from(["a", "b/a"]), ANY_PATHS)
MODES = st.sampled_from([0o644, 0o600, 0o777, 0o070, 0o000, 0o4755, 0o2755, 0o6777, 0o1777, 0o2644])
FLAGS = st.sampled_from([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_EXCL, os.O_WRONLY | os.O_TRUNC, os.O_DIRECTORY])
SIZES = st.sampled_from([0, 1, 4096, 65536, 70_000, 200_000])
NAMES = st.sampled_from(["user.a", "user.b", "user.", "other"])
TIMES = st.sampled_from([0, 1, 1_600_000_000_123_456_789, -5_000_000_001])
IDS = st.sampled_from([-1, 0, 4711, 4712, 4713])
STEPS = st.one_of(
    st.tuples(st.just("create"), PATHS, FLAGS, MODES),
    st.tuples(st.just("create"), PATHS, st.just(os.O_EXCL), MODES),
    st.tuples(st.just("mkdir"), PATHS, MODES),
    st.tuples(st.just("write"), PATHS, SIZES, SIZES),
    st.tuples(st.just("extend"), PATHS, st.sampled_from([0, os.O_APPEND]), SIZES),
    st.tuples(
        st.sampled_from(["churn", "read", "status", "list", "unlink", "rmdir", "readlink", "touch", "listxattr"]), PATHS
    ),
    st.tuples(st.sampled_from(["rename", "link"]), PATHS, PATHS),
    st.tuples(st.just("symlink"), PATHS, st.sampled_from(["a", "b", "../b", "a/b", "none", "/none", "x" * 300])),
    st.tuples(st.sampled_from(["mkfifo", "chmod"]), PATHS, MODES),
    st.tuples(st.just("truncate"), PATHS, SIZES),
    st.tuples(st.just("chown"), PATHS, IDS, IDS),
    st.tuples(st.just("utime"), PATHS, TIMES, TIMES),
    st.tuples(st.just("access"), PATHS, st.integers(0, 7)),
    st.tuples(st.just("setxattr"), PATHS, NAMES, st.binary(max_size=9), st.integers(0, 2)),
    st.tuples(st.sampled_from(["getxattr", "removexattr"]), PATHS, NAMES),
    st.tuples(st.just("allocate"), PATHS, SIZES, SIZES),
    # What is done to one of three open files.
    st.tuples(st.just("open"), st.integers(0, 2), PATHS, FLAGS),
    st.tuples(st.just("close"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["pread", "ftruncate"]), st.integers(0, 2), SIZES),
    st.tuples(st.just("pwrite"), st.integers(0, 2), SIZES, SIZES),
    st.tuples(st.just("fchmod"), st.integers(0, 2), MODES),
    st.tuples(st.sampled_from(["fstatus", "fsync"]), st.integers(0, 2)),
)


class World:
    """A folder, at one or several places, and open files there."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = places
        self._handles: dict[int, int] = {}

    def close(self) -> None:
        for handle in self._handles.values():
            os.close(handle)

    def outcome(self, turn: int, what: str, *values: Any) -> object:
        """What a program sees: a value, or the errno of an error."""
        try:
            return self._do(self.places[turn % len(self.places)], what, *values)
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def _do(self, folder: Path, what: str, first: Any, *values: Any) -> object:
        if what == "open":
            self._close(first)
            self._handles[first] = os.open(folder / values[0], values[1] | os.O_NONBLOCK)
            return None
        if what == "close":
            self._close(first)
            return None
        if what in HANDLES:
            return HANDLES[what](self._handles[first], *values) if first in self._handles else None
        if what in ("rename", "link"):
            values = (folder / values[0],)
        return OPERATIONS[what](folder / first, *values)

    def _close(self, slot: int) -> None:
        handle = self._handles.pop(slot, None)
        if handle is not None:
            os.close(handle)

    def tree(self, turn: int) -> dict[str, object]:
        """Everything that is there."""
        folder = self.places[turn % len(self.places)]
        return {str(path.relative_to(folder)): self._describe(path) for path in sorted(folder.rglob("*"))}

    def _describe(self, path: Path) -> object:
        mode = path.lstat().st_mode
        content: object = None
        if stat.S_ISLNK(mode):
            content = path.readlink()
        elif stat.S_ISREG(mode) and (ROOT or os.access(path, os.R_OK)):
            content = path.read_bytes(), _list_attributes(path)
        return _status(path), content


@contextmanager
def acting_as(user: int, group: int) -> Iterator[None]:
    if not ROOT:
        yield
        return
    os.setegid(group)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def compare(points: Sequence[Path], steps: Sequence[tuple[int, int, tuple[Any, ...]]]) -> None:
    groups = os.getgroups()
    if ROOT:
        os.setgroups([])
    with tempfile.TemporaryDirectory() as base, tempfile.TemporaryDirectory(dir=points[0]) as folder:
        name = Path(folder).name
        plain, mounted = World([Path(base)]), World([point / name for point in points])
        for place in (Path(base), Path(folder)):
            place.chmod(0o777)
        try:
            for turn, (mount, user, step) in enumerate((*FIRST, *steps)):
                with acting_as(*USERS[user % len(USERS)]):
                    expected = plain.outcome(0, *step)
                    assert mounted.outcome(mount, *step) == expected, (turn, user, step)
            for turn in range(len(points)):
                assert mounted.tree(turn) == plain.tree(0)
        finally:
            plain.close()
            mounted.close()
            if ROOT:
                os.setgroups(groups)


FIRST = ((0, 0, ("create", "a", os.O_EXCL, 0o666)), (0, 0, ("mkdir", "b", 0o777)), (0, 0, ("create", "b/a", 0, 0o666)))
"""Steps that all sequences begin with, so that most others have something to work on."""
SEQUENCES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), STEPS), max_size=30)
_slow = settings(max_examples=examples(40), suppress_health_check=list(HealthCheck), deadline=None)


@_slow
@given(steps=SEQUENCES)
def test_a_mount_gives_what_a_plain_folder_gives(
    points: list[Path], steps: list[tuple[int, int, tuple[Any, ...]]]
) -> None:
    compare(points[:1], steps)


@_slow
@given(steps=SEQUENCES)
def test_two_mounts_together_give_what_a_plain_folder_gives(
    points: list[Path], steps: list[tuple[int, int, tuple[Any, ...]]]
) -> None:
    compare(points, steps)


# What a table in docs/forward.md says, as far as no random operation shows it


def test_an_open_file_outlives_its_last_name_that_another_mount_removes_or_replaces(points: list[Path]) -> None:
    (points[0] / "open").write_bytes(b"first")
    (points[0] / "replacement").write_bytes(b"second")
    with (points[1] / "open").open("r+b", buffering=0) as removed:
        (points[0] / "open").unlink()
        assert (removed.read(), os.fstat(removed.fileno()).st_nlink) == (b"first", 0)
        removed.write(b" and more")
        assert os.pread(removed.fileno(), 100, 0) == b"first and more"
    with (points[1] / "replacement").open("rb") as replaced:
        (points[0] / "new").write_bytes(b"third")
        (points[0] / "new").rename(points[0] / "replacement")
        assert replaced.read() == b"second"
    assert (points[1] / "replacement").read_bytes() == b"third"


def test_names_are_exchanged_or_kept(points: list[Path]) -> None:
    for name in ("one", "two"):
        (points[0] / name).write_text(name)

    def rename(flags: int) -> int:
        paths = (os.fsencode(points[0] / name) for name in ("one", "two"))
        first, second = paths
        library = ctypes.CDLL(None, use_errno=True)
        return 0 if not library.renameat2(_HERE, first, _HERE, second, ctypes.c_uint(flags)) else ctypes.get_errno()

    assert rename(_NOREPLACE) == errno.EEXIST
    assert rename(_EXCHANGE) == 0
    assert [(points[1] / name).read_text() for name in ("one", "two")] == ["two", "one"]


def test_a_hole_gives_its_space_back(points: list[Path]) -> None:
    path = points[0] / "hole"
    path.write_bytes(bytes(range(256)) * 4096)
    blocks = path.stat().st_blocks
    subprocess.run(["fallocate", "--punch-hole", "-o", "0", "-l", "512KiB", path], check=True, timeout=60)
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks < blocks
    assert path.read_bytes() == bytes(512 << 10) + bytes(range(256)) * 2048
    collapse = ["fallocate", "--collapse-range", "-o", "0", "-l", "64KiB", str(path)]
    done = subprocess.run(collapse, capture_output=True, text=True, timeout=60)
    assert "not supported" in done.stderr


def test_space_is_allocated_beyond_the_end_and_ranges_become_zero(points: list[Path]) -> None:
    path = points[0] / "allocated"
    path.write_bytes(b"x" * 200_000)
    blocks = path.stat().st_blocks
    subprocess.run(["fallocate", "--keep-size", "-o", "200000", "-l", "1MiB", path], check=True, timeout=60)
    assert (points[1] / "allocated").stat().st_size == 200_000
    assert path.stat().st_blocks >= blocks + 2048
    zeroed = subprocess.run(["fallocate", "--zero-range", "-o", "10", "-l", "100000", path], timeout=60)
    if zeroed.returncode == 0:  # if the file system of the test has it
        assert (points[1] / "allocated").read_bytes() == b"x" * 10 + bytes(100_000) + b"x" * 99_990


def test_a_read_changes_the_time_of_access(running: Layer, points: list[Path]) -> None:
    """A mount may show it later, so a client that keeps nothing asks."""
    path = points[0] / "accessed"
    path.write_bytes(bytes(100_000))  # too long for a mount to keep
    os.utime(path, ns=(10**9, 2 * 10**9))
    assert path.stat().st_atime_ns == 10**9
    path.read_bytes()
    with running.client() as client:
        assert client.stat("/accessed").atime > 2 * 10**9


@pytest.mark.parametrize("year", [1600, 1950, 2250, 2300, 3000])
def test_times_that_no_64_bits_can_hold_become_the_nearest(points: list[Path], year: int) -> None:
    """By `touch`, and by `cp -a` where a local file system can have such a time."""
    at = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**9 + 5
    nearest = clamp_time(at)
    path, folder = points[0] / f"late{year}", points[0] / f"folder{year}"
    path.write_bytes(b"x")
    folder.mkdir()
    for each in (path, folder):
        os.utime(each, ns=(at, at))
    os.utime(points[1] / path.name, ns=(at, at + 1))
    for point in points:
        status = (point / path.name).stat()
        assert (status.st_atime_ns, status.st_mtime_ns) == (nearest, min(nearest + (at == nearest), LAST))
        assert (point / folder.name).stat().st_mtime_ns == nearest
    subprocess.run(["touch", "-d", f"{year}-01-01", path], check=True, timeout=60)
    with tempfile.TemporaryDirectory() as local:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "t", local], capture_output=True, timeout=60).returncode == 0
        try:
            copied = Path(local, "copied")
            copied.write_bytes(b"y")
            os.utime(copied, ns=(at, at))
            subprocess.run(["cp", "-a", copied, points[0] / f"copied{year}"], check=True, timeout=60)
            kept = clamp_time(copied.stat().st_mtime_ns)
            assert (points[1] / f"copied{year}").stat().st_mtime_ns == kept
        finally:
            if mounted:
                subprocess.run(["umount", local], check=True, timeout=60)


def test_attributes_are_those_of_users_up_to_64_kib(points: list[Path]) -> None:
    path = points[0] / "attributes"
    path.touch()
    for name in ("trusted.a", "system.posix_acl_access", "other"):
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EOPNOTSUPP):
            os.setxattr(path, name, b"value")
    os.setxattr(path, "user.long", bytes(60_000))
    assert os.getxattr(points[1] / "attributes", "user.long") == bytes(60_000)
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
        os.setxattr(path, "user.more", bytes(6000))


def test_names_are_any_bytes_up_to_255(points: list[Path]) -> None:
    folder = os.fsencode(points[0] / "names")
    Path(os.fsdecode(folder)).mkdir()
    names = {b"\xff\xfe", b" ", b"\n", b"*?\\", b"x" * 255}
    for name in names:
        os.close(os.open(folder + b"/" + name, os.O_CREAT))
    assert set(os.listdir(os.fsencode(points[1] / "names"))) == names  # noqa: PTH208
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENAMETOOLONG):
        os.close(os.open(folder + b"/" + b"x" * 256, os.O_CREAT))


def test_the_current_folder_of_a_program_may_be_removed_elsewhere(points: list[Path]) -> None:
    (points[0] / "current").mkdir()
    program = "import os, sys; print(flush=True); sys.stdin.read(); os.stat('.'); os.listdir('.')"
    argv = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with started(argv, cwd=points[0] / "current", stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert limited(piped(process.stdout).readline) == "\n"
        (points[1] / "current").rmdir()
        _, said = process.communicate("", timeout=60)
    assert "Stale file handle" in said


def test_a_pipe_connects_programs_and_a_device_does_not_open(points: list[Path]) -> None:
    os.mkfifo(points[0] / "pipe")
    reader = subprocess.Popen(["cat", points[0] / "pipe"], stdout=subprocess.PIPE)
    (points[0] / "pipe").write_bytes(b"through")
    assert reader.communicate(timeout=60)[0] == b"through"
    if ROOT:
        os.mknod(points[0] / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        assert (points[1] / "null").stat().st_rdev == os.makedev(1, 3)
        with pytest.raises(PermissionError):
            (points[0] / "null").read_bytes()


@pytest.mark.skipif(not ROOT, reason="needs root, to be other users")
def test_a_program_that_may_not_be_read_runs(points: list[Path]) -> None:
    program = points[0] / "program"
    shutil.copy("/bin/true", program)
    program.chmod(0o711)
    for words, code in (([str(program)], 0), (["cat", str(program)], 1)):
        done = subprocess.run(words, user=4711, group=4712, extra_groups=[], capture_output=True, timeout=60)
        assert done.returncode == code


@pytest.mark.skipif(not ROOT, reason="needs root, to be other users")
def test_supplementary_groups_count(points: list[Path]) -> None:
    path = points[0] / "groups"
    path.write_text("for the group")
    os.chown(path, 0, 5000)
    path.chmod(0o640)
    for groups, code in (([5000], 0), ([5001], 1)):
        done = subprocess.run(
            ["cat", path], user=4711, group=4712, extra_groups=groups, capture_output=True, timeout=60
        )
        assert done.returncode == code


def claim_to_be_root(address: Address, key: bytes) -> str:
    """What a client gets that says that it is root, and makes each request for root."""
    root, who = Caller(0, 0), replace(identify(), uid=0, gid=0)
    client = Client([address], key, who=who, patience=5)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: client.stat("/private/secret"),
        lambda: client.open_status("/private/secret", caller=root),
        lambda: client.unlink("/private/secret", caller=root),
        lambda: client.chmod("/private", 0o777),
        lambda: client.open("/readable", os.O_WRONLY),
        lambda: client.open("/readable").pwrite(b"changed", 0),
        lambda: client.truncate("/readable", 0),
    )
    outcomes = []
    for attempt in attempts:
        try:
            attempt()
            outcomes.append("done")
        except OSError as error:
            outcomes.append(errno.errorcode[error.errno or 0])
    client.open("/mine", os.O_CREAT, 0o600).close()
    return " ".join((*outcomes, client.open("/readable").pread(100, 0).decode(), str(client.stat("/mine").uid)))


def run_as(user: int, group: int, work: Callable[[], str]) -> str:
    """What `work` returns in a child process of this user, which need not be able to read the interpreter."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    wait_until(lambda: os.waitpid(child, os.WNOHANG)[0], "the child has answered but does not end")
    return text


@pytest.mark.skipif(not ROOT, reason="needs root, to be other users")
def test_a_client_of_a_user_speaks_for_that_user_only(running: Layer, points: list[Path]) -> None:
    (points[0] / "private").mkdir(mode=0o700)
    (points[0] / "private/secret").write_text("secret")
    (points[0] / "readable").write_text("for all")
    (points[0] / "readable").chmod(0o644)
    points[0].chmod(0o1777)
    socket = Path(running.addresses[0].path)
    socket.chmod(0o777)
    outcomes = run_as(4711, 4712, lambda: claim_to_be_root(running.addresses[0], running.key))
    assert outcomes == "EACCES EACCES EACCES EPERM EACCES EBADF EACCES for all 4711"
    assert (points[0] / "readable").read_text() == "for all"
