"""Names that an earlier release has left are taken over, whenever the process is killed on the way."""

import os
from pathlib import Path

import pytest

from forebay.act.forward.data.name_database import DATABASE, NameStore
from forebay.act.forward.data.old_names import convert_names
from forebay.model.layout import Layout
from support.forward_names import KeywordNames, entries
from support.old_names import record, write_old_names

FILES = {"a": 0xAB, "d/b": 0xCD, "d/e/c": 0xEF << 48}


def converted(folder: Path) -> KeywordNames:
    convert_names(folder)
    return KeywordNames(NameStore(folder), 4, Layout(count=1))


def test_files_keep_their_ids_layouts_and_attributes(tmp_path: Path) -> None:
    write_old_names(tmp_path, FILES, uid=5, gid=6)
    names = converted(tmp_path)
    for path, file in FILES.items():
        status = names.stat(path.encode())
        assert (status.file, status.mode, status.uid, status.gid, status.links) == (file, 0o100640, 5, 6, 1)
        assert (status.mtime, status.stamp, status.layout) == (1_000, 7, Layout(count=1, size=65536, start=0))
    assert entries(names) == [(b"a", False), (b"d", True)]
    assert (names.stat(b"d").mode, names.stat(b"d").links) == (0o40750, 3)
    assert names.layout(b"d/e") == Layout(count=2, size=131072)
    assert names.list_pending() == []
    names.close()
    assert {path.name for path in tmp_path.iterdir()} == {DATABASE}


def test_a_record_of_the_time_before_owners_is_read(tmp_path: Path) -> None:
    write_old_names(tmp_path, {})
    (tmp_path / "names/a").write_bytes(b'{"file":5,"layout":[1,65536,0],"mode":384,"mtime":9}'.ljust(511) + b"\n")
    names = converted(tmp_path)
    assert (names.stat(b"a").uid, names.stat(b"a").mode, names.stat(b"a").mtime) == (None, 0o100600, 9)
    names.close()


def test_files_without_a_name_are_removed_later(tmp_path: Path) -> None:
    write_old_names(tmp_path, FILES)
    (tmp_path / "names/a").rename(tmp_path / f"unlinked/{0xAB:016x}")  # killed between two steps of unlink
    (tmp_path / "names/d/b").unlink()  # killed before a new file had a name
    os.link(tmp_path / "names/d/e/c", tmp_path / f"unlinked/{0xEF << 48:016x}")  # killed before a rename over it
    names = converted(tmp_path)
    assert sorted(file for file, _ in names.list_pending()) == [0xAB, 0xCD]
    assert names.stat(b"d/e/c").file == 0xEF << 48
    names.close()


def test_a_folder_that_was_replacing_another_has_replaced_it(tmp_path: Path) -> None:
    write_old_names(tmp_path, {**FILES, "empty/x": 9})
    (tmp_path / "names/empty/x").unlink()
    (tmp_path / "replacing").write_bytes(b"d\0empty")
    names = converted(tmp_path)
    assert entries(names) == [(b"a", False), (b"empty", True)]
    assert entries(names, b"empty/e") == [(b"c", False)]
    names.close()


def test_a_damaged_record_loses_its_own_name_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_old_names(tmp_path, FILES)
    (tmp_path / "names/a").write_bytes(b"")
    (tmp_path / "names/d/.forebay-folder").write_bytes(record(None)[:20])
    names = converted(tmp_path)
    assert entries(names) == [(b"d", True)]
    assert names.stat(b"d/e/c").file == 0xEF << 48
    names.close()
    told = capsys.readouterr().err
    assert "names/a: the record is damaged; this name is lost" in told


@pytest.mark.parametrize("left", ["half", "complete"])
def test_a_conversion_that_was_killed_begins_again_or_is_completed(tmp_path: Path, left: str) -> None:
    write_old_names(tmp_path, FILES)
    if left == "half":
        (tmp_path / f"{DATABASE}.new").write_bytes(b"half a database")
    else:
        converted(tmp_path).close()
        write_old_names(tmp_path, {"a": 0xAB})  # as if these had not been removed yet
    names = converted(tmp_path)
    assert entries(names) == [(b"a", False), (b"d", True)]
    names.close()
    assert not (tmp_path / "names").exists()
