"""Full disks: small file systems, which data servers and others fill."""

import asyncio
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from forebay.act.forward.data import objects as objects_module
from forebay.act.forward.data.disk_space import DiskSpace
from forebay.act.forward.data.extents import allocated_bytes
from forebay.act.forward.data.name_database import NameStore
from forebay.act.forward.data.name_requests import Names
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.sole_leases import SoleLeases
from forebay.act.forward.data.system_calls import KEEP_SIZE, allocate
from forebay.act.forward.net.payloads import ROOT, Caller
from forebay.act.forward.net.sole_payloads import AddedFile, AddRequest, AloneRequest
from forebay.act.forward.net.wire import LAST_OFFSET, Kind, Message, pack
from forebay.model.layout import Layout
from support.forward import Speaker, data_server
from support.forward_names import KeywordNames, outcome
from support.name_cluster import NameCluster
from support.volumes import sh, small_disk

MIB = 1 << 20
KIB = 1 << 10


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    root = tmp_path / "disk"
    root.mkdir()
    if request.param == "ext4":
        with small_disk(root, "ext4", 32 * MIB, "-m", "0"):
            yield root
        return
    mounted = ["mount", "-t", "tmpfs", "-o", "size=32m", "forebay-test", str(root)]
    if subprocess.run(mounted, capture_output=True, timeout=60).returncode:
        pytest.skip("a small file system can't be mounted here: that needs root")
    try:
        yield root
    finally:
        sh("umount", root)


@pytest.fixture
def names(disk: Path) -> Iterator[KeywordNames]:
    space = DiskSpace(disk)
    space.keep_spare()
    with closing(KeywordNames(NameStore(disk, space=space), 1, Layout(count=1))) as names:
        yield names


def fill(path: Path) -> None:
    """Leave no free block."""
    with path.open("ab", buffering=0) as file:
        for size in (MIB, 4096):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
            os.fsync(file.fileno())


def request(node: Speaker, kind: Kind, file: int = 0, **fields: Any) -> int:
    """0, or the errno of the answer."""
    return node.ask(kind, file=file, payload=pack(fields)).status


def write_until_full(node: Speaker, file: int) -> int:
    """The bytes that were written."""
    offset = 0
    for size in (MIB, 4 * KIB):
        while not (status := node.ask(Kind.WRITE, file=file, offset=offset, payload=bytes(size)).status):
            offset += size
        assert status == errno.ENOSPC
    return offset


def available(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def test_data_gets_all_space_but_the_reserve(disk: Path) -> None:
    with data_server(disk / "data") as (_, server), Speaker(server.address) as node:
        shown = node.words(Kind.STATFS)["available"]
        written = write_until_full(node, 5)
        assert shown - 256 * KIB < written <= shown
        assert available(disk) > 256 * KIB
        assert (disk / "data" / "spare").stat().st_blocks * 512 >= 512 * KIB
        assert node.words(Kind.STATFS)["available"] < 64 * KIB
        assert node.ask(Kind.WRITE, file=6, payload=bytes(8 * KIB)).status == errno.ENOSPC
        assert node.words(Kind.SIZE, file=6)["size"] == 0
        assert request(node, Kind.ALLOCATE, file=5, offset=written, length=MIB, mode=KEEP_SIZE) == errno.ENOSPC


def test_what_has_space_already_can_be_written_on_a_full_disk(disk: Path) -> None:
    with data_server(disk / "data") as (_, server), Speaker(server.address) as node:
        for number in range(3):
            node.ask(Kind.WRITE, file=6, offset=number * MIB, payload=b"x" * 4096)
        written = write_until_full(node, 5)
        assert node.ask(Kind.WRITE, file=5, offset=0, payload=b"y" * MIB).status == 0
        assert node.ask(Kind.WRITE, file=6, offset=2 * MIB, payload=b"y" * 4096).status == 0
        assert node.ask(Kind.WRITE, file=6, offset=MIB // 2, payload=b"y" * MIB).status == errno.ENOSPC
        assert request(node, Kind.ALLOCATE, file=5, offset=0, length=written, mode=KEEP_SIZE) == 0
        assert node.ask(Kind.TRUNCATE, file=5, offset=MIB).status == 0
        assert node.ask(Kind.WRITE, file=6, offset=MIB // 2, payload=b"y" * MIB).status == 0


def test_names_are_removed_changed_and_replaced_on_a_disk_without_a_free_byte(disk: Path, names: KeywordNames) -> None:
    names.mkdir(b"d")
    for number in range(2000):  # far more log than the disk has room for
        names.open(b"d/%d" % number, create=True)
    fill(disk / "ballast")
    assert available(disk) < 64 * KIB
    assert outcome(names.open, b"d/new") == errno.ENOENT
    for number in range(0, 1000, 2):
        names.rename(b"d/%d" % number, b"d/%d" % (number + 1))
        names.set_attributes(b"d/%d" % (number + 1), mtime=number)
    left = [name for name, _, _ in names.readdir(b"d").entries]
    assert len(left) == 1500
    for name in left:
        names.unlink(b"d/" + name)
    names.rmdir(b"d")
    names.names.forget(*(file for file, _ in names.list_pending()))
    assert names.readdir(b"").entries == []


def test_a_full_disk_takes_no_new_names_until_there_is_room(disk: Path, names: KeywordNames) -> None:
    names.open(b"first", create=True)
    fill(disk / "ballast")
    for number in range(600):
        with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
            names.open(b"%d" % number, create=True)
    (disk / "ballast").unlink()
    names.open(b"second", create=True)
    assert [name for name, _, _ in names.readdir(b"").entries] == [b"first", b"second"]


def test_files_that_mounts_have_created_get_all_space_but_the_reserve(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_MUCH", "_MANY"):  # else the mount would not have the folder alone on so small a disk
        monkeypatch.setattr(objects_module, limit, 0)
    space, leases = DiskSpace(disk), SoleLeases()
    space.keep_spare()
    objects, me = Objects(disk / "objects", space=space), Caller(uid=0, gid=0, mounter=0, holder=7)
    names = Names(NameStore(disk, space=space), 1, Layout(count=1, size=MIB), leases=leases, objects=objects)
    with closing(objects), closing(names):
        leases.watch(me.holder)
        first = names.do_alone(Message(Kind.ALONE), AloneRequest(at=ROOT, caller=me)).first

        def add(number: int) -> None:
            file = AddedFile(b"%d" % number, first + number, 0o644, 0, 0, bytes(512 * KIB))
            request = AddRequest(at=ROOT, files=[file], layout=(1, MIB, 0), time=0, caller=me)
            assert not names.do_add(Message(Kind.ADD), request).files[0].refused

        with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
            for number in range(1, 100):
                add(number)
        count = len(names.list_names(ROOT).entries)
        assert 30 < count < 64 and len(list(disk.glob("objects/*/*"))) == count
        assert available(disk) >= space.margin


def test_a_server_starts_on_a_disk_without_a_free_byte(disk: Path) -> None:
    with data_server(disk / "data") as (_, server), Speaker(server.address) as node:
        assert request(node, Kind.OPEN, path=b"a", create=True) == 0
        assert request(node, Kind.OPEN, path=b"b", create=True) == 0
        assert node.ask(Kind.WRITE, file=5, payload=bytes(MIB)).status == 0
    fill(disk / "ballast")
    with data_server(disk / "data") as (_, server), Speaker(server.address) as node:
        assert request(node, Kind.UNLINK, path=b"a") == 0
        assert request(node, Kind.OPEN, path=b"c", create=True) == errno.ENOSPC
        (disk / "ballast").unlink()
        assert request(node, Kind.OPEN, path=b"c", create=True) == 0
        assert (disk / "data" / "spare").stat().st_blocks * 512 >= 512 * KIB


def test_the_space_for_names_comes_back_before_any_for_data(disk: Path) -> None:
    space = DiskSpace(disk)
    space.keep_spare()
    while space.release():
        pass
    assert not (disk / "spare").stat().st_size
    fill(disk / "ballast")
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
        space.claim(1)
    os.truncate(disk / "ballast", (disk / "ballast").stat().st_size - MIB // 2)
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
        space.claim(1)
    assert (disk / "spare").stat().st_size
    (disk / "ballast").unlink()
    space.claim(1)
    assert (disk / "spare").stat().st_size == 512 * KIB


def test_a_folder_stays_in_use_where_it_is_if_server_0_has_no_room_for_it(disk: Path) -> None:
    async def run(names: NameCluster) -> None:
        await names.ask(Kind.MKDIR, path=b"a")
        await names.ask(Kind.MKDIR, path=b"b")
        for number in range(1500):
            await names.ask(Kind.OPEN, path=b"a/%d" % number, create=True)
        fill(disk / "ballast")
        requests: dict[Kind, dict[str, Any]] = {
            Kind.RENAME: {"path": b"a/1", "to": b"b/1"},
            Kind.MKDIR: {"path": b"a/below"},
        }
        for kind, fields in requests.items():
            with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC):
                await names.ask(kind, **fields)
        for number in range(1500):
            reply = await names.ask(Kind.UNLINK, path=b"a/%d" % number)
            assert reply.server == 1
        await names.ask(Kind.RMDIR, path=b"a")
        assert [name for name, _, _ in await names.names()] == [b"b"]

    with closing(NameCluster(disk)) as names:
        asyncio.run(run(names))


@pytest.mark.parametrize("kind", ["written", "allocated"])
def test_allocated_bytes_are_those_that_have_space(tmp_path: Path, kind: str) -> None:
    with (tmp_path / "file").open("w+b", buffering=0) as file:
        os.ftruncate(file.fileno(), 64 * MIB)
        for number in range(300):
            if kind == "written":
                os.pwrite(file.fileno(), bytes(4096), number * 8192)
            else:
                allocate(file.fileno(), KEEP_SIZE, number * 8192, 4096)
        assert allocated_bytes(file.fileno(), 0, LAST_OFFSET) == 300 * 4096
        assert allocated_bytes(file.fileno(), 100, 8192) == 4096
        assert allocated_bytes(file.fileno(), 8192 + 10, 20) == 20
        assert allocated_bytes(file.fileno(), 4096, 4096) == 0
