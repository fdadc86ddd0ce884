"""Whoever can write to a server's folder can't make the server read, write or wait elsewhere."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.records import RecordTree
from forebay.act.forward.data.server_folder import Fences, ServerFolder
from forebay.act.forward.net.payloads import ObjectSize
from forebay.act.forward.node.mounted_folder import Folder
from forebay.model.errors import BadInput
from forebay.model.layout import Layout
from support.forward_names import KeywordNames

LAYOUT = Layout(count=1)
FILE = 0xAB54


class Outside:
    """What a link leads to; nothing of it may be told or changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "outside"
        (self.folder / "sub").mkdir(parents=True)
        for place in (self.folder, self.folder / "sub"):
            (place / "secret").write_text("secret")
            (place / ".forebay-folder").write_text(
                json.dumps({"file": None, "layout": [1, 65536, -1], "mode": 511, "mtime": 1})
            )
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


@pytest.fixture
def names(tmp_path: Path) -> Iterator[KeywordNames]:
    (tmp_path / "data").mkdir()
    made = KeywordNames(RecordTree(tmp_path / "data"), 1, LAYOUT)
    yield made
    made.close()


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
CALLS: dict[str, Callable[[KeywordNames, bytes], object]] = {
    "open": lambda names, path: names.open(path),
    "create": lambda names, path: names.open(path, create=True, layout=LAYOUT),
    "stat": lambda names, path: names.stat(path),
    "chmod": lambda names, path: names.set_attributes(path, mode=0o777),
    "utime": lambda names, path: names.set_attributes(path, mtime=7),
    "unlink": lambda names, path: names.unlink(path),
    "mkdir": lambda names, path: names.mkdir(path, layout=LAYOUT),
    "rmdir": lambda names, path: names.rmdir(path),
    "readdir": lambda names, path: names.readdir(path),
    "layout": lambda names, path: names.layout(path),
    "set layout": lambda names, path: names.set_layout(path, LAYOUT),
    "rename": lambda names, path: names.rename(path, b"elsewhere"),
    "rename to": lambda names, path: names.rename(b"mine", path),
    "rename a folder to": lambda names, path: names.rename(b"folder", path),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_a_name_that_was_planted_leads_nowhere(
    names: KeywordNames, outside: Outside, tmp_path: Path, call: str, kind: str
) -> None:
    names.open(b"mine", create=True)
    names.mkdir(b"folder")
    plant(kind, tmp_path / "data/names/planted", outside)
    for path in (
        b"planted",
        b"planted/new",
        b"planted/secret",
        b"planted/sub",
        b"planted/sub/new",
        b"planted/sub/secret",
    ):
        with pytest.raises(OSError):
            CALLS[call](names, path)
    outside.check()
    assert names.readdir(b"").entries == [(b"folder", True), (b"mine", False)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "place", ["temp/x", "unlinked/x", "unlinked/000000000000ab54", "ids/ab", "ids/00/000000000000ab54"]
)
def test_what_was_planted_does_not_keep_a_server_from_starting(
    names: KeywordNames, outside: Outside, tmp_path: Path, place: str, kind: str
) -> None:
    names.open(b"mine", create=True)
    with suppress(FileExistsError):
        plant(kind, tmp_path / "data" / place, outside)
    again = KeywordNames(RecordTree(tmp_path / "data"), 1, LAYOUT)
    assert again.readdir(b"").entries == [(b"mine", False)]
    assert [file for file, _ in again.list_pending()] == []
    again.close()


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
