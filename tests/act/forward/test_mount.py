"""What calls of programs become at the layer, without a kernel between (tests/system has one)."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.filesystems.forebay_mount import LAYOUT, format_layout, parse_layout
from forebay.act.filesystems.settings import Settings, open_filesystem
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.mount import CantMount, Mount, check_mount_point
from forebay.model.errors import BadInput
from forebay.model.layout import Layout
from support.forward import KEY, PretendLayer, pretend_layer
from support.processes import wait_until

__all__ = ["pretend_layer"]


@pytest.fixture
def mount(pretend_layer: PretendLayer) -> Iterator[Mount]:
    mount = Mount(Client(pretend_layer.addresses, KEY, patience=10), lambda: None)
    yield mount
    mount.destroy("/")


def put(mount: Mount, path: str, data: bytes = b"") -> None:
    handle = mount.create(path, stat.S_IFREG | 0o640, os.O_WRONLY)
    assert mount.write(handle, memoryview(data), 0) == len(data)
    mount.release(None, handle)


def got(mount: Mount, path: str) -> bytes:
    handle = mount.open(path, os.O_RDONLY)
    room = memoryview(bytearray(1000))
    count = mount.read(handle, room, 0)
    mount.release(None, handle)
    return bytes(room[:count])


def names(mount: Mount, path: str) -> dict[str, int]:
    handle = mount.opendir(path)
    found = {name: kind for name, kind, _ in mount.readdir(None, handle)}
    mount.releasedir(None, handle)
    return found


def raises(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


def test_what_was_written_is_read_back(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    assert got(mount, "/a") == b"hello"


def test_a_read_ends_with_the_file(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    handle = mount.open("/a", os.O_RDONLY)
    room = memoryview(bytearray(b"x" * 10))
    assert mount.read(handle, room, 3) == 2
    assert room.tobytes() == b"lo" + b"x" * 8
    assert mount.read(handle, room, 5) == 0


def test_opening_with_truncation_empties_a_file(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    mount.release(None, mount.open("/a", os.O_WRONLY | os.O_TRUNC))
    assert got(mount, "/a") == b""


def test_creating_exclusively_refuses_a_name_that_is_there(mount: Mount) -> None:
    put(mount, "/a")
    with raises(errno.EEXIST):
        mount.create("/a", 0o644, os.O_WRONLY | os.O_EXCL)


def test_attributes_by_path_and_by_handle_are_the_same(mount: Mount) -> None:
    put(mount, "/a", b"x" * 1000)
    handle = mount.open("/a", os.O_RDONLY)
    found = mount.getattr("/a", None)
    assert found == mount.getattr(None, handle)
    assert (found["st_size"], found["st_nlink"]) == (1000, 1) and 2 <= found["st_blocks"] <= 256
    assert found["st_mode"] == stat.S_IFREG | 0o640
    assert found["st_uid"] == os.getuid()


def test_a_folder_lists_its_names_with_their_kinds(mount: Mount) -> None:
    mount.mkdir("/d", stat.S_IFDIR | 0o700)
    mount.mkdir("/d/e", 0o755)
    put(mount, "/d/f")
    folder = stat.S_IFDIR
    assert names(mount, "/d") == {".": folder, "..": folder, "e": folder, "f": stat.S_IFREG}
    assert mount.getattr("/d", None)["st_mode"] == folder | 0o700


def test_names_change_and_go(mount: Mount) -> None:
    mount.mkdir("/d", 0o755)
    put(mount, "/a", b"1")
    put(mount, "/b", b"2")
    mount.rename("/a", "/d/c")
    mount.unlink("/b")
    assert set(names(mount, "/")) == {".", "..", "d"}
    with raises(errno.ENOTEMPTY):
        mount.rmdir("/d")
    mount.unlink("/d/c")
    mount.rmdir("/d")
    assert set(names(mount, "/")) == {".", ".."}


def test_truncation_by_path_and_by_handle(mount: Mount) -> None:
    put(mount, "/a", b"hello")
    mount.truncate("/a", 3, None)
    assert got(mount, "/a") == b"hel"
    handle = mount.open("/a", os.O_RDWR)
    mount.truncate(None, 5, handle)
    assert got(mount, "/a") == b"hel\0\0"


def test_mode_and_time_are_kept(mount: Mount) -> None:
    put(mount, "/a")
    mount.chmod("/a", stat.S_IFREG | 0o600, None)
    mount.utimens("/a", (5, 1_600_000_000_000_000_007), None)
    found = mount.getattr("/a", None)
    assert (found["st_mode"] & 0o7777, found["st_mtime"]) == (0o600, 1_600_000_000_000_000_007)


def test_a_hole_takes_no_room(mount: Mount) -> None:
    put(mount, "/sparse")
    mount.truncate("/sparse", 10 << 30, None)
    handle = mount.open("/sparse", os.O_WRONLY)
    mount.write(handle, memoryview(b"x" * 4096), 5 << 30)
    found = mount.getattr("/sparse", None)
    assert found["st_size"] == 10 << 30 and 8 <= found["st_blocks"] <= 2048
    put(mount, "/full", bytes(1 << 20))
    assert mount.getattr("/full", None)["st_blocks"] >= 2048


@pytest.mark.parametrize("path", ["/a", "/d"])
@pytest.mark.parametrize("change", ["chmod", "utimens", "rename"])
def test_whatever_changes_is_seen_in_the_time_of_the_last_change(mount: Mount, path: str, change: str) -> None:
    put(mount, "/a")
    mount.mkdir("/d", 0o755)
    before = mount.getattr(path, None)

    def is_later() -> bool:
        """The system's clock for files goes in steps of some milliseconds."""
        if change == "chmod":
            mount.chmod(path, 0o700, None)
        elif change == "utimens":
            mount.utimens(path, (7, 7), None)
        else:
            mount.rename(path, f"{path}-new")
            mount.rename(f"{path}-new", path)
        return int(mount.getattr(path, None)["st_ctime"]) > int(before["st_ctime"])

    wait_until(is_later, f"{change} does not change the time")
    mtime = 7 if change == "utimens" else before["st_mtime"]
    assert mount.getattr(path, None)["st_mtime"] == mtime


def test_times_that_are_to_be_left_alone_are(mount: Mount) -> None:
    put(mount, "/a")
    mount.utimens("/a", (None, 77), None)
    handle = mount.open("/a", os.O_RDONLY)
    mount.utimens(None, (88, None), handle)
    mount.chmod(None, 0o400, handle)
    assert mount.getattr("/a", None)["st_mtime"] == 77
    assert mount.getattr("/a", None)["st_mode"] == stat.S_IFREG | 0o400


@pytest.mark.parametrize(("owner", "fine"), [((-1, -1), True), ((os.getuid(), os.getgid()), True), ((4711, -1), False)])
def test_files_belong_to_who_mounts(mount: Mount, owner: tuple[int, int], fine: bool) -> None:
    put(mount, "/a")
    if fine:
        mount.chown("/a", *owner, None)
        status = mount.getattr("/a", None)
        assert (status["st_uid"], status["st_gid"]) == (os.getuid(), os.getgid())
    else:
        with raises(errno.EPERM):
            mount.chown("/a", *owner, None)


def test_where_everybody_may_use_it_files_belong_to_who_makes_them(mount: Mount, pretend_layer: PretendLayer) -> None:
    put(mount, "/before")
    client = Client(pretend_layer.addresses, KEY, patience=10)
    client.open("/nobodys", os.O_CREAT).close()
    shared = Mount(client, lambda: None, lambda: (4711, 4712))

    def owner(path: str, seen: Mount = shared) -> tuple[int, int]:
        found = seen.getattr(path, None)
        return found["st_uid"], found["st_gid"]

    mine = os.getuid(), os.getgid()
    put(shared, "/a")
    shared.mkdir("/d", 0o2770)
    shared.chown("/d", -1, 99, None)
    shared.mkdir("/d/e", 0o700)
    assert (owner("/a"), owner("/d"), owner("/d/e")) == ((4711, 4712), (4711, 99), (4711, 99))
    assert shared.getattr("/d/e", None)["st_mode"] == stat.S_IFDIR | 0o2700
    assert owner("/before") == owner("/nobodys") == owner("/") == mine
    handle = shared.open("/a", os.O_RDONLY)
    shared.chown(None, 77, -1, handle)
    assert owner("/a") == (77, 4712)
    assert owner("/a", mount) == owner("/d", mount) == mine  # as ever, where only one user has the mount
    shared.release(None, handle)
    shared.destroy("/")


def test_a_folders_layout_is_an_attribute_that_its_new_files_get(mount: Mount) -> None:
    mount.mkdir("/d", 0o755)
    mount.setxattr("/d", LAYOUT, b"count=1 size=128KiB start=0", 0)
    put(mount, "/d/f")
    assert mount.getxattr("/d", LAYOUT) == b"count=1 size=131072 start=0"
    assert mount.getxattr("/d/f", LAYOUT) == b"count=1 size=131072 start=0"
    assert list(mount.listxattr("/d")) == []


@pytest.mark.parametrize("text", [b"", b"4", b"count=0", b"count=2 size=1000", b"count=x", b"count=1 colour=red"])
def test_an_impossible_layout_is_refused(mount: Mount, text: bytes) -> None:
    with raises(errno.EINVAL):
        mount.setxattr("/", LAYOUT, text, 0)


def test_other_attributes_are_not_there(mount: Mount) -> None:
    with raises(errno.ENODATA):
        mount.getxattr("/", "security.capability")
    with raises(errno.EOPNOTSUPP):
        mount.setxattr("/", "user.colour", b"red", 0)
    with raises(errno.EPERM):
        mount.removexattr("/", LAYOUT)


def test_space_is_told_in_whole_blocks(mount: Mount) -> None:
    assert mount.statfs("/")["f_bavail"] == 3 // 4096
    assert mount.statfs("/")["f_files"] == 2


def test_errors_have_the_number_that_the_program_expects(mount: Mount) -> None:
    with raises(errno.ENOENT):
        mount.open("/nothing", os.O_RDONLY)
    with raises(errno.ENOENT):
        mount.getattr("/nothing", None)
    with raises(errno.ENOENT):
        mount.create("/no/folder", 0o644, os.O_WRONLY)
    with raises(errno.EBADF):
        mount.getattr(None, 4711)


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
