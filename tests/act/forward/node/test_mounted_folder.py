import errno
import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.forward.net.wire import Kind, unpack_as
from forebay.act.forward.node.file_places import places_finder
from forebay.act.forward.node.forwarded_folder import Folder
from forebay.act.forward.node.mounted_folder import MountedFolder
from forebay.model.errors import BadInput
from forebay.model.layout import Layout
from support.forward_nodes import STRIPE, Client, NodeThread, node_thread


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[NodeThread]:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").write_bytes(b"secret")
    with node_thread(tmp_path) as made:
        yield made


@pytest.fixture
def client(thread: NodeThread) -> Iterator[Client]:
    find = places_finder("given", 4, Layout(count=4, size=STRIPE, start=0))
    node = thread.node_over(
        lambda: MountedFolder(Folder(thread.folder / "root"), find, 4), scheduler="twins:window=100000"
    )
    with thread.client(node) as made:
        yield made


def test_bytes_are_those_of_the_mounted_file(thread: NodeThread, client: Client) -> None:
    chance, plain = random.Random(1), bytearray()
    file = client.open(b"f")
    for _ in range(60):
        offset, length = chance.randrange(8 * STRIPE), chance.choice((1, STRIPE, 3 * STRIPE + 5))
        if chance.random() < 0.5:
            data = chance.randbytes(length)
            assert client.write(file, offset, data).size == length
            plain.extend(bytes(max(0, offset - len(plain))))
            plain[offset : offset + length] = data
        else:
            assert client.read(file, offset, length).payload == plain[offset : offset + length]
    assert client.ask(Kind.FSYNC, file=file).status == 0
    assert (thread.folder / "root" / "f").read_bytes() == plain
    assert client.size(file) == len(plain)
    assert client.ask(Kind.TRUNCATE, file=file, offset=100).status == 0
    assert (thread.folder / "root" / "f").read_bytes() == plain[:100]


@pytest.mark.parametrize("path", [b"../outside", b"link", b"folder-link/outside", b"a/../../outside"])
def test_no_path_leads_out_of_the_folder(thread: NodeThread, client: Client, path: bytes) -> None:
    (thread.folder / "root" / "link").symlink_to(thread.folder / "outside")
    (thread.folder / "root" / "folder-link").symlink_to(thread.folder)
    words = {"path": path, "create": False, "exclusive": False, "mode": 0, "layout": None, "key": 0, "again": False}
    assert client.ask(Kind.OPEN, words=words).status in (errno.EINVAL, errno.ELOOP, errno.ENOTDIR)
    assert client.ask(Kind.SETATTR, words={"path": path, "mode": 0o777, "mtime": None}).status != 0
    assert client.ask(Kind.RENAME, words={"path": b"link", "to": b"../moved"}).status == errno.EINVAL
    assert sorted(path.name for path in thread.folder.iterdir()) == ["ion0", "outside", "root"]


def test_names_are_those_of_the_mounted_folder(thread: NodeThread, client: Client) -> None:
    root = thread.folder / "root"
    assert client.ask(Kind.MKDIR, words={"path": b"d", "mode": 0o700}).status == 0
    client.write(client.open(b"d/f"), 0, b"abc")
    listed = {"entries": [[b"d", stat.S_IFDIR, (root / "d").stat().st_ino]], "more": False}
    assert client.words(Kind.READDIR, words={"path": b"", "after": b""}) == listed
    assert client.words(Kind.STAT, words={"path": b"d"})["mode"] == 0o40700
    assert client.words(Kind.STAT, words={"path": b"d/f"})["size"] == 3
    assert client.ask(Kind.RENAME, words={"path": b"d/f", "to": b"g"}).status == 0
    assert (root / "g").read_bytes() == b"abc"
    assert client.ask(Kind.RMDIR, words={"path": b"d"}).status == 0
    assert client.ask(Kind.SETATTR, words={"path": b"g", "mode": 0o600, "mtime": 5 * 10**9}).status == 0
    assert (root / "g").stat().st_mtime == 5
    assert client.ask(Kind.UNLINK, words={"path": b"g"}).status == 0
    assert client.ask(Kind.UNLINK, words={"path": b"g"}).status == errno.ENOENT
    assert client.ask(Kind.UNLINK, words={"path": b"g", "again": True}).status == 0
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_what_is_new_has_the_mode_that_was_asked_for(thread: NodeThread, client: Client, umask: int) -> None:
    root = thread.folder / "root"
    before = os.umask(umask)
    try:
        for mode in (0o000, 0o600, 0o666, 0o4755):
            words = {"path": b"f%o" % mode, "create": True, "mode": mode}
            assert client.ask(Kind.OPEN, words=words).status == 0
            assert client.ask(Kind.MKDIR, words={"path": b"d%o" % mode, "mode": mode}).status == 0
            for kind in "fd":
                assert (root / f"{kind}{mode:o}").stat().st_mode & 0o7777 == mode
    finally:
        os.umask(before)
    for path in (b"f0", b"d0"):
        assert client.ask(Kind.SETATTR, words={"path": path, "mode": 0o711, "mtime": 5 * 10**9}).status == 0
        assert client.words(Kind.STAT, words={"path": path})["mode"] & 0o7777 == 0o711


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for others")
def test_what_is_new_belongs_to_who_made_it(thread: NodeThread, client: Client) -> None:
    root = thread.folder / "root"
    root.chmod(0o777)
    maker = {"caller": [4711, 4712, []]}
    found = client.words(Kind.OPEN, words={"path": b"f", "create": True, "mode": 0o600, **maker})
    assert (found["uid"], found["gid"], found["mode"]) == (4711, 4712, 0o100600)
    assert client.ask(Kind.MKDIR, words={"path": b"d", "mode": 0o2777, **maker}).status == 0
    assert client.ask(Kind.MKDIR, words={"path": b"d/e", "mode": 0o700, "caller": [1, 1, []]}).status == 0
    below = (root / "d/e").stat()
    assert (below.st_uid, below.st_gid, below.st_mode & 0o7777) == (1, 4712, 0o2700)
    assert client.ask(Kind.SETATTR, words={"path": b"f", "uid": 7}).status == 0
    assert ((root / "f").stat().st_uid, (root / "f").stat().st_gid) == (7, 4712)
    for owner in (-1, 2**32 - 1, "root", 1.5):
        assert client.ask(Kind.SETATTR, words={"path": b"f", "uid": owner}).status == errno.EINVAL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for others")
def test_the_kernel_checks_the_rights_of_who_asks(thread: NodeThread, client: Client) -> None:
    root = thread.folder / "root"
    (root / "private").mkdir(mode=0o700)
    (root / "private/f").write_bytes(b"secret")
    (root / "shared").write_bytes(b"abc")
    (root / "shared").chmod(0o640)
    os.chown(root / "shared", 0, 4712)

    def status(kind: Kind, **words: object) -> int:
        return client.ask(kind, words=words).status

    for kind in (Kind.STAT, Kind.OPEN, Kind.UNLINK):
        assert status(kind, path=b"private/f", caller=[4711, 1, [4712]]) == errno.EACCES
    assert status(Kind.OPEN, path=b"shared", access=4, caller=[4711, 1, []]) == errno.EACCES
    assert status(Kind.OPEN, path=b"shared", access=6, caller=[4711, 1, [4712]]) == errno.EACCES
    assert status(Kind.OPEN, path=b"shared", access=4, caller=[4711, 1, [4712]]) == 0
    assert status(Kind.SETATTR, path=b"shared", mode=0o666, caller=[4711, 1, [4712]]) == errno.EPERM
    assert status(Kind.UNLINK, path=b"shared", caller=[4711, 1, []]) == errno.EACCES
    assert status(Kind.OPEN, path=b"shared", access=6) == 0  # by root, also after others


def test_links_pipes_and_attributes_are_those_of_the_mounted_folder(thread: NodeThread, client: Client) -> None:
    root = thread.folder / "root"
    client.write(client.open(b"f"), 0, b"abc")
    assert client.words(Kind.MAKE, words={"path": b"s", "mode": 0o120777, "target": b"f"})["target"] == b"f"
    assert client.words(Kind.LINK, words={"path": b"f", "to": b"g"})["links"] == 2
    assert client.words(Kind.MAKE, words={"path": b"p", "mode": 0o010600})["mode"] == 0o010600
    assert (root / "s").readlink() == Path("f")
    assert (root / "g").samefile(root / "f")
    assert (root / "p").is_fifo()
    assert client.ask(Kind.SETXATTR, words={"path": b"f", "name": b"user.a", "value": b"1"}).status == 0
    assert os.getxattr(root / "f", "user.a") == b"1"
    assert client.words(Kind.GETXATTR, words={"path": b"g"})["names"] == [b"user.a"]
    assert (
        client.ask(Kind.SETXATTR, words={"path": b"f", "name": b"trusted.a", "value": b"1"}).status == errno.EOPNOTSUPP
    )
    assert client.ask(Kind.RENAME, words={"path": b"f", "to": b"p", "keep": True}).status == errno.EEXIST
    assert client.ask(Kind.RENAME, words={"path": b"f", "to": b"p", "exchange": True}).status == 0
    assert (root / "f").is_fifo()


def test_a_file_that_must_be_new_is(client: Client) -> None:
    words = {"path": b"f", "create": True, "exclusive": True, "mode": 0o600, "layout": None, "key": 0, "again": False}
    answer = client.ask(Kind.OPEN, words=words)
    assert unpack_as(dict[str, object], answer.payload)["created"] is True
    assert client.ask(Kind.OPEN, words=words).status == errno.EEXIST
    assert client.ask(Kind.OPEN, words=words | {"again": True}).status == 0
    client.write(answer.file, 0, b"x")
    assert client.ask(Kind.OPEN, words=words | {"again": True}).status == errno.EEXIST


def test_layouts_are_told_and_not_set(client: Client) -> None:
    assert client.words(Kind.LAYOUT, words={"path": b""}) == {"layout": [4, STRIPE, 0]}
    assert client.ask(Kind.LAYOUT, words={"path": b"", "layout": [1, STRIPE, 0]}).status == errno.EOPNOTSUPP


def test_a_file_that_nobody_has_open_is_stale(client: Client) -> None:
    file = client.open(b"f")
    assert client.ask(Kind.CLOSE, words={"nodes": [file]}).status == 0
    assert client.ask(Kind.ATTACH, file=file).status == errno.ESTALE
    assert client.ask(Kind.FSYNC, file=file).status == errno.ESTALE
    assert client.read(file, 0, 1).status == errno.ESTALE


@pytest.mark.usefixtures("client")
def test_descriptors_are_closed_with_their_clients(thread: NodeThread) -> None:
    node = thread.nodes[0]
    before = descriptors()
    with thread.client(node) as other:
        for i in range(20):
            other.write(other.open(b"f%d" % i), 0, b"x")
    thread.soon(lambda: len(node.sessions) == 1)
    thread.soon(lambda: descriptors() <= before)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_full_disk_is_an_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    file = client.open(b"f")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("forebay.act.forward.node.mounted_folder.os.pwrite", full)
    answer = client.write(file, 0, b"x")
    assert (answer.status, answer.payload) == (errno.ENOSPC, b"[Errno 28] no space left on device")


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot forward to this folder: no such file"):
        Folder(tmp_path / "none")
