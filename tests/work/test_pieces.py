"""Pieces done by processes: each has its result, whoever dies."""

import os
import pickle
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from forebay.work import Died, run_pieces
from support import work
from support.processes import wait_until


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_piece_has_its_result(workers: int) -> None:
    assert sorted(run_pieces(workers, work.doubled, range(20))) == [(n, 2 * n) for n in range(20)]


def test_results_come_in_the_order_of_the_pieces_if_asked_to() -> None:
    found = list(run_pieces(2, work.unlike, range(12), in_order=True))
    assert found == [(n, 2 * n) for n in range(12)]


def test_without_pieces_nobody_is_started() -> None:
    assert list(run_pieces(2, work.doubled, iter(()))) == []


def test_one_process_or_one_piece_needs_no_other_process() -> None:
    assert set(run_pieces(1, work.pid, "ab")) == {("a", os.getpid()), ("b", os.getpid())}
    assert list(run_pieces(4, work.pid, "a")) == [("a", os.getpid())]


def test_work_that_is_to_be_apart_is() -> None:
    [(_, done_by)] = run_pieces(1, work.pid, "a", apart=True)
    assert done_by != os.getpid()


def test_no_more_processes_than_pieces() -> None:
    assert len({done_by for _, done_by in run_pieces(8, work.pid, range(2))}) == 2


@pytest.mark.parametrize("in_order", [False, True])
def test_pieces_are_drawn_as_they_are_needed(in_order: bool) -> None:
    drawn: list[int] = []

    def endless() -> Iterator[int]:
        for number in count():
            drawn.append(number)
            yield number

    with closing(run_pieces(2, work.doubled, endless(), ahead=3, in_order=in_order)) as results:
        for taken, _ in enumerate(results, 1):
            assert len(drawn) <= taken + 2 * 3 + 2 * 3  # those given, and those that are ready
            if taken == 30:
                break


def test_an_error_is_the_callers_to_deal_with() -> None:
    with pytest.raises(ValueError, match="no threes"):
        list(run_pieces(2, work.refuse, range(20)))


def test_a_piece_whose_process_dies_once_is_done_again(tmp_path: Path) -> None:
    dangerous = frozenset({0, 4, 7})
    found = dict(run_pieces(2, work.deadly_once(tmp_path, dangerous), range(12)))
    assert found == {n: 2 * n for n in range(12)}
    assert {int(mark.name) for mark in tmp_path.iterdir()} == dangerous


def test_a_piece_whose_process_dies_while_it_sends_the_result_is_done_again(tmp_path: Path) -> None:
    found = dict(run_pieces(2, work.dies_while_sending(tmp_path), range(3)))
    assert {number: result[-1] for number, result in found.items() if not isinstance(result, Died)} == {
        0: 0,
        1: 1,
        2: 2,
    }


@pytest.mark.parametrize("unsendable", [work.lambdas, work.lambda_raised])
def test_what_cannot_be_sent_is_an_error_and_no_death(unsendable: Callable[[int], object]) -> None:
    with pytest.raises((AttributeError, pickle.PicklingError, RuntimeError), match="lambda"):
        list(run_pieces(2, unsendable, range(3)))


@pytest.mark.parametrize("ahead", [1, 4])
def test_only_the_piece_that_kills_its_process_again_has_died(ahead: int) -> None:
    found = list(run_pieces(2, work.deadly, range(12), ahead=ahead, in_order=True))
    assert [n for n, _ in found] == list(range(12))
    assert [n for n, result in found if isinstance(result, Died)] == [0, 5, 10]
    assert all(result == 2 * n for n, result in found if n % 5)


def test_given_up_half_way_nothing_of_it_runs_on_and_everything_else_does(tmp_path: Path) -> None:
    with closing(_begun(tmp_path / "others")) as others:
        with closing(_begun(tmp_path / "mine")):
            [mine] = work.at_work(tmp_path / "mine").values()
            assert work.alive(mine)
        wait_until(lambda: not work.alive(mine), "it runs on")
        [other] = work.at_work(tmp_path / "others").values()
        assert work.alive(other)
        (tmp_path / "others" / "go").touch()
        assert list(others) == [(1, 2)]


def _begun(folder: Path) -> Generator[tuple[int, int | Died], None, None]:
    """With one piece done, and one under way."""
    folder.mkdir()
    results = run_pieces(2, work.first_alone(folder), range(2))
    assert next(results) == (0, 0)
    wait_until(lambda: bool(work.at_work(folder)), "it did not begin")
    return results
