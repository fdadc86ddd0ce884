import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.untrusted_tree import spread_place, sync_all
from forebay.act.forward.net.payloads import ObjectSize


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    made = Objects(tmp_path / "objects", most_open=3)
    yield made
    made.close()


def files(objects: Objects) -> list[int]:
    """The ids of all objects."""
    return [int(path.name, 16) for path in objects._tree.folder.glob("*/*")]


def read(objects: Objects, file: int, offset: int, size: int) -> bytes:
    room = memoryview(bytearray(size))
    return bytes(room[: objects.read(file, offset, room)])


WRITES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("wt"), st.integers(0, 300), st.binary(min_size=1, max_size=200)),
    max_size=30,
)


@given(WRITES)
def test_objects_hold_what_was_written_however_few_are_open(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, str, int, bytes]]
) -> None:
    objects = Objects(tmp_path_factory.mktemp("objects"), most_open=2)
    oracle: dict[int, bytearray] = {}
    for file, what, offset, data in writes:
        held = oracle.setdefault(file, bytearray())
        if what == "w":
            objects.write(file, offset, data)
            held.extend(bytes(max(0, offset + len(data) - len(held))))
            held[offset : offset + len(data)] = data
        else:
            objects.truncate(file, offset)
            del held[offset:]
            held.extend(bytes(offset - len(held)))
    for file, held in oracle.items():
        assert read(objects, file, 0, 1000) == held
        assert objects.size(file).size == len(held)
    assert len(objects._open) <= 2
    objects.close()


def test_what_is_not_there_is_empty_and_reading_does_not_make_it(objects: Objects) -> None:
    assert read(objects, 7, 0, 10) == b""
    assert objects.size(7) == ObjectSize(size=0, mtime=0, allocated=0)
    objects.truncate(7, 0)
    assert objects.descriptors_to_sync(7) == []
    assert files(objects) == []


def test_a_forgotten_object_is_gone_and_a_late_write_does_not_bring_it_back(objects: Objects) -> None:
    objects.write(7, 0, b"abc")
    objects.write(8, 0, b"abc")
    objects.forget(7)
    objects.forget(7)
    for late in (lambda: objects.write(7, 0, b"late"), lambda: read(objects, 7, 0, 3), lambda: objects.truncate(7, 5)):
        with pytest.raises(OSError) as caught:
            late()
        assert caught.value.errno == errno.ESTALE
    assert files(objects) == [8]


def test_a_write_to_an_object_that_is_not_open_keeps_when_it_was_read(objects: Objects) -> None:
    for file in range(5):  # of which three stay open
        objects.write(file, 0, b"abc")
    path = objects._tree.folder / spread_place(0).decode()
    os.utime(path, ns=(10**18, 10**18))
    objects.write(0, 3, b"def")
    assert path.stat().st_atime_ns == 10**18
    assert path.read_bytes() == b"abcdef"


def test_a_write_beyond_the_last_offset_is_too_big(objects: Objects) -> None:
    with pytest.raises(OSError) as caught:
        objects.write(7, 2**63 - 2, b"abc")
    assert caught.value.errno == errno.EFBIG
    assert files(objects) == []


def test_a_short_write_goes_on(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, offset: real(handle, bytes(data)[:3], offset))
    assert objects.write(7, 5, b"abcdefgh") == 8
    assert read(objects, 7, 5, 100) == b"abcdefgh"


def test_a_short_read_goes_on(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.write(7, 0, b"abcdefgh")
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda handle, rooms, offset: real(handle, [rooms[0][:3]], offset))
    assert read(objects, 7, 0, 100) == b"abcdefgh"


def test_a_full_disk_is_its_errno(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError) as caught:
        objects.write(7, 0, b"abc")
    assert caught.value.errno == errno.ENOSPC


def test_a_sync_reaches_the_object_and_once_its_name(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    inodes: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        inodes.append(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    objects.write(7, 0, b"abc")
    sync_all(objects.descriptors_to_sync(7))
    assert len(set(inodes)) == 3  # with the folder of its name, and that one's
    sync_all(objects.descriptors_to_sync(7))
    assert len(inodes) == 4
    objects.sync_failed(7)
    sync_all(objects.descriptors_to_sync(7))
    assert len(inodes) == 7


def test_a_sync_that_fails_is_an_error_and_leaves_nothing_open(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.write(7, 0, b"abc")
    handles = objects.descriptors_to_sync(7)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="broken"):
        sync_all(handles)
    for handle in handles:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handle)


def test_objects_are_there_again_after_a_restart(tmp_path: Path) -> None:
    first = Objects(tmp_path / "objects")
    first.write(2**64 - 1, 0, b"abc")
    first.close()
    again = Objects(tmp_path / "objects")
    assert read(again, 2**64 - 1, 0, 10) == b"abc"
    assert files(again) == [2**64 - 1]
    again.close()
