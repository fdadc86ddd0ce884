"""One loop over many independent pieces, whoever does them.

A piece must be a matter of its own: it may be done anywhere, in any order, and more than once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import Any, TypeVar

from forebay.work.crew import Cluster, Crew, Work
from forebay.work.processes import ProcessCrew
from forebay.work.workers import Processes

Piece = TypeVar("Piece")
Workers = int | Processes | Cluster
"""Who does the work; a number is so many processes."""


def each(
    workers: Workers,
    work: Work,
    pieces: Iterable[Piece],
    *,
    ahead: int = 2,
    in_order: bool = False,
    apart: bool = False,
    preload: Sequence[str] = (),
) -> Generator[tuple[Piece, Any], None, None]:
    """Every piece with its result, or with `Died`, as they get ready; or in the order of the pieces.

    A piece whose worker dies is done again; one that kills its worker again has `Died`. Pieces are drawn from the
    iterable as there is somebody for them: `ahead` for each worker, so that it can go on while results are dealt with.
    One process alone is this one, unless the work is to be `apart`: for code that may take its process down with it,
    or that prints. Modules to `preload` are loaded once for all processes. Closing the iterator ends what was started.
    """
    hands = Processes(workers) if isinstance(workers, int) else workers
    rest = iter(pieces)
    first = list(islice(rest, 2))
    if not first:
        return  # nobody has to be started
    drawn = chain(first, rest)
    if isinstance(hands, Processes) and not apart and (hands.count == 1 or len(first) == 1):
        yield from ((piece, work(piece)) for piece in drawn)
        return
    with _crew(hands, work, apart, preload) as crew:
        yield from _results(crew, drawn, ahead, in_order)


def is_local(workers: Workers) -> bool:
    """Whether the work is done on this machine."""
    return isinstance(workers, int | Processes)


def _crew(hands: Processes | Cluster, work: Work, apart: bool, preload: Sequence[str]) -> AbstractContextManager[Crew]:
    if isinstance(hands, Processes):
        return ProcessCrew(hands.count, work, quiet=apart, preload=preload)
    return hands.crew(work)


def _results(crew: Crew, pieces: Iterator[Piece], ahead: int, in_order: bool) -> Iterator[tuple[Piece, Any]]:
    rest = enumerate(pieces)
    given: dict[int, Piece] = {}
    held: dict[int, tuple[Piece, Any]] = {}  # ready, but not its turn
    due = 0
    while True:
        for number, piece in islice(rest, max(0, ahead * crew.size() - len(given) - len(held))):
            given[number] = piece
            crew.give(number, piece)
        if not given:
            return
        for number, result in crew.ready():
            held[number] = given.pop(number), result
        while held and (not in_order or due in held):
            yield held.pop(due if in_order else next(iter(held)))
            due += 1
