"""Whoever can write to a server's folder can't make the server read, write or wait elsewhere."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.forward.data.fences import Fences
from forebay.act.forward.data.name_database import NameStore
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.old_names import convert_names
from forebay.act.forward.data.server_folder import ServerFolder
from forebay.act.forward.net.payloads import ObjectSize
from forebay.act.forward.node.forwarded_folder import Folder
from forebay.model.errors import BadInput
from forebay.model.layout import Layout
from support.forward_names import KeywordNames, entries
from support.old_names import write_old_names

LAYOUT = Layout(count=1)
FILE = 0xAB54


class Outside:
    """What a link leads to; nothing of it may be told or changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "outside"
        (self.folder / "sub").mkdir(parents=True)
        for place in (self.folder, self.folder / "sub"):
            (place / "secret").write_text("secret")
        self._before = self._all()

    def _all(self) -> dict[str, object]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in self.folder.rglob("*")
        }

    def check(self) -> None:
        assert self._all() == self._before


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    made = Outside(tmp_path)
    yield made
    made.check()


def plant(kind: str, place: Path, outside: Outside) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(
            outside.folder / {"link to a file": "secret", "link to a folder": "", "dead link": "none"}[kind]
        )


NOTHING = ObjectSize(size=0, mtime=0, allocated=0)
KINDS = ["pipe", "link to a file", "link to a folder", "dead link"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["names.db", "names.db-wal", "names.db-shm"])
def test_a_database_that_was_planted_is_not_opened(outside: Outside, tmp_path: Path, name: str, kind: str) -> None:
    plant(kind, tmp_path / "data" / name, outside)
    with pytest.raises(OSError):
        NameStore(tmp_path / "data")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["names/planted", "unlinked/x", "ids/ab", "ids/00/000000000000ab54"])
def test_what_was_planted_among_old_names_is_not_taken_over(
    outside: Outside, tmp_path: Path, place: str, kind: str
) -> None:
    write_old_names(tmp_path / "data", {"mine": 5, "folder/inner": 6})
    with suppress(FileExistsError):
        plant(kind, tmp_path / "data" / place, outside)
    convert_names(tmp_path / "data")
    names = KeywordNames(NameStore(tmp_path / "data"), 1, LAYOUT)
    assert entries(names) == [(b"folder", True), (b"mine", False)]
    assert names.list_pending() == []
    names.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["00", f"00/{FILE:016x}"])
def test_an_object_that_was_planted_is_neither_read_nor_written(
    outside: Outside, tmp_path: Path, place: str, kind: str
) -> None:
    objects = Objects(tmp_path / "objects")
    plant(kind, tmp_path / "objects" / place, outside)
    for call in (
        lambda: objects.read(FILE, 0, memoryview(bytearray(9))),
        lambda: objects.write(FILE, 0, b"changed"),
        lambda: objects.truncate(FILE, 3),
        lambda: objects.size(FILE),
        lambda: objects.descriptors_to_sync(FILE),
    ):
        with suppress(OSError):
            assert call() in (0, NOTHING, [], None) and kind == "dead link"
    objects.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_for_objects_that_was_planted_is_not_entered(outside: Outside, tmp_path: Path, kind: str) -> None:
    plant(kind, tmp_path / "objects", outside)
    with pytest.raises(OSError):
        Objects(tmp_path / "objects")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["lock", "server.json", "server.json.new"])
def test_a_servers_own_files_are_not_reached_by_links(outside: Outside, tmp_path: Path, name: str, kind: str) -> None:
    plant(kind, tmp_path / "data" / name, outside)
    if name.endswith(".new"):
        ServerFolder(tmp_path / "data", 0, 1).close()
        assert not (tmp_path / "data" / name).exists()
    else:
        with pytest.raises(BadInput, match=r"cannot use it|is unreadable"):
            ServerFolder(tmp_path / "data", 0, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["fenced", "fenced.new"])
def test_fences_are_not_reached_by_links(outside: Outside, tmp_path: Path, name: str, kind: str) -> None:
    plant(kind, tmp_path / "data" / name, outside)
    with suppress(OSError):
        Fences(tmp_path / "data/fenced").close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_layout_of_what_was_planted_in_a_mounted_folder_is_not_asked_for(
    outside: Outside, tmp_path: Path, kind: str
) -> None:
    plant(kind, tmp_path / "root/planted", outside)
    folder = Folder(tmp_path / "root")
    for path in (b"planted", b"planted/secret", b"planted/sub"):
        with pytest.raises(OSError):
            folder.full_path(path)
    folder.close()
