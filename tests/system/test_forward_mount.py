"""Programs that know nothing of the layer, on its mount: fio, dd, cp, tar, git, python."""

import errno
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.advice import JobRequest, advise
from forebay.act.filesystems.forebay_mount import LAYOUT
from forebay.act.filesystems.settings import Settings, open_filesystem
from forebay.act.forward.net.wire import Kind
from forebay.decide.registry import find
from forebay.history.store import open_store
from forebay.model.layout import Layout
from support.fio import fio, needs_fio, needs_fuse
from support.forward import KEY, PretendLayer, pretend_layer
from support.forward_processes import Layer, Part, layer, start, unmount
from support.processes import limited, piped, started

__all__ = ["pretend_layer"]
STRIPE = 64 << 10  # of the layers that tests start
SOURCE = Path(__file__).parents[2] / "src/forebay/decide"


@pytest.fixture(scope="module")
def running() -> Iterator[Layer]:
    needs_fuse()
    with layer() as made:
        made.add_servers(4)
        made.add_nodes(1)
        start(*made.servers, *made.nodes)
        yield made


@pytest.fixture(scope="module")
def point(running: Layer) -> Iterator[Path]:
    part, point = running.add_mount()
    part.start()
    yield point
    part.stop()
    assert not point.is_mount()


def run(*argv: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["write", "randwrite"])
def test_fio_finds_what_it_wrote(point: Path, how: str) -> None:
    needs_fio()
    folder = point / how
    folder.mkdir()
    sizes = "4k-600k" if how == "randwrite" else "256k"
    found = fio(folder, rw=how, bs=sizes, size="16m", numjobs=2, verify="crc32c", verify_fatal=1, end_fsync=1)
    assert found["write"]["io_bytes"] == found["read"]["io_bytes"] > 0


def test_a_request_of_a_mebibyte_arrives_whole(pretend_layer: PretendLayer, tmp_path: Path) -> None:
    """The I/O node has to see requests as programs make them."""
    needs_fuse()
    key, point = tmp_path / "key", tmp_path / "mnt"
    key.touch(0o600)
    key.write_bytes(KEY)
    point.mkdir()
    part = Part("mount", str(point), "--nodes", str(pretend_layer.addresses[0]), "--key", str(key))
    part.start()
    try:
        # Aligned memory: what begins within a page is a page too long.
        with (point / "large").open("w+b", buffering=0) as file, mmap.mmap(-1, 1 << 20) as data:
            assert os.pwritev(file.fileno(), [data], 0) == 1 << 20
            assert os.preadv(file.fileno(), [data], 0) == 1 << 20
    finally:
        part.stop()
    seen = pretend_layer.nodes[0].seen
    assert (seen.count(Kind.WRITE), seen.count(Kind.READ)) == (1, 1)


def test_dd_writes_and_appends(point: Path) -> None:
    run("dd", "if=/dev/urandom", f"of={point}/dd", "bs=1M", "count=3", "conv=fsync")
    before = (point / "dd").read_bytes()
    run("dd", "if=/dev/zero", f"of={point}/dd", "bs=1000", "count=3", "oflag=append", "conv=notrunc")
    assert (point / "dd").read_bytes() == before + bytes(3000)


def test_a_tree_is_copied_and_packed(point: Path) -> None:
    run("cp", "-r", SOURCE, point / "copy")
    run("diff", "-r", SOURCE, point / "copy")
    run("tar", "cf", point / "all.tar", "-C", point, "copy")
    (point / "unpack").mkdir()
    run("tar", "xf", point / "all.tar", "-C", point / "unpack")
    run("diff", "-r", SOURCE, point / "unpack/copy")
    run("rm", "-r", point / "unpack", point / "copy")
    assert not (point / "unpack").exists()


def test_git_works(point: Path) -> None:
    me = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    run("git", "init", "-q", point / "repository")
    (point / "repository/a").write_text("hello\n")
    run("git", "add", "a", cwd=point / "repository")
    run("git", *me, "commit", "-q", "-m", "first", cwd=point / "repository")
    run("git", "clone", "-q", point / "repository", point / "clone")
    assert (point / "clone/a").read_text() == "hello\n"
    assert "missing" not in run("git", "fsck", cwd=point / "clone")


def test_python_seeks_writes_truncates_and_reads(point: Path) -> None:
    path = point / "file"
    with path.open("w+b") as file:
        file.write(b"0123456789")
        file.seek(200_000)
        file.write(b"end")
        file.flush()
        file.seek(5)
        assert file.read(8) == b"56789\0\0\0"
        file.truncate(100_000)
        assert os.fstat(file.fileno()).st_size == 100_000
    assert path.read_bytes() == b"0123456789" + bytes(99_990)
    path.open("wb").close()
    assert path.stat().st_size == 0


def test_a_file_that_grows_by_whole_stripes_has_its_true_size_at_once(point: Path) -> None:
    path = point / "stripes"
    with path.open("wb", buffering=0) as file:
        for number in range(1, 7):
            file.write(bytes(STRIPE))
            assert os.fstat(file.fileno()).st_size == number * STRIPE
        file.write(b"x")
        assert os.fstat(file.fileno()).st_size == path.stat().st_size == 6 * STRIPE + 1


def test_attributes_are_kept(point: Path) -> None:
    path = point / "attributes"
    path.write_bytes(b"x" * 1000)
    path.chmod(0o600)
    os.utime(path, ns=(1, 1_577_836_800_000_000_000))
    found = path.stat()
    assert (found.st_mode & 0o7777, found.st_mtime_ns, found.st_size) == (0o600, 1_577_836_800_000_000_000, 1000)
    run("touch", "-a", path)
    assert path.stat().st_mtime_ns == 1_577_836_800_000_000_000
    path.rename(point / "renamed")
    assert (point / "renamed").stat().st_mtime_ns == 1_577_836_800_000_000_000
    assert not path.exists()


def test_du_counts_what_a_file_takes_on_the_servers(point: Path) -> None:
    with (point / "sparse").open("wb") as file:
        file.truncate(10 << 30)
        file.seek(5 << 30)
        file.write(b"x")
    (point / "full").write_bytes(os.urandom(1 << 20))
    assert int(run("du", "-k", "--apparent-size", point / "sparse").split()[0]) == 10 << 20
    assert int(run("du", "-k", point / "sparse").split()[0]) < 1024 <= int(run("du", "-k", point / "full").split()[0])


def test_a_file_that_is_open_outlives_its_name(point: Path) -> None:
    path = point / "temporary"
    with path.open("w+b") as file:
        file.write(b"still here")
        file.flush()
        path.unlink()
        file.seek(0)
        assert file.read() == b"still here"


_APPEND = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for number in range(200):
    os.write(file, f"{sys.argv[2]} {number:05}\\n".encode())
"""


def test_two_processes_append_without_losing_a_line(point: Path) -> None:
    path = point / "log"
    processes = [subprocess.Popen([sys.executable, "-c", _APPEND, str(path), name]) for name in "ab"]
    assert [process.wait(120) for process in processes] == [0, 0]
    lines = path.read_text().splitlines()
    for name in "ab":
        assert [line for line in lines if line[0] == name] == [f"{name} {number:05}" for number in range(200)]
    assert len(lines) == 400


def test_a_file_is_mapped_privately(point: Path) -> None:
    data = os.urandom(300_000)
    (point / "mapped").write_bytes(data)
    with (
        (point / "mapped").open("rb") as file,
        mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as mapped,
    ):
        assert mapped[:] == data


def test_what_one_mount_changes_another_sees_at_once(running: Layer, point: Path) -> None:
    part, other = running.add_mount("other")
    part.start()
    try:
        (point / "both").write_bytes(b"first")
        assert (other / "both").read_bytes() == b"first"
        (point / "both").write_bytes(b"second, longer")
        assert (other / "both").read_bytes() == b"second, longer"
        (other / "both").unlink()
        assert not (point / "both").exists()
    finally:
        part.stop()


def test_a_folders_layout_is_set_through_the_mount(point: Path) -> None:
    folder = point / "striped"
    folder.mkdir()
    os.setxattr(folder, LAYOUT, b"count=2 size=128KiB start=1")
    (folder / "new").touch()
    assert os.getxattr(folder / "new", LAYOUT) == b"count=2 size=131072 start=1"
    with pytest.raises(OSError, check=lambda error: error.errno == errno.EINVAL):
        os.setxattr(folder, LAYOUT, b"count=0")


def test_the_advisor_puts_a_layout_on_a_mounted_folder(point: Path, tmp_path: Path) -> None:
    folder = point / "advised"
    folder.mkdir()
    files = open_filesystem(Settings(kind="forebay", mount=point, targets=4))
    with open_store(f"sqlite:///{tmp_path / 'history.db'}") as store:
        asked = JobRequest(app="a.out", nprocs=4, now=1e9, chance=0.5)
        advice = advise(store, asked, find("stripe", "forebay"), files, files.targets(), apply_to=folder)
    assert advice.outcome == "applied"
    assert files.layout(folder) == advice.layout
    assert isinstance(advice.layout, Layout)


PRIVATE = """
umask 077 && cd "$0"
echo a > mine && echo b >> mine && cat mine && chmod 640 mine && mkdir folder && echo c > folder/f && cat folder/f
stat -c '%U %u %a' mine
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
@pytest.mark.parametrize("backend", ["data servers", "a folder"])
def test_everybody_has_files_of_their_own(backend: str) -> None:
    needs_fuse()
    with layer() as made:
        made.folder.chmod(0o711)
        if backend == "data servers":
            made.add_servers(2)
            made.add_nodes(1)
        else:
            (made.folder / "root").mkdir()
            made.add_nodes(1, "--root", str(made.folder / "root"))
        start(*made.servers, *made.nodes)
        part, point = made.add_mount("mnt", "--everybody")
        part.start()
        point.chmod(0o1777)
        argv = ["/bin/sh", "-ec", PRIVATE, str(point)]
        done = subprocess.run(
            argv, user=12345, group=12345, extra_groups=[], capture_output=True, text=True, timeout=60
        )
        assert (done.stderr, done.stdout.splitlines()) == ("", ["a", "b", "c", "UNKNOWN 12345 640"])
        for words in ("cat mine", "echo x >> mine", "chmod 777 mine", "rm -f mine", "ls folder"):
            argv = ["/bin/sh", "-c", f'cd "$0" && {words}', str(point)]
            other = subprocess.run(argv, user=23456, group=23456, extra_groups=[], capture_output=True, timeout=60)
            assert other.returncode != 0, words
        os.chown(point / "mine", 23456, -1)
        found = (point / "mine").stat()
        assert (found.st_uid, found.st_gid, (point / "mine").read_text()) == (23456, 12345, "a\nb\n")


def test_a_mount_ends_with_a_signal_or_when_it_is_unmounted(running: Layer) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        part, point = running.add_mount("short")
        part.start()
        assert point.is_mount()
        assert part.end(number) == 0
        assert not point.is_mount()
    part.start()
    unmount(point)
    assert part.end(0) == 0


def test_the_mount_point_of_a_dead_process_is_told_of(running: Layer) -> None:
    part, point = running.add_mount("dead")
    part.start()
    part.kill()
    argv = [sys.executable, "-m", "forebay", "forward", "mount", point, "--nodes", running.addresses[0]]
    again = subprocess.run([*map(str, argv), "--key", running.key_file], capture_output=True, text=True, timeout=120)
    unmount(point)
    assert again.returncode == 2
    assert "the process that mounted this folder is gone; unmount it first: fusermount3 -u" in again.stderr


def test_a_mount_in_the_background_is_there_when_the_command_ends(running: Layer) -> None:
    point = running.folder / "behind"
    point.mkdir()
    nodes = ",".join(map(str, running.addresses))
    run(sys.executable, "-m", "forebay", "forward", "mount", point, "--nodes", nodes, "--key", running.key_file,
        "--daemon")  # fmt: skip
    (point / "behind").write_bytes(b"here")
    unmount(point)
    with running.client() as client, client.open("/behind") as file:
        assert file.pread(10, 0) == b"here"


def test_a_wrong_key_is_told_of_before_anything_is_mounted(running: Layer, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text("not the key of this layer at all")
    words = ("mount", tmp_path, "--nodes", running.addresses[0], "--key", key)
    argv = [sys.executable, "-m", "forebay", "forward", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "check the key" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_mount_waits_for_an_io_node_that_starts_later(running: Layer) -> None:
    late = running.folder / "late.sock"
    point = running.folder / "early"
    point.mkdir()
    words = ("forward", "mount", point, "--nodes", f"unix:{late}", "--key", running.key_file, "--daemon")
    argv = [sys.executable, "-m", "forebay", *map(str, words)]
    with started(argv, stderr=subprocess.PIPE, text=True) as mounting:
        assert limited(piped(mounting.stderr).readline).endswith(
            "no such file or directory (gave up after 3 s); trying for another 27 s\n"
        )
        late.symlink_to(str(running.addresses[0]).removeprefix("unix:"))
        assert mounting.wait(timeout=120) == 0
    (point / "early").write_bytes(b"here")
    unmount(point)


NO_FUSE = 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"'


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a /dev of its own")
def test_a_node_without_fuse_says_what_to_do(running: Layer, tmp_path: Path) -> None:
    words = ("forward", "mount", tmp_path, "--nodes", running.addresses[0], "--key", running.key_file)
    argv = ["unshare", "--mount", "sh", "-c", NO_FUSE, "sh", sys.executable, "-m", "forebay", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "/dev/fuse is missing or not accessible; load the kernel's FUSE module: modprobe fuse" in done.stderr
    assert len(done.stderr.splitlines()) == 1
