"""What calls of programs become at the layer, without a kernel between (tests/system has one)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.filesystems.forebay_mount import LAYOUT, format_layout, parse_layout
from forebay.act.filesystems.settings import Settings, open_filesystem
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.mount.device import CantMount, check_mount_point
from forebay.act.forward.mount.file_system import Attributes, Change, User
from forebay.act.forward.mount.layer_files import LayerFiles
from forebay.act.forward.net.payloads import ROOT
from forebay.model.errors import BadInput
from forebay.model.layout import Layout
from support.forward import KEY, PretendLayer, pretend_layer
from support.processes import wait_until

__all__ = ["pretend_layer"]
ME = User(0, 0, os.getpid())
ALICE, BOB = User(4711, 4712, 0), User(4713, 4714, 0)
_LAYOUT = LAYOUT.encode()


class Mount:
    """Walks paths as a kernel does."""

    def __init__(self, layer: PretendLayer, groups: tuple[int, ...] = ()) -> None:
        self.client = Client(layer.addresses, KEY, patience=10)
        self.files = LayerFiles(self.client, lambda _: groups)

    def node(self, path: str, user: User = ME) -> int:
        node = ROOT
        for name in filter(None, path.split("/")):
            node = self.files.lookup(user, node, name.encode()).node
        return node

    def parent(self, path: str, user: User = ME) -> tuple[int, bytes]:
        above, _, name = path.rpartition("/")
        return self.node(above, user), name.encode()

    def attributes(self, path: str) -> Attributes:
        return self.files.getattr(ME, self.node(path))

    def open(self, path: str, flags: int, user: User = ME) -> int:
        return self.files.open(user, self.node(path), flags)

    def create(self, path: str, mode: int = 0o644, flags: int = os.O_WRONLY, user: User = ME) -> int:
        return self.files.create(user, *self.parent(path), flags, mode)[1]

    def change(self, path: str, user: User = ME, **values: int | bool) -> Attributes:
        return self.files.setattr(user, self.node(path), Change(**values))  # type: ignore[arg-type]

    def rename(self, path: str, to: str, flags: int = 0) -> None:
        self.files.rename(ME, *self.parent(path), *self.parent(to), flags)

    def mkdir(self, path: str, mode: int = 0o755, user: User = ME) -> None:
        self.files.mkdir(user, *self.parent(path), mode)


@pytest.fixture
def mount(pretend_layer: PretendLayer) -> Iterator[Mount]:
    mount = Mount(pretend_layer)
    yield mount
    mount.client.close()


def put(mount: Mount, path: str, data: bytes = b"", user: User = ME) -> None:
    handle = mount.create(path, 0o640, user=user)
    assert mount.files.write(mount.node(path), handle, memoryview(data), 0, False) == len(data)
    mount.files.release(handle)


def read(mount: Mount, path: str) -> bytes:
    handle = mount.open(path, os.O_RDONLY)
    room = memoryview(bytearray(1000))
    count = mount.files.read(handle, room, 0)
    mount.files.release(handle)
    return bytes(room[:count])


def names(mount: Mount, path: str) -> dict[str, int]:
    return {name.decode(): stat.S_IFMT(mode) for name, mode, _ in mount.files.readdir(ME, mount.node(path))}


def raises(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


def test_what_was_written_is_read_back(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    assert read(mount, "/a") == b"hello"


def test_a_read_ends_with_the_file(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    handle = mount.open("/a", os.O_RDONLY)
    room = memoryview(bytearray(b"x" * 10))
    assert mount.files.read(handle, room, 3) == 2
    assert room.tobytes() == b"lo" + b"x" * 8
    assert mount.files.read(handle, room, 5) == 0


def test_opening_with_truncation_empties_a_file(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    mount.files.release(mount.open("/a", os.O_WRONLY | os.O_TRUNC))
    assert read(mount, "/a") == b""


def test_creating_exclusively_refuses_a_name_that_is_there(mount: Mount) -> None:
    put(mount, "/a")
    with raises(errno.EEXIST):
        mount.create("/a", 0o644, os.O_WRONLY | os.O_EXCL)


def test_attributes_are_those_of_the_file(mount: Mount) -> None:
    put(mount, "/a", b"x" * 1000)
    known = mount.attributes("/a")
    assert (known.size, known.links) == (1000, 1) and 1024 <= known.allocated <= 131072
    assert known.mode == stat.S_IFREG | 0o640
    assert known.uid == ME.uid


def test_a_folder_lists_its_names_with_their_kinds(mount: Mount) -> None:
    mount.mkdir("/d", 0o700)
    mount.mkdir("/d/e")
    put(mount, "/d/f")
    mount.files.symlink(ME, *mount.parent("/d/l"), b"f")
    assert names(mount, "/d") == {"e": stat.S_IFDIR, "f": stat.S_IFREG, "l": stat.S_IFLNK}
    assert mount.attributes("/d").mode == stat.S_IFDIR | 0o700


def test_names_change_and_go(mount: Mount) -> None:
    mount.mkdir("/d")
    put(mount, "/a", b"1")
    put(mount, "/b", b"2")
    mount.rename("/a", "/d/c")
    mount.files.unlink(ME, ROOT, b"b")
    assert set(names(mount, "/")) == {"d"}
    with raises(errno.ENOTEMPTY):
        mount.files.rmdir(ME, ROOT, b"d")
    mount.files.unlink(ME, mount.node("/d"), b"c")
    mount.files.rmdir(ME, ROOT, b"d")
    assert names(mount, "/") == {}


def test_two_names_are_exchanged_and_a_third_is_kept(mount: Mount) -> None:
    for name in ("/a", "/b", "/c"):
        put(mount, name, name.encode())
    mount.rename("/a", "/b", 2)
    with raises(errno.EEXIST):
        mount.rename("/a", "/c", 1)
    assert [read(mount, name) for name in ("/a", "/b", "/c")] == [b"/b", b"/a", b"/c"]
    with raises(errno.EINVAL):
        mount.rename("/a", "/b", 4)


def test_links_are_other_names_and_paths(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    assert mount.files.link(ME, mount.node("/a"), ROOT, b"b").links == 2
    assert mount.node("/a") == mount.node("/b")
    mount.files.unlink(ME, ROOT, b"a")
    assert (read(mount, "/b"), mount.attributes("/b").links) == (b"hello", 1)
    made = mount.files.symlink(ME, ROOT, b"l", b"../elsewhere")
    assert mount.files.readlink(ME, made.node) == b"../elsewhere"
    assert (stat.S_ISLNK(made.mode), mount.attributes("/l").size) == (True, 12)
    with raises(errno.EINVAL):
        mount.files.readlink(ME, mount.node("/b"))


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFREG])
def test_pipes_sockets_and_devices_are_names(mount: Mount, kind: int) -> None:
    made = mount.files.mknod(ME, ROOT, b"a", kind | 0o600, os.makedev(8, 300))
    assert (made.mode, made.device) == (kind | 0o600, os.makedev(8, 300))
    assert names(mount, "/") == {"a": kind}


def test_truncation_with_and_without_an_open_file(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    assert mount.change("/a", size=3).size == 3
    assert read(mount, "/a") == b"hel"
    handle = mount.open("/a", os.O_RDWR)
    assert mount.change("/a", size=5, handle=handle).size == 5
    assert read(mount, "/a") == b"hel\0\0"


def test_mode_and_times_are_kept(mount: Mount) -> None:
    put(mount, "/a")
    mount.change("/a", mode=0o600, atime=5, mtime=1_600_000_000_000_000_007)
    known = mount.attributes("/a")
    assert (known.mode & 0o7777, known.atime, known.mtime) == (0o600, 5, 1_600_000_000_000_000_007)
    mount.change("/a", mtime=-7)
    assert (mount.attributes("/a").atime, mount.attributes("/a").mtime) == (5, -7)


def test_a_hole_takes_no_room(mount: Mount) -> None:
    put(mount, "/sparse")
    mount.change("/sparse", size=10 << 30)
    handle = mount.open("/sparse", os.O_WRONLY)
    mount.files.write(mount.node("/sparse"), handle, memoryview(b"x" * 4096), 5 << 30, False)
    known = mount.attributes("/sparse")
    assert known.size == 10 << 30 and 4096 <= known.allocated <= 1 << 20
    put(mount, "/full", bytes(1 << 20))
    assert mount.attributes("/full").allocated >= 1 << 20


def test_space_is_allocated_and_given_back(mount: Mount) -> None:
    put(mount, "/a")
    handle = mount.open("/a", os.O_RDWR)
    mount.files.allocate(handle, 0, 1 << 20, 0)
    assert (mount.attributes("/a").size, mount.attributes("/a").allocated >= 1 << 20) == (1 << 20, True)
    mount.files.allocate(handle, 0, 1 << 20, 3)  # make a hole
    assert (mount.attributes("/a").size, mount.attributes("/a").allocated) == (1 << 20, 0)
    with raises(errno.EOPNOTSUPP):
        mount.files.allocate(handle, 0, 4096, 8)  # remove bytes from the middle


@pytest.mark.parametrize("path", ["/a", "/d"])
@pytest.mark.parametrize("change", ["chmod", "utimens", "rename", "link"])
def test_whatever_changes_is_seen_in_the_time_of_the_last_change(mount: Mount, path: str, change: str) -> None:
    put(mount, "/a")
    mount.mkdir("/d")
    before = mount.attributes(path)
    if change == "chmod":
        mount.change(path, mode=0o700)
    elif change == "utimens":
        mount.change(path, atime=7, mtime=7)
    elif change == "rename":
        mount.rename(path, f"{path}-new")
        mount.rename(f"{path}-new", path)
    elif path == "/a":
        mount.files.link(ME, before.node, ROOT, b"b")
    else:
        put(mount, "/d/b")
    after = mount.attributes(path)
    assert after.ctime > before.ctime
    if change != "link":
        assert after.mtime == (7 if change == "utimens" else before.mtime)


def test_a_read_is_seen_in_the_time_of_access_and_a_write_is_not(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    mount.change("/a", atime=7)
    assert mount.attributes("/a").atime == 7

    def is_later() -> bool:
        """The servers' file systems set the time only if the last change is later than the last read."""
        put(mount, "/b", b"x")
        mount.change("/b", atime=7)
        assert mount.attributes("/b").atime == 7
        read(mount, "/b")
        return mount.attributes("/b").atime > 7

    wait_until(is_later, "the time of access does not change")


@pytest.mark.parametrize(("mode", "left"), [(0o6755, 0o755), (0o4755, 0o755), (0o2644, 0o2644), (0o755, 0o755)])
@pytest.mark.parametrize("how", ["write", "truncate", "chown"])
def test_set_id_bits_are_cleared_when_the_content_or_the_owner_changes(
    mount: Mount, mode: int, left: int, how: str
) -> None:
    put(mount, "/a", b"hello")
    mount.change("/a", mode=mode)
    handle = mount.open("/a", os.O_WRONLY)
    if how == "write":
        mount.files.write(mount.node("/a"), handle, memoryview(b"J"), 0, False)
        assert mount.attributes("/a").mode & 0o7777 == mode  # by root
        mount.files.write(mount.node("/a"), handle, memoryview(b"J"), 0, True)
    elif how == "truncate":
        mount.change("/a", size=1, clear=True)
    else:
        mount.change("/a", uid=5)
    assert mount.attributes("/a").mode & 0o7777 == left


def test_users_have_files_of_their_own(mount: Mount) -> None:
    mount.change("/", mode=0o1777)
    put(mount, "/a", b"hello", ALICE)
    mount.change("/a", ALICE, mode=0o600)
    known = mount.attributes("/a")
    assert (known.uid, known.gid) == (ALICE.uid, ALICE.gid)
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        with raises(errno.EACCES):
            mount.open("/a", flags, BOB)
    for change in ({"mode": 0o666}, {"uid": BOB.uid}, {"atime": 7, "mtime": 7}):
        with raises(errno.EPERM):
            mount.change("/a", BOB, **change)
    with raises(errno.EACCES):
        mount.change("/a", BOB, atime_now=True, mtime_now=True)
    with raises(errno.EPERM):
        mount.files.unlink(BOB, ROOT, b"a")  # the folder's sticky bit
    with raises(errno.EACCES):
        mount.files.setxattr(BOB, mount.node("/a"), b"user.a", b"", 0)
    mount.change("/a", uid=BOB.uid)
    mount.files.release(mount.open("/a", os.O_RDWR, BOB))


def test_groups_count_though_a_request_names_them_only_if_it_is_refused(pretend_layer: PretendLayer) -> None:
    mount = Mount(pretend_layer, groups=(77,))
    put(mount, "/a")
    mount.change("/a", gid=77, mode=0o060)
    mount.files.release(mount.open("/a", os.O_RDWR, ALICE))
    mount.change("/a", uid=ALICE.uid)
    mount.change("/a", ALICE, mode=0o2670)
    assert mount.attributes("/a").mode & 0o7777 == 0o2670
    mount.change("/a", ALICE, gid=77)
    with raises(errno.EPERM):
        mount.change("/a", ALICE, gid=78)
    mount.client.close()


def test_a_folders_group_is_passed_on(mount: Mount) -> None:
    mount.mkdir("/d", 0o2777)
    mount.change("/d", gid=99)
    mount.mkdir("/d/e", 0o700, ALICE)
    put(mount, "/d/f", user=ALICE)
    assert [mount.attributes(path).gid for path in ("/d/e", "/d/f")] == [99, 99]
    assert mount.attributes("/d/e").mode == stat.S_IFDIR | 0o2700


def test_files_of_nobody_belong_to_who_mounts(mount: Mount) -> None:
    assert (mount.attributes("/").uid, mount.attributes("/").gid) == (os.getuid(), os.getgid())


def test_a_file_that_is_open_outlives_its_name(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    node, handle = mount.node("/a"), mount.open("/a", os.O_RDWR)
    mount.files.unlink(ME, ROOT, b"a")
    room = memoryview(bytearray(9))
    assert mount.files.read(handle, room, 0) == 5
    assert mount.files.getattr(ME, node).links == 0
    with raises(errno.ENOENT):
        mount.files.lookup(ME, ROOT, b"a")


def test_extended_attributes_are_kept_and_follow_the_flags_of_the_system(mount: Mount) -> None:
    put(mount, "/a")
    files, node = mount.files, mount.node("/a")
    files.setxattr(ME, node, b"user.colour", b"red", 0)
    files.setxattr(ME, node, b"user.empty", b"", os.XATTR_CREATE)
    assert files.getxattr(ME, node, b"user.colour") == b"red"
    assert list(files.listxattr(ME, node)) == [b"user.colour", b"user.empty"]
    with raises(errno.EEXIST):
        files.setxattr(ME, node, b"user.colour", b"blue", os.XATTR_CREATE)
    with raises(errno.ENODATA):
        files.setxattr(ME, node, b"user.none", b"", os.XATTR_REPLACE)
    files.removexattr(ME, node, b"user.colour")
    with raises(errno.ENODATA):
        files.getxattr(ME, node, b"user.colour")
    with raises(errno.ENODATA):
        files.removexattr(ME, node, b"user.colour")
    with raises(errno.ENOSPC):
        files.setxattr(ME, node, b"user.large", bytes(65536), 0)
    mount.rename("/a", "/b")
    assert list(files.listxattr(ME, node)) == [b"user.empty"]


def test_a_folders_layout_is_an_attribute_that_its_new_files_get(mount: Mount) -> None:
    mount.mkdir("/d")
    mount.files.setxattr(ME, mount.node("/d"), _LAYOUT, b"count=1 size=128KiB start=0", 0)
    put(mount, "/d/f")
    assert mount.files.getxattr(ME, mount.node("/d"), _LAYOUT) == b"count=1 size=131072 start=0"
    assert mount.files.getxattr(ME, mount.node("/d/f"), _LAYOUT) == b"count=1 size=131072 start=0"
    assert list(mount.files.listxattr(ME, mount.node("/d"))) == []


@pytest.mark.parametrize("text", [b"", b"4", b"count=0", b"count=2 size=1000", b"count=x", b"count=1 colour=red"])
def test_an_impossible_layout_is_refused(mount: Mount, text: bytes) -> None:
    with raises(errno.EINVAL):
        mount.files.setxattr(ME, ROOT, _LAYOUT, text, 0)


def test_attributes_of_the_system_are_not_there(mount: Mount) -> None:
    with raises(errno.ENODATA):
        mount.files.getxattr(ME, ROOT, b"security.capability")
    for name in (b"trusted.a", b"system.posix_acl_access"):
        with raises(errno.EOPNOTSUPP):
            mount.files.getxattr(ME, ROOT, name)
        with raises(errno.EOPNOTSUPP):
            mount.files.setxattr(ME, ROOT, name, b"red", 0)
    with raises(errno.EPERM):
        mount.files.removexattr(ME, ROOT, _LAYOUT)
    mount.files.mknod(ME, ROOT, b"p", stat.S_IFIFO | 0o666, 0)
    with raises(errno.EPERM):  # only files and folders have any
        mount.files.setxattr(ME, mount.node("/p"), b"user.a", b"", 0)


def test_space_is_that_of_the_servers(mount: Mount) -> None:
    assert (mount.files.statfs().available, mount.files.statfs().files) == (3, 2)


def test_errors_have_the_number_that_the_program_expects(mount: Mount) -> None:
    put(mount, "/file")
    with raises(errno.ENOENT):
        mount.open("/nothing", os.O_RDONLY)
    with raises(errno.ENOTDIR):
        mount.create("/file/a")
    with raises(errno.ENAMETOOLONG):
        mount.create("/" + "a" * 256)
    with raises(errno.ESTALE):
        mount.files.getattr(ME, 4711)
    mount.files.symlink(ME, ROOT, b"l", b"file")
    with raises(errno.ELOOP):
        mount.open("/l", os.O_RDONLY)


@pytest.mark.parametrize("layout", [Layout(count=1), Layout(count=300, size=1 << 30, start=7)])
def test_a_layout_is_read_as_it_is_written(layout: Layout) -> None:
    assert parse_layout(format_layout(layout)) == layout


def test_a_layer_is_a_file_system_whose_targets_have_to_be_told(tmp_path: Path) -> None:
    assert len(open_filesystem(Settings(kind="forebay", targets=4)).targets()) == 4
    with pytest.raises(BadInput, match="set `targets` to the number of data servers"):
        open_filesystem(Settings(kind="forebay", mount=tmp_path)).targets()
    with pytest.raises(BadInput, match="is not in a mounted forwarding layer"):
        open_filesystem(Settings(kind="forebay", targets=4)).layout(tmp_path)


def test_a_mount_point_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CantMount, match="no such folder"):
        check_mount_point(tmp_path / "missing")
    with pytest.raises(CantMount, match="not a folder"):
        check_mount_point(tmp_path / "file")


def test_a_mount_point_is_used_once() -> None:
    with pytest.raises(CantMount, match="/proc: something is already mounted there"):
        check_mount_point(Path("/proc"))
