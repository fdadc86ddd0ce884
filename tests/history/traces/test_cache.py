"""What was read once is not read again, and the cache never stands in the way."""

import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from forebay.folders import cache_folder
from forebay.history.traces import cache as cache_module
from forebay.history.traces import read_requests, storalloc, swf
from forebay.model.space_requests import Requests
from support.calls import Calls, record_calls


def trace(folder: Path, *ids: object, name: str = "IOJobs.yml") -> Path:
    """A job for every id, and before them one without bytes."""
    time = "2020-01-01 00:00:00"
    jobs = [
        f"{{id: {i}, submissionTime: {time}, startTime: {time}, endTime: {time}, readBytes: {r}, writtenBytes: 0}}"
        for i, r in [("idle", 0), *((one, 5) for one in ids)]
    ]
    path = folder / name
    path.write_text("jobs:\n" + "".join(f"- {job}\n" for job in jobs), encoding="utf-8")
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The files that were really read."""
    return record_calls(monkeypatch, storalloc, "read")


def same(one: Requests, other: Requests) -> bool:
    return all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name))
        and np.asarray(getattr(one, f.name)).dtype == np.asarray(getattr(other, f.name)).dtype
        for f in fields(Requests)
    )


@pytest.mark.parametrize("ids", [[1, 2], ["a", "böse"]])
def test_the_second_time_comes_from_the_cache(tmp_path: Path, reads: Calls, cache: Path, ids: list[object]) -> None:
    path = trace(tmp_path, *ids)
    first, second = read_requests([path]), read_requests([path])
    assert reads == [(path,)]
    assert same(first, second)
    assert first.origin == "2 requests from IOJobs.yml (left out: 1 job without bytes)"
    assert [one.suffix for one in cache.iterdir()] == [".npz"]


def test_the_same_content_under_another_name_is_found_and_named_anew(tmp_path: Path, reads: Calls) -> None:
    read_requests([trace(tmp_path, 1)])
    assert read_requests([trace(tmp_path, 1, name="b.yaml")]).origin.startswith("1 request from b.yaml")
    assert len(reads) == 1


def test_a_file_that_changed_is_read_again(tmp_path: Path, reads: Calls) -> None:
    assert len(read_requests([trace(tmp_path, 1)])) == 1
    assert len(read_requests([trace(tmp_path, 1, 2)])) == 2
    assert len(reads) == 2


def test_a_new_version_of_the_readers_reads_again(
    tmp_path: Path, reads: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace(tmp_path, 1)
    read_requests([path])
    monkeypatch.setattr(cache_module, "_VERSION", cache_module._VERSION + 1)
    read_requests([path])
    assert len(reads) == 2


def test_another_volume_is_another_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = record_calls(monkeypatch, swf, "read")
    path = tmp_path / "a.swf"
    path.write_text("1 0 0 9 2 -1 100 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
    for volume in ("memory", "1 GB", "2 GB", None, "1000 MB"):
        read_requests([path], swf_volume=volume)
    assert calls == [(path, None), (path, 1e9), (path, 2e9)]


def test_an_entry_damaged_anywhere_is_ignored_or_still_right(tmp_path: Path, cache: Path) -> None:
    path = trace(tmp_path, "a", "b")
    right = read_requests([path])
    (entry,) = cache.iterdir()
    sound = entry.read_bytes()
    for place in range(len(sound)):
        entry.write_bytes(sound[:place] + bytes([sound[place] ^ 0x55]) + sound[place + 1 :])
        columns = cache_module.load_entry(entry.stem)
        assert columns is None or columns.ids.tolist() == ["a", "b"]
        assert columns is None or columns.bytes.tolist() == right.bytes.tolist()


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18])
def test_a_damaged_entry_is_written_anew(tmp_path: Path, reads: Calls, cache: Path, content: bytes) -> None:
    path = trace(tmp_path, 1)
    right = read_requests([path])
    (entry,) = cache.iterdir()
    entry.write_bytes(content)
    assert same(read_requests([path]), right)
    assert same(read_requests([path]), right)
    assert len(reads) == 2


def test_an_entry_that_is_cut_short_is_written_anew(tmp_path: Path, reads: Calls, cache: Path) -> None:
    path = trace(tmp_path, 1)
    read_requests([path])
    (entry,) = cache.iterdir()
    entry.write_bytes(entry.read_bytes()[:-100])
    read_requests([path])
    assert len(reads) == 2
    assert cache_module.load_entry(entry.stem) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"bytes": np.array([1.5])},
        {"start": np.array([1, 2])},
        {"duration": np.array([1.0, 2.0])},
        {"ids": np.array([[1]])},
        {"ids": np.array([object()])},
    ],
)
def test_an_entry_of_other_columns_is_ignored(cache: Path, wrong: dict[str, np.ndarray]) -> None:
    one = np.array([1.0])
    columns = {"ids": np.array([1]), "bytes": np.array([1])}
    columns |= dict.fromkeys(("submitted", "start", "duration", "volume"), one)
    cache.mkdir(parents=True)
    np.savez(cache / "good.npz", **columns, left_out=np.array(""), allow_pickle=True)
    np.savez(cache / "bad.npz", **columns | wrong, left_out=np.array(""), allow_pickle=True)
    assert isinstance(cache_module.load_entry("good"), Requests)
    assert cache_module.load_entry("bad") is None


def test_without_a_folder_to_write_to_the_file_is_read_each_time(
    tmp_path: Path, reads: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way))
    path = trace(tmp_path, 1)
    assert same(read_requests([path]), read_requests([path]))
    assert len(reads) == 2


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert len(read_requests([trace(tmp_path, 1)])) == 1
    assert list(cache.iterdir()) == []


def test_without_a_cache_folder_named_it_is_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for named in (None, "", "not/absolute"):
        monkeypatch.delenv("XDG_CACHE_HOME") if named is None else monkeypatch.setenv("XDG_CACHE_HOME", named)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert cache_folder("requests") == tmp_path / "home/.cache/forebay/requests"


def test_the_oldest_entries_go(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_MOST_ENTRIES", 3)
    for age in range(5):
        path = trace(tmp_path, age + 1)
        read_requests([path])
        os.utime(cache / f"{cache_module.cache_key([path], 'storalloc None')}.npz", (age, age))
    assert sorted(int(one.stat().st_mtime) for one in cache.iterdir()) == [2, 3, 4]


def test_many_bytes_are_not_kept_either(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_requests([trace(tmp_path, 1)])
    (entry,) = cache.iterdir()
    os.utime(entry, (0, 0))
    monkeypatch.setattr(cache_module, "_MOST_BYTES", entry.stat().st_size * 3 // 2)
    read_requests([trace(tmp_path, 2)])
    (left,) = cache.iterdir()
    assert left != entry
