"""Copies into and out of a job's space."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.slurm.burst_buffer.staging import KEPT, stage_in, stage_out
from forebay.act.staging.links import is_inside
from forebay.act.staging.process import take_rights
from forebay.model.errors import BadInput, UserError

USER = 12345


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    return made


def tree(path: Path) -> dict[str, object]:
    """All that is in a folder: modes, times, and content or where links lead."""
    found: dict[str, object] = {}
    for each in sorted(path.rglob("*")):
        seen = each.lstat()
        name = str(each.relative_to(path))
        if each.is_symlink():
            found[name] = str(each.readlink())
        else:
            found[name] = (stat.S_IMODE(seen.st_mode), seen.st_mtime_ns, each.read_bytes() if each.is_file() else None)
    return found


def make_tree(path: Path) -> None:
    (path / "sub" / "deep").mkdir(parents=True)
    (path / "a").write_bytes(os.urandom(3_000_000))
    (path / "sub" / "empty").touch()
    (path / "sub" / "run").write_text("#!/bin/sh\n")
    (path / "sub" / "run").chmod(0o750)
    (path / "sub" / "up").symlink_to("../a")
    (path / "here").symlink_to("sub/deep")
    for name, when in (("a", 10**9), ("sub/run", 10**9 + 5), ("sub/deep", 10**9 + 7), ("sub", 10**9 + 9)):
        os.utime(path / name, ns=(when * 10**9 + 123, when * 10**9 + 456))
    (path / "sub").chmod(0o755)


def test_a_tree_goes_in_and_out_with_modes_times_and_links(tmp_path: Path, volume: Path) -> None:
    make_tree(tmp_path / "own")
    os.utime(tmp_path / "own", (5, 5))
    stage_in(volume, [(str(tmp_path / "own"), "in/data")])
    stage_out([volume], [("in/data", str(tmp_path / "back"))])
    wanted = tree(tmp_path / "own")
    assert wanted and tree(volume / "in" / "data") == wanted and tree(tmp_path / "back") == wanted
    assert (tmp_path / "back").stat().st_mtime == 5


def test_to_copy_again_changes_what_is_there_into_what_is_new(tmp_path: Path, volume: Path) -> None:
    make_tree(tmp_path / "own")
    stage_in(volume, [(str(tmp_path / "own"), "data")])
    (tmp_path / "own" / "a").write_bytes(b"short")
    (tmp_path / "own" / "here").unlink()
    (tmp_path / "own" / "here").symlink_to("sub")
    stage_in(volume, [(str(tmp_path / "own"), "data")])
    assert tree(volume / "data") == tree(tmp_path / "own")


def test_a_file_that_is_named_through_a_link_is_copied_itself(tmp_path: Path, volume: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    stage_in(volume, [(str(tmp_path / "link"), "x")])
    assert (volume / "x").read_text() == "content" and not (volume / "x").is_symlink()


@pytest.mark.parametrize("points", ["/etc/passwd", "..", "../../etc", "sub/../../x", "sub/.."])
def test_a_link_that_leads_out_of_what_is_copied_is_refused(tmp_path: Path, volume: Path, points: str) -> None:
    (tmp_path / "own" / "sub").mkdir(parents=True)
    (tmp_path / "own" / "link").symlink_to(points)
    with pytest.raises(BadInput, match=r"link: is a link to .*, outside the copied tree"):
        stage_in(volume, [(str(tmp_path / "own"), "x")])


@pytest.mark.parametrize("way", [stage_in, stage_out])
def test_nothing_is_reached_through_a_link_in_the_volume(
    tmp_path: Path, volume: Path, way: Callable[..., None]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("not of this job")
    (volume / "way").symlink_to(tmp_path / "other")
    pair = (str(tmp_path / "other" / "file"), "way/new") if way is stage_in else ("way/file", str(tmp_path / "out"))
    with pytest.raises(UserError, match="way: is a link; staging does not follow links"):
        way(volume if way is stage_in else [volume], [pair])
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["file"]
    assert not (tmp_path / "out").exists()


def test_a_link_where_a_folder_is_to_be_is_refused(tmp_path: Path, volume: Path) -> None:
    make_tree(tmp_path / "own")
    (tmp_path / "other").mkdir()
    (volume / "data").symlink_to(tmp_path / "other")
    with pytest.raises(BadInput, match="data: is a link"):
        stage_in(volume, [(str(tmp_path / "own"), "data")])
    assert list((tmp_path / "other").iterdir()) == []


def test_a_failing_stage_out_marks_the_volume_and_says_where_the_data_stay(volume: Path) -> None:
    (volume / "out").write_text("result")
    with pytest.raises(UserError, match=f"/nowhere: no such file or directory; the data stays in {volume}"):
        stage_out([volume], [("out", "/nowhere/out")])
    assert (volume / KEPT).is_file()


def test_out_of_a_split_grant_comes_what_any_of_its_volumes_has(tmp_path: Path, volume: Path) -> None:
    second = tmp_path / "second"
    for each, number in ((volume, 1), (second, 2)):
        (each / "all").mkdir(parents=True)
        (each / "all" / str(number)).write_text(f"part {number}")
    (second / "log").write_text("told")
    stage_out([volume, second], [("all", str(tmp_path / "all")), ("log", str(tmp_path / "log"))])
    assert {path.name: path.read_text() for path in (tmp_path / "all").iterdir()} == {"1": "part 1", "2": "part 2"}
    assert (tmp_path / "log").read_text() == "told"


def test_a_file_that_two_volumes_have_is_copied_from_neither(tmp_path: Path, volume: Path) -> None:
    second = tmp_path / "second"
    for each in (volume, second):
        (each / "all").mkdir(parents=True)
        (each / "all" / "x").write_text(each.name)
    words = f"all/x: is in {volume} and in {second}; give them different names; the data stays in {volume}, {second}"
    with pytest.raises(UserError, match=words):
        stage_out([volume, second], [("all", str(tmp_path / "all"))])
    assert not (tmp_path / "all").exists() and (volume / KEPT).is_file()


def test_what_can_be_no_file_is_refused(tmp_path: Path, volume: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="pipe: is not a file, folder or link"):
        stage_in(volume, [(str(tmp_path / "pipe"), "x")])


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("relative", "x"), "relative: must be an absolute path"),
        (("/etc/hostname", "../x"), "must be a path inside"),
        (("/etc/hostname", "/x"), "must be a path inside"),
        (("/etc/hostname", ""), "must be a path inside"),
        (("/no/such/file", "x"), "/no/such: no such file or directory"),
        (("/", "x"), "is the root folder"),
    ],
)
def test_bad_pairs_are_refused_in_one_line(volume: Path, pair: tuple[str, str], words: str) -> None:
    with pytest.raises(BadInput, match=words) as error:
        stage_in(volume, [pair])
    assert "\n" not in str(error.value) and list(volume.iterdir()) == []


def test_a_volume_that_is_on_another_machine_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not on this machine"):
        stage_in(tmp_path / "nothing", [("/etc/hostname", "x")])


def test_no_part_of_a_file_is_left_where_the_rest_finds_no_room(
    tmp_path: Path, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(BadInput, match="volume/x: no space left on device"):
        stage_in(volume, [(str(tmp_path / "file"), "x")])
    assert list(volume.iterdir()) == []


def test_nothing_is_copied_as_root() -> None:
    with pytest.raises(BadInput, match="must not be root's"):
        take_rights(0, 100)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_whoever_copies_has_only_the_rights_of_the_user() -> None:
    code = (
        "import os, sys; from forebay.act.staging.process import take_rights; take_rights(12345, 12345);"
        "print(os.getresuid(), os.getresgid(), os.getgroups()); os.setuid(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == f"{(USER,) * 3} {(USER,) * 3} [{USER}]\n"
    assert "PermissionError" in done.stderr


steps = st.lists(st.sampled_from(["..", "a", "b", ".", ""]), min_size=1, max_size=6)


@given(points=steps, depth=st.integers(1, 4))
def test_a_link_that_is_taken_for_an_inner_one_never_leaves_the_top(points: list[str], depth: int) -> None:
    """By walking it step by step: no step may go above the top."""
    text = "/".join(points)
    if not text or not is_inside(text, depth):
        return
    assert not text.startswith("/")
    at = depth - 1
    for step in points:
        at += -1 if step == ".." else step not in (".", "")
        assert at >= 0
