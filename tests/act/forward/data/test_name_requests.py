"""The names of files, against a plain folder as the oracle; and killed after every step that changes the disk."""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.act.forward.data.name_database import DATABASE, NameStore
from forebay.act.forward.data.paths import clean_path
from forebay.model.layout import ANY, GRAIN, Layout
from support.examples import examples
from support.forward import scratch
from support.forward_names import KeywordNames, SteppedStore, entries, outcome

DEFAULT = Layout(count=4, size=GRAIN)


class Killed(Exception):
    """As by kill -9, after a step."""


class Tree:
    """KeywordNames that can be killed and opened again: then they have the bytes that were there at that moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.dies_after = -1
        self.steps = 0
        self._copies = count(1)
        self._ids = count(101)
        self.names = self._opened()

    def _opened(self) -> KeywordNames:
        return KeywordNames(SteppedStore(self.folder, self._step), 4, DEFAULT, new_id=lambda: next(self._ids))

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.dies_after:
            self.left_behind = self.folder.with_name(f"{self.folder.name}-{next(self._copies)}")
            shutil.copytree(self.folder, self.left_behind)
            raise Killed

    def again(self) -> None:
        self.dies_after = -1
        self.names.close()
        self.folder = getattr(self, "left_behind", self.folder)
        self.names = self._opened()

    def listing(self, path: bytes = b"") -> dict[bytes, bool]:
        listed = {}
        for name, is_folder in entries(self.names, path):
            whole = path + b"/" + name if path else name
            listed[whole] = is_folder
            if is_folder:
                listed |= self.listing(whole)
        return listed

    def check(self) -> set[int]:
        """What must always hold; the ids of all files that have a name."""
        links: Counter[int] = Counter()
        listing = self.listing()
        for path, is_folder in listing.items():
            status = self.names.stat(path)
            assert status.is_folder == is_folder
            if not is_folder:
                assert status.file is not None
                assert self.names.attach(status.file) == status
                links[status.file] += 1
        for path, is_folder in listing.items():
            below = [other for other in listing if listing[other] and other.rpartition(b"/")[0] == path]
            expected = 2 + len(below) if is_folder else links[self.names.stat(path).file or 0]
            assert self.names.stat(path).links == expected
        assert self.names.stat(b"").links == 2 + sum(1 for path in listing if listing[path] and b"/" not in path)
        assert not {file for file, _ in self.names.list_pending()} & set(links)
        return set(links)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    made = Tree(tmp_path / "tree")
    yield made
    made.names.close()


def refusal(do: Callable[..., Any], *args: Any, **options: Any) -> int:
    """The errno of an error."""
    with pytest.raises(OSError) as caught:
        do(*args, **options)
    assert caught.value.errno is not None
    return caught.value.errno


# The same, done to a plain folder


def _make(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


ORACLE: dict[str, Callable[..., Any]] = {
    "create": _make,
    "unlink": os.unlink,
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "rename": os.rename,
    "link": os.link,
}


def plain_listing(folder: Path) -> dict[bytes, bool]:
    return {os.fsencode(path.relative_to(folder)): path.is_dir() for path in folder.rglob("*")}


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
CHANGES = st.one_of(
    st.tuples(st.sampled_from(["create", "unlink", "mkdir", "rmdir"]), PATHS),
    st.tuples(st.sampled_from(["rename", "link"]), PATHS, PATHS),
)


def rebuild(plain: Path, tree: Tree) -> None:
    """Make a plain folder that is like the tree, with the same links."""
    first: dict[int, Path] = {}
    for path, is_folder in sorted(tree.listing().items()):
        place, file = plain / os.fsdecode(path), tree.names.stat(path).file or 0
        if is_folder:
            place.mkdir()
        elif file in first:
            place.hardlink_to(first[file])
        else:
            _make(place)
            first[file] = place


def do(names: KeywordNames, what: str, *paths: str) -> Any:
    where = [path.encode() for path in paths]
    if what == "create":
        return names.open(where[0], create=True, exclusive=True)
    return getattr(names, what)(*where)


@settings(max_examples=examples(200))
@given(changes=st.lists(st.tuples(CHANGES, st.integers(-9, 9)), max_size=25))
def test_names_change_as_in_a_plain_folder_and_a_kill_leaves_before_or_after(
    changes: list[tuple[tuple[str, ...], int]],
) -> None:
    with scratch() as base:
        plain = base / "plain"
        plain.mkdir()
        tree = Tree(base / "tree")
        owned: set[int] = set()  # files that somebody was told of, and that nobody said are forgotten
        for (what, *paths), dies in changes:
            before = plain_listing(plain)
            expected = outcome(ORACLE[what], *(plain / path for path in paths))
            after = plain_listing(plain)
            tree.steps, tree.dies_after = 0, dies
            try:
                assert outcome(do, tree.names, what, *paths) == expected
            except Killed:
                tree.again()
                now = tree.listing()
                assert now in (before, after)
                if now != after:  # the oracle goes back to where we are
                    shutil.rmtree(plain)
                    plain.mkdir()
                    rebuild(plain, tree)
            else:
                assert tree.listing() == after
            tree.dies_after = -1
            named = tree.check()
            pending = {file for file, _ in tree.names.list_pending()}
            assert owned <= named | pending  # whose objects are there has a name, or is on the list to be forgotten
            owned |= named
        tree.names.close()


SCRIPT: list[tuple[str, tuple[str, ...]]] = [
    ("create", ("d/new",)),
    ("unlink", ("d/old",)),
    ("rename", ("d/old", "moved")),
    ("rename", ("d/old", "other")),
    ("mkdir", ("d/e",)),
    ("rmdir", ("empty",)),
    ("rename", ("d", "empty")),
    ("link", ("d/old", "d/second")),
]


@pytest.mark.parametrize(("what", "paths"), SCRIPT)
def test_killed_after_every_step_each_change_is_done_or_not(tmp_path: Path, what: str, paths: tuple[str, ...]) -> None:
    seen = set()
    for dies in range(1, 20):
        tree = Tree(tmp_path / f"tree{dies}")
        for folder in (b"d", b"empty"):
            tree.names.mkdir(folder, layout=Layout(count=2))
        for file in (b"d/old", b"other"):
            tree.names.open(file, create=True)
        before = tree.listing()
        tree.steps, tree.dies_after = 0, dies
        try:
            do(tree.names, what, *paths)
        except Killed:
            tree.again()
            seen.add("after" if tree.listing() != before else "before")
            tree.check()
            for path, is_folder in tree.listing().items():
                assert tree.names.layout(path).count == 2 or path == b"other" or not is_folder
            tree.names.close()
        else:
            tree.names.close()
            assert dies > 1
            break
    assert "after" in seen


# What names can be


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (b"../a", errno.EINVAL),
        (b"a/../b", errno.EINVAL),
        (b"/a", errno.EINVAL),
        (b"a\0b", errno.EINVAL),
        (b"a" * 256, errno.ENAMETOOLONG),
        (b"a/" * 2001, errno.ENAMETOOLONG),
    ],
)
def test_a_name_that_can_not_be_is_refused_by_everything(tree: Tree, path: bytes, refused: int) -> None:
    names = tree.names
    names.mkdir(b"a")
    for do_it in (names.stat, names.unlink, names.mkdir, names.rmdir, names.layout):
        assert refusal(do_it, path) == refused
    assert refusal(names.open, path, create=True) == refused
    assert refusal(names.rename, b"a", path) == refused
    assert refusal(names.rename, path, b"b") == refused
    assert refusal(names.set_attributes, path, mode=0o600) == refused


@given(st.binary(min_size=1, max_size=205).filter(lambda name: not {b"/"[0], 0} & set(name)))
def test_names_are_any_bytes(name: bytes) -> None:
    if name in (b".", b".."):
        return
    with scratch() as folder:
        tree = Tree(folder)
        tree.names.open(name, create=True)
        assert entries(tree.names) == [(name, False)]
        tree.names.close()


@given(st.binary(max_size=60))
def test_a_clean_path_stays_as_it_is(path: bytes) -> None:
    try:
        once = clean_path(path)
    except OSError:
        return
    assert clean_path(once) == once
    assert not once.startswith(b"/")
    assert b".." not in once.split(b"/")


def test_the_longest_name_and_path_that_there_can_be(tree: Tree) -> None:
    path = b"x" * 255
    tree.names.mkdir(path)
    while len(path) + 200 < 4000:
        path += b"/" + b"y" * 199
        tree.names.mkdir(path)
    tree.names.open(path + b"/z", create=True)
    assert entries(tree.names, path) == [(b"z", False)]


# Files and folders


def test_an_open_file_is_found_by_its_id_wherever_it_is_moved(tree: Tree) -> None:
    record, created = tree.names.open(b"a", create=True)
    assert created
    tree.names.mkdir(b"d")
    tree.names.rename(b"a", b"d/b")
    assert record.file is not None
    assert tree.names.attach(record.file) == record
    assert tree.names.open(b"d/b") == (record, False)


def test_an_unlinked_file_is_stale_and_pending_until_it_is_forgotten(tree: Tree) -> None:
    record, _ = tree.names.open(b"a", create=True)
    assert tree.names.unlink(b"a") == [(101, record.object_layout)]
    assert refusal(tree.names.attach, 101) == errno.ESTALE
    tree.again()
    assert list(tree.names.list_pending()) == [(101, record.object_layout)]
    tree.names.forgotten(101)
    tree.names.forgotten(101)
    assert list(tree.names.list_pending()) == []


def test_a_file_that_is_renamed_over_is_to_be_forgotten(tree: Tree) -> None:
    for name in (b"a", b"b"):
        tree.names.open(name, create=True)
    old = tree.names.stat(b"b")
    assert tree.names.rename(b"a", b"b") == [(102, old.object_layout)]
    assert tree.names.stat(b"b").file == 101
    assert [file for file, _ in tree.names.list_pending()] == [102]


def test_an_id_that_is_taken_is_not_given_again(tmp_path: Path) -> None:
    ids = iter([5, 5, 5, 6])
    names = KeywordNames(NameStore(tmp_path), 4, DEFAULT, new_id=lambda: next(ids))
    assert names.open(b"a", create=True)[0].file == 5
    assert names.open(b"b", create=True)[0].file == 6
    names.close()


def test_layouts_are_inherited_by_new_files_and_folders_and_existing_files_keep_theirs(tree: Tree) -> None:
    names = tree.names
    names.mkdir(b"d")
    assert names.layout(b"d") == DEFAULT
    old, _ = names.open(b"d/old", create=True)
    names.set_layout(b"d", Layout(count=2, size=2 * GRAIN, start=3))
    names.mkdir(b"d/e")
    assert names.open(b"d/e/new", create=True)[0].layout == Layout(count=2, size=2 * GRAIN, start=3)
    assert names.layout(b"d/old") == old.layout == Layout(count=4, size=GRAIN, start=102 % 4)
    own = names.open(b"d/own", create=True, layout=Layout(count=9, start=ANY))[0]
    assert own.layout == Layout(count=4, start=105 % 4)  # as wide as there are servers; the first by its id
    assert refusal(names.set_layout, b"d/old", DEFAULT) == errno.ENOTDIR
    tree.again()
    assert tree.names.layout(b"d") == Layout(count=2, size=2 * GRAIN, start=3)


def test_times_and_modes_are_kept(tree: Tree) -> None:
    names = tree.names
    names.open(b"a", create=True, mode=0o640)
    names.set_attributes(b"a", mtime=1_000, stamp=77)
    names.set_attributes(101, mode=0o100600)
    tree.again()
    record = tree.names.stat(b"a")
    assert (record.mode, record.mtime, record.time_of_change(77), record.time_of_change(78)) == (
        0o100600,
        1_000,
        1_000,
        78,
    )


def test_a_folder_has_the_time_that_was_set_until_its_names_change(tree: Tree) -> None:
    tree.names.mkdir(b"d", mode=0o700)
    tree.names.set_attributes(b"d", mtime=1_000)
    assert tree.names.stat(b"d").mtime == 1_000
    tree.names.set_attributes(b"d", mode=0o711)
    assert tree.names.stat(b"d") == tree.names.stat(b"d/.")
    assert tree.names.stat(b"d").mode == 0o40711
    tree.names.open(b"d/new", create=True)
    assert tree.names.stat(b"d").mtime > 1_000


def test_a_long_folder_is_read_in_pages(tree: Tree) -> None:
    every = [b"%03d" % number for number in range(25)]
    for name in reversed(every):
        tree.names.open(name, create=True)
    found, after, more = [], b"", True
    while more:
        listed = tree.names.readdir(b"", after, most=10)
        page, more = listed.entries, listed.more
        after = page[-1][0]
        found += [name for name, _, _ in page]
        assert len(page) <= 10
    assert found == every


@pytest.mark.parametrize(
    ("what", "paths", "expected"),
    [
        ("unlink", (b"none",), errno.ENOENT),
        ("unlink", (b"d",), errno.EISDIR),
        ("rmdir", (b"",), errno.EBUSY),
        ("rmdir", (b"f",), errno.ENOTDIR),
        ("rmdir", (b"d",), errno.ENOTEMPTY),
        ("mkdir", (b"d",), errno.EEXIST),
        ("mkdir", (b"none/a",), errno.ENOENT),
        ("mkdir", (b"f/a",), errno.ENOTDIR),
        ("readdir", (b"f",), errno.ENOTDIR),
        ("rename", (b"none", b"a"), errno.ENOENT),
        ("rename", (b"f", b"d"), errno.EISDIR),
        ("rename", (b"d", b"f"), errno.ENOTDIR),
        ("rename", (b"d", b"d/e"), errno.EINVAL),
        ("rename", (b"", b"a"), errno.EBUSY),
        ("open", (b"none",), errno.ENOENT),
        ("open", (b"d",), errno.EISDIR),
    ],
)
def test_what_can_not_be_done_says_why_and_changes_nothing(
    tree: Tree, what: str, paths: tuple[bytes, ...], expected: int
) -> None:
    tree.names.mkdir(b"d")
    for name in (b"f", b"d/x"):
        tree.names.open(name, create=True)
    before = tree.listing()
    assert refusal(getattr(tree.names, what), *paths) == expected
    assert tree.listing() == before
    tree.check()


# Asked again, when the first answer was lost


def test_what_was_done_already_is_no_error_when_asked_again(tree: Tree) -> None:
    names = tree.names
    first, _ = names.open(b"a", create=True, exclusive=True, key=9)
    assert names.open(b"a", create=True, exclusive=True, key=9, again=True) == (first, True)
    names.mkdir(b"d", key=8)
    names.mkdir(b"d", key=8, again=True)
    names.rename(b"a", b"b")
    assert names.rename(b"a", b"b", again=True) == []
    names.unlink(b"b")
    assert names.unlink(b"b", again=True) == []
    names.rmdir(b"d")
    names.rmdir(b"d", again=True)
    assert tree.listing() == {}


def test_what_another_made_is_an_error_also_when_asked_again(tree: Tree) -> None:
    names = tree.names
    names.open(b"a", create=True, key=1)
    names.mkdir(b"d", key=1)
    assert refusal(names.open, b"a", create=True, exclusive=True, key=2, again=True) == errno.EEXIST
    assert refusal(names.mkdir, b"d", key=2, again=True) == errno.EEXIST
    assert refusal(names.rename, b"none", b"nowhere", again=True) == errno.ENOENT


def test_a_full_disk_leaves_nothing_half_made(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(NameStore, "put_name", full)
        assert refusal(tree.names.open, b"a", create=True) == errno.ENOSPC
        assert refusal(tree.names.mkdir, b"d") == errno.ENOSPC
    assert tree.listing() == {}
    tree.check()


def test_a_database_that_can_not_grow_says_that_the_disk_is_full(tmp_path: Path) -> None:
    store = NameStore(tmp_path)
    names = KeywordNames(store, 4, DEFAULT)
    pages = store._run("PRAGMA page_count").fetchone()[0]
    store._run(f"PRAGMA max_page_count = {pages + 2}")

    def fill() -> None:
        for number in range(1000):
            names.open(b"%0200d" % number, create=True)

    assert refusal(fill) == errno.ENOSPC
    created = len(names.readdir(b"").entries)
    store._run("PRAGMA max_page_count = 1000000")
    names.open(b"more", create=True)
    assert len(names.readdir(b"").entries) == created + 1
    names.close()


@pytest.mark.parametrize("cut", [0, 1, 31, 32, 33, 500, 4096, 9000])
def test_a_log_that_was_cut_leaves_a_state_that_was_there(tmp_path: Path, cut: int) -> None:
    """As after a power failure: the database recovers up to a complete transaction."""
    tree = Tree(tmp_path / "tree")
    states = [tree.listing()]
    for number in range(3):
        tree.names.mkdir(b"%d" % number)
        states.append(tree.listing())
    copy = tmp_path / "copy"
    shutil.copytree(tree.folder, copy)
    log = copy / f"{DATABASE}-wal"
    with log.open("r+b") as file:
        file.truncate(max(0, log.stat().st_size - cut))
    (copy / f"{DATABASE}-shm").unlink()
    tree.names.close()
    again = Tree(copy)
    assert again.listing() in states
    again.check()
    again.names.close()


def test_what_is_synced_is_the_log_and_its_folder(tree: Tree) -> None:
    tree.names.open(b"a", create=True)
    handles = tree.names.descriptors_to_sync()
    inodes = {os.fstat(handle).st_ino for handle in handles}
    for handle in handles:
        os.close(handle)
    assert inodes == {path.stat().st_ino for path in (tree.folder / f"{DATABASE}-wal", tree.folder)}


def test_a_checkpoint_shortens_the_log_and_loses_nothing(tree: Tree) -> None:
    before = {b"%d" % number: True for number in range(50)}
    for path in before:
        tree.names.mkdir(path)
    log = tree.folder / f"{DATABASE}-wal"
    tree.names.names.checkpoint()
    tree.names.mkdir(b"last")
    size = log.stat().st_size
    for number in range(5):
        tree.names.mkdir(b"more %d" % number)
    assert log.stat().st_size == size  # the log begins anew after a checkpoint
    tree.again()
    assert set(before) < set(tree.listing())


def test_soon_after_a_start_a_file_that_loses_its_name_may_still_be_open(tmp_path: Path) -> None:
    with closing(KeywordNames(NameStore(tmp_path), 4, DEFAULT, known_at=inf)) as names:
        file = names.open(b"a", create=True)[0].file or 0
        assert names.unlink(b"a") == []
        assert names.names.close_files("", [(file, 1)]).forget == []
        assert names.attach(file).links == 0
