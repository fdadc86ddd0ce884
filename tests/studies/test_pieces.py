"""Pieces of work: each done once, kept at once, whoever does it and whenever."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebay.model.errors import BadInput
from forebay.studies.finished_pieces import Interrupted, Store, run_all
from forebay.work import Gone
from forebay.work.workers import Crew, Work
from support.work import die, square

KEYS = [f"a/{i}" for i in range(6)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "pieces", {"seed": 1})
    made.open()
    return made


@pytest.mark.parametrize("workers", [1, 2])
def test_all_pieces_are_done_whatever_the_number_of_workers(store: Store, workers: int) -> None:
    told: list[int] = []
    run_all(KEYS, square, store, workers=workers, progress=told.append)
    assert [int(store.get(key)[0]) for key in KEYS] == [0, 1, 4, 9, 16, 25]
    assert told == list(range(7))


def test_after_an_interrupt_what_is_done_stays_and_is_not_done_again(store: Store) -> None:
    done: list[str] = []

    def interrupted(key: str) -> np.ndarray:
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(key)
        return square(key)

    with pytest.raises(Interrupted, match="4 of 6 pieces"):
        run_all(KEYS, interrupted, store, workers=1, progress=lambda _: None)
    done.clear()
    run_all(KEYS, interrupted, store, workers=1, progress=lambda _: None)
    assert done == KEYS[4:]


def test_a_piece_that_nobody_survives_is_told_and_all_others_are_done(store: Store) -> None:
    with pytest.raises(Interrupted, match=r"piece a/3: its worker process died .* 5 of 6 pieces are saved") as told:
        run_all(KEYS, die, store, workers=2, progress=lambda _: None)
    assert not told.value.by_user
    assert [key for key in KEYS if key not in store] == ["a/3"]
    run_all(KEYS, square, store, workers=2, progress=lambda _: None)
    assert all(key in store for key in KEYS)


class Leaving:
    """Workers who go away after so many pieces."""

    def __init__(self, pieces: int) -> None:
        self._left = pieces
        self._given: list[tuple[int, object]] = []

    @contextmanager
    def crew(self, work: Work) -> Iterator[Crew]:
        self._work = work
        yield self

    def size(self) -> int:
        return 1

    def give(self, number: int, piece: object) -> None:
        self._given.append((number, piece))

    def wait(self) -> list[tuple[int, Any]]:
        if not self._left:
            raise Gone("dask://h:1: has no workers, after 60 s")
        self._left -= 1
        number, piece = self._given.pop(0)
        return [(number, self._work(piece))]


def test_when_all_workers_go_away_what_is_done_stays_and_that_is_told(store: Store) -> None:
    with pytest.raises(Interrupted, match=r"^dask://h:1: has no workers, after 60 s; 2 of 6 pieces are saved$"):
        run_all(KEYS, square, store, workers=Leaving(2), progress=lambda _: None)
    assert [key in store for key in KEYS] == [True, True, False, False, False, False]


def test_a_piece_half_written_counts_as_not_done(store: Store, tmp_path: Path) -> None:
    (tmp_path / "pieces" / "a").mkdir()
    (tmp_path / "pieces" / "a" / "0.partial").write_bytes(b"half")
    assert KEYS[0] not in store


def test_a_folder_of_other_settings_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    store.put(KEYS[0], square(KEYS[0]))
    before = (tmp_path / "pieces" / "settings.json").read_bytes()
    with pytest.raises(BadInput, match=r"different settings \(seed\)"):
        Store(tmp_path / "pieces", {"seed": 2}).open()
    assert (tmp_path / "pieces" / "settings.json").read_bytes() == before
    Store(tmp_path / "pieces", {"seed": 1}).open()


def test_a_folder_without_a_finished_piece_is_free_for_other_settings(store: Store, tmp_path: Path) -> None:
    del store
    Store(tmp_path / "pieces", {"seed": 2}).open()
    assert '"seed": 2' in (tmp_path / "pieces" / "settings.json").read_text()


def test_a_damaged_piece_is_done_again(store: Store, tmp_path: Path) -> None:
    run_all(KEYS, square, store, workers=1, progress=lambda _: None)
    for damage in (b"", b"not an array"):
        (tmp_path / "pieces" / f"{KEYS[2]}.npy").write_bytes(damage)
        assert KEYS[2] not in store
        run_all(KEYS, square, store, workers=1, progress=lambda _: None)
        assert store.get(KEYS[2])[0] == 4


def test_damaged_settings_are_told(store: Store, tmp_path: Path) -> None:
    store.put(KEYS[0], square(KEYS[0]))
    for damage in ("", "[]", "{"):
        (tmp_path / "pieces" / "settings.json").write_text(damage)
        with pytest.raises(BadInput, match=r"(damaged|different settings)"):
            store.open()
