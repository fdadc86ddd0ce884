"""Copies of trees: what is kept, what is refused, and what a copier leaves that is killed in any moment."""

from __future__ import annotations

import os
import signal
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.act.staging import copier, local_folders
from forebay.act.staging.copier import Copier
from forebay.act.staging.journal import Journal
from forebay.act.staging.local_folders import LocalFile, LocalFolder
from forebay.act.staging.path_pairs import find_trees, open_volume
from forebay.model.errors import UserError
from support.processes import limited

PIECE = 1000


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty volume; files of more than 1,000 bytes are copied in pieces."""
    monkeypatch.setattr(copier, "PIECE", PIECE)
    monkeypatch.setattr(copier, "_ZEROS", bytes(PIECE))
    made = tmp_path / "space"
    made.mkdir()
    return made


def stage_in(source: Path, space: Path, journal: int | None = None) -> Copier:
    trees, missing = find_trees("in", ((str(source), "copy"),), [open_volume(str(space))])
    assert not missing
    made = Copier(Journal(journal), "tag.forebay")
    made.copy(trees)
    made.settle(trees)
    return made


def tree(path: Path) -> dict[str, tuple[int, int, object]]:
    found: dict[str, tuple[int, int, object]] = {}
    for each in (path, *sorted(path.rglob("*"))):
        status = each.lstat()
        content = str(each.readlink()) if each.is_symlink() else each.read_bytes() if each.is_file() else None
        found[str(each.relative_to(path))] = (0 if each.is_symlink() else status.st_mtime_ns, status.st_mode, content)
    return found


def make_tree(path: Path) -> Path:
    (path / "folder").mkdir(parents=True)
    (path / "folder" / "small").write_bytes(b"small")
    (path / "empty").touch()
    (path / "large").write_bytes(os.urandom(3 * PIECE + 1))
    (path / "holes").write_bytes(bytes(2 * PIECE) + b"end")
    (path / "folder" / "link").symlink_to("../empty")
    (path / "folder").chmod(0o2750)
    return path


def test_a_copy_of_a_program_does_not_keep_its_set_id_bits(tmp_path: Path, space: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o6755)
    stage_in(tmp_path / "program", space)
    assert stat.S_IMODE((space / "copy").stat().st_mode) == 0o755


def _link_away(space: Path) -> None:
    (space / "elsewhere").mkdir()
    (space / "copy").symlink_to("elsewhere")


def _link_file_away(space: Path) -> None:
    (space / "copy").mkdir()
    (space / "copy" / "large").symlink_to("/etc/passwd")
    (space / "copy" / ".empty.tag.forebay").symlink_to("/etc/passwd")


def _link_large_part_away(space: Path) -> None:
    (space / "copy").mkdir()
    status = (space.parent / "source" / "large").stat()
    content = repr((status.st_size, status.st_mtime_ns)).encode()
    (space / "copy" / f".large.{zlib.crc32(content):08x}.tag.forebay").symlink_to("/etc/passwd")


@pytest.mark.parametrize("trick", [_link_away, _link_file_away, _link_large_part_away])
def test_links_in_the_space_lead_no_copy_elsewhere(tmp_path: Path, space: Path, trick: Callable[[Path], None]) -> None:
    source, passwd = make_tree(tmp_path / "source"), Path("/etc/passwd").read_bytes()
    trick(space)
    with pytest.raises(UserError, match=r"staging does not follow links|[Tt]oo many levels of symbolic links"):
        stage_in(source, space)
    assert Path("/etc/passwd").read_bytes() == passwd
    assert not list(space.glob("elsewhere/*"))


def test_what_cannot_be_copied_is_named_and_all_else_is_copied_with_its_modes(tmp_path: Path, space: Path) -> None:
    source = make_tree(tmp_path / "source")
    (source / "folder" / "deep").mkdir()
    (source / "folder" / "deep" / "file").write_text("text")
    kept = tree(source)
    for name in ("1", "2"):
        os.mkfifo(source / "folder" / f"pipe{name}")
        (source / "folder" / "deep" / f"link{name}").symlink_to("/etc")
    for folder in ("folder/deep", "folder", ""):
        (source / folder).chmod(0o555)
        os.utime(source / folder, ns=(10**18, 10**18))
    with pytest.raises(UserError) as caught:
        stage_in(source, space)
    deep, pipes = source / "folder" / "deep", source / "folder"
    assert str(caught.value) == (
        "4 entries cannot be copied, leave them out: "
        f"{deep}/link1 is a link to '/etc', outside the copied tree; {deep}/link2 is a link to '/etc', outside the "
        f"copied tree; {pipes}/pipe1 is not a file, folder or link; and 1 more"
    )
    assert {name: tree(source)[name] for name in kept} == tree(space / "copy")


def test_folders_get_their_modes_when_a_staging_fails(
    tmp_path: Path, space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_tree(tmp_path / "source")
    (source / "folder").chmod(0o555)

    def fail(*_: object, **__: object) -> None:
        raise UserError("disk full")

    monkeypatch.setattr(Copier, "sync", fail)
    with pytest.raises(UserError, match="disk full"):
        stage_in(source, space)
    assert stat.S_IMODE((space / "copy" / "folder").stat().st_mode) == 0o555


class _Death:
    """Ends this process, as a signal would, at its N-th change of a file; before that, writes half of the data."""

    def __init__(self, at: int) -> None:
        self._left = at

    def around(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left:
                return change(*arguments, **options)
            if change.__name__ in ("write", "_write_bytes"):
                me, data, *rest = arguments
                change(me, data[: len(data) // 2], *rest)
            return os.kill(os.getpid(), signal.SIGKILL)

        return changed


CHANGES = ((LocalFile, "write"), (LocalFile, "truncate"), (local_folders, "_set_status"), (LocalFolder, "rename"),
           (LocalFolder, "create"), (LocalFolder, "enter"), (LocalFolder, "make_link"), (LocalFolder, "set_status"),
           (Journal, "_write_bytes"))  # fmt: skip


def run_until(death: _Death, work: Callable[[], object]) -> bool:
    """Do the work in another process; return whether it was ended before it was done."""
    process = os.fork()
    if not process:
        try:
            for owner, name in CHANGES:
                setattr(owner, name, death.around(getattr(owner, name)))
            work()
        except BaseException:
            os._exit(2)
        os._exit(0)
    status = limited(lambda: os.waitpid(process, 0))[1]
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) != 0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    yield descriptor
    os.close(descriptor)


def test_a_copier_that_is_killed_at_any_change_goes_on_where_it_was(tmp_path: Path, space: Path, journal: int) -> None:
    source = make_tree(tmp_path / "source")
    at, killed = 0, True
    while killed:
        at += 1
        for path in sorted(space.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        os.ftruncate(journal, 0)
        killed = run_until(_Death(at), lambda: stage_in(source, space, journal))
        stage_in(source, space, journal)
        assert tree(space / "copy") == tree(source), f"killed at change {at}"
        assert not list(space.rglob(".*")), f"killed at change {at}"
    assert at > 30


def test_what_was_copied_before_a_kill_is_not_copied_again(tmp_path: Path, space: Path, journal: int) -> None:
    source = make_tree(tmp_path / "source")
    stage_in(source, space, journal)
    numbers = {path: path.stat().st_ino for path in space.rglob("*") if path.is_file()}
    (source / "large").write_bytes(os.urandom(3 * PIECE + 1))
    stage_in(source, space, journal)
    again = {path for path, number in numbers.items() if path.stat().st_ino != number}
    assert again == {space / "copy" / "large"}
    assert tree(space / "copy") == tree(source)
