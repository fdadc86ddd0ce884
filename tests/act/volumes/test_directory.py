"""Folders as volumes, and by them the life of any volume: any order of makes, releases and crashes."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forebay.act.volumes import directory
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.volume import NotOurs, WrongOwner
from support.examples import examples
from support.users import as_ordinary_user
from support.volumes import GROUP, NAME, USER, Killed, dying, sh

NAMES = [f"{digit * 32}.{number}" for digit in "ab" for number in (0, 1)]
names = st.sampled_from(NAMES)
MEMORY = Path("/dev/shm")  # where to be sure that something is written takes no time


class Lives(RuleBasedStateMachine):
    """What an agent believes to have made, beside what is on the disk; every call is by a new agent."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.root = Path(self.folder.name)
        (self.root / "theirs").mkdir()
        self.whole: set[str] = set()
        self.unsure: set[str] = set()

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(name=names)
    def make(self, name: str) -> None:
        made = Directory(root=self.root).make(name, 4096, uid=USER, gid=GROUP)
        (made.path / "of").write_text(name)
        self.whole.add(name)
        self.unsure.discard(name)

    @rule(name=names)
    def release(self, name: str) -> None:
        Directory(root=self.root).release(name)
        self.whole.discard(name)
        self.unsure.discard(name)

    @rule(name=names, step=st.integers(0, 8))
    def make_and_die(self, name: str, step: int) -> None:
        try:
            Directory(root=self.root, after=dying(step, Killed())).make(name, 4096, uid=USER, gid=GROUP)
        except Killed:
            self.unsure.add(name)
        else:
            self.unsure.discard(name)
            self.whole.add(name)

    @rule(name=names, step=st.integers(0, 5))
    def release_and_die(self, name: str, step: int) -> None:
        try:
            Directory(root=self.root, after=dying(step, Killed())).release(name)
        except Killed:
            self.unsure.add(name)
        else:
            self.unsure.discard(name)
        self.whole.discard(name)

    @invariant()
    def what_was_made_is_found_and_nothing_else(self) -> None:
        found = {made.name: made.state for made in Directory(root=self.root).find()}
        assert self.whole <= set(found) <= self.whole | self.unsure
        assert all(found[name] == "whole" for name in self.whole - self.unsure)

    @invariant()
    def nothing_lies_about_that_is_not_found(self) -> None:
        found = {made.name for made in Directory(root=self.root).find()}
        assert {path.name for path in self.root.iterdir()} - {".forebay", "theirs"} <= found

    @invariant()
    def what_others_have_is_there(self) -> None:
        assert (self.root / "theirs").is_dir()


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=examples(60), stateful_step_count=25)


def test_what_is_mounted_inside_by_somebody_else_stops_the_release(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    made = Directory(root=tmp_path).make(NAME, 4096, uid=USER, gid=GROUP)
    (made.path / "theirs").mkdir()
    sh("mount", "-t", "tmpfs", "theirs", made.path / "theirs")
    try:
        (made.path / "theirs" / "thesis").write_text("three years")
        with pytest.raises(NotOurs, match="theirs: something without Forebay's mark is mounted there"):
            Directory(root=tmp_path).release(NAME)
        assert (made.path / "theirs" / "thesis").read_text() == "three years"
    finally:
        sh("umount", made.path / "theirs")
    Directory(root=tmp_path).release(NAME)
    assert Directory(root=tmp_path).find() == []


def test_links_out_of_the_volume_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis").write_text("three years")
    root = tmp_path / "disk"
    root.mkdir()
    made = Directory(root=root).make(NAME, 4096, uid=USER, gid=GROUP)
    (made.path / "link").symlink_to(outside)
    Directory(root=root).release(NAME)
    assert (outside / "thesis").read_text() == "three years"


DEEP = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(6000):
    os.mkdir("d")
    os.chdir("d")
open("file", "w").write("x" * 10000)
"""


def test_folders_deeper_than_python_or_a_path_can_follow_keep_nobody_from_working(tmp_path: Path) -> None:
    made = Directory(root=tmp_path).make(NAME, 4096, uid=USER, gid=GROUP)
    sh(sys.executable, "-SEc", DEEP, made.path)
    assert Directory(root=tmp_path).usable() > 0
    Directory(root=tmp_path).release(NAME)
    assert os.listdir(tmp_path / ".forebay") == []  # noqa: PTH208


def test_of_more_files_than_are_counted_the_size_asked_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_MOST_FILES", 10)
    volumes = Directory(root=tmp_path)
    made = volumes.make(NAME, 10**9, uid=USER, gid=GROUP)
    [record] = volumes.list_records()
    for count in range(10):
        (made.path / str(count)).write_text("x")
    assert volumes._occupied_bytes(record) < 10**6
    (made.path / "more").write_text("x")
    assert volumes._occupied_bytes(record) == 10**9


def test_it_says_that_no_limit_is_kept(tmp_path: Path) -> None:
    made = Directory(root=tmp_path).make(NAME, 4096, uid=USER, gid=GROUP, ceiling=1e6)
    assert (made.enforced, made.ceiling) == (False, None)


def test_without_root_a_volume_is_made_used_and_released() -> None:
    with as_ordinary_user() as root:
        volumes = Directory(root=root)
        made = volumes.make(NAME, 4096, uid=os.geteuid(), gid=os.getegid(), mode=0o750)
        assert (made.state, made.path.stat().st_mode & 0o777) == ("whole", 0o750)
        (made.path / "result").write_text("42")
        volumes.release(NAME)
        assert (volumes.find(), os.listdir(root)) == ([], [".forebay"])  # noqa: PTH208


def test_without_root_folders_that_their_owner_closed_are_released_too() -> None:
    with as_ordinary_user() as root:
        volumes = Directory(root=root)
        made = volumes.make(NAME, 4096, uid=os.geteuid(), gid=os.getegid(), mode=0)
        made.path.chmod(0o700)
        (made.path / "cache" / "deeper").mkdir(parents=True)
        (made.path / "cache" / "deeper" / "module").touch()
        for closed in (made.path / "cache" / "deeper", made.path / "cache", made.path):
            closed.chmod(0)
        volumes.release(NAME)
        assert (volumes.find(), os.listdir(root)) == ([], [".forebay"])  # noqa: PTH208


def test_without_root_a_volume_for_somebody_else_is_refused_with_the_way_out() -> None:
    with as_ordinary_user() as root:
        volumes = Directory(root=root)
        with pytest.raises(WrongOwner, match=r"cannot give it to uid 1, gid 1: .* Run the agent as root"):
            volumes.make(NAME, 4096, uid=1, gid=1)
        assert (volumes.find(), os.listdir(root)) == ([], [".forebay"])  # noqa: PTH208
