"""What the database keeps in memory is what it has on disk."""

import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.data.name_database import NameStore, Node

FOLDERS = (1, 2, 3)
CHANGES: dict[str, Callable[[NameStore, int, int], object]] = {
    "read": lambda store, id_, _: store.read(id_),
    "add": lambda store, id_, value: store.add(folder(id_, value)),
    "put": lambda store, id_, value: store.put(folder(id_, value)),
    "set": lambda store, id_, value: store.set(id_, mtime=value, links=value % 5),
    "remove": lambda store, id_, _: store.remove(id_),
    "drop": lambda store, id_, _: store.drop(id_),
}
TRANSACTIONS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.sampled_from(FOLDERS), st.integers(0, 99))),
        st.booleans(),
    )
)


def folder(id_: int, value: int) -> Node:
    return Node(id_, stat.S_IFDIR | 0o755, 0, 0, 2, value, value, value, 0, 0, 1, 65536, 0, 0)


@given(TRANSACTIONS)
def test_folders_are_read_as_they_are_on_disk_whatever_transactions_fail(
    tmp_path_factory: pytest.TempPathFactory, transactions: list[tuple[list[tuple[str, int, int]], bool]]
) -> None:
    path = tmp_path_factory.mktemp("names")
    store = NameStore(path)
    for changes, fails in transactions:
        with suppress(RuntimeError, FileExistsError), store:
            for change, id_, value in changes:
                CHANGES[change](store, id_, value)
            if fails:
                raise RuntimeError
        other = NameStore(path)  # has nothing in memory
        assert [store.read(id_) for id_ in FOLDERS] == [other.read(id_) for id_ in FOLDERS]
        other.close()
    store.close()


def test_a_folder_is_read_from_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = NameStore(tmp_path)
    with store:
        store.add(folder(1, 7))
    assert store.read(1) == folder(1, 7)
    monkeypatch.setattr(store, "_run", None)
    assert store.read(1) == folder(1, 7)
    monkeypatch.undo()
    store.close()
