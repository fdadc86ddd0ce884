"""Runs many independent pieces of work: in local processes, on a Dask cluster, or in Slurm jobs.

A piece must not depend on others: any worker may do it, in any order, and more than once.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import Any, TypeVar

from forebay.work.processes import ProcessCrew
from forebay.work.workers import Cluster, Crew, Dask, Died, Gone, Slurm, Work, parse_workers

__all__ = ["Dask", "Died", "Gone", "Slurm", "Work", "parse_workers"]
Piece = TypeVar("Piece")
Result = TypeVar("Result")
Workers = int | Cluster
"""A number of local processes, or a cluster."""


def run_pieces(
    workers: Workers,
    work: Callable[[Piece], Result],
    pieces: Iterable[Piece],
    *,
    ahead: int = 2,
    in_order: bool = False,
    apart: bool = False,
    preload: Sequence[str] = (),
) -> Generator[tuple[Piece, Result | Died], None, None]:
    """Yield every piece with its result or `Died`, as soon as it is ready or `in_order`.

    If a worker dies, another one repeats its piece; if that dies too, the result is `Died`. It draws `ahead` pieces for
    each worker, so that workers stay busy while the caller processes results.

    With one local worker, this process does the work, unless it must run `apart` because it may crash or print. The
    modules to `preload` are imported once for all processes. Closing the iterator stops all workers.
    """
    remaining = iter(pieces)
    first = list(islice(remaining, 2))
    if not first:
        return  # without starting any worker
    all_pieces = chain(first, remaining)
    if isinstance(workers, int) and not apart and (workers == 1 or len(first) == 1):
        yield from ((piece, work(piece)) for piece in all_pieces)
        return
    hired: AbstractContextManager[Crew]
    hired = ProcessCrew(workers, work, quiet=apart, preload=preload) if isinstance(workers, int) else workers.crew(work)
    with hired as crew:
        yield from _results(crew, all_pieces, ahead, in_order)


def _results(crew: Crew, pieces: Iterator[Piece], ahead: int, in_order: bool) -> Iterator[tuple[Piece, Any]]:
    remaining = enumerate(pieces)
    in_progress: dict[int, Piece] = {}
    ready: dict[int, tuple[Piece, Any]] = {}  # with `in_order`, results that wait for an earlier piece
    due = 0
    while True:
        for number, piece in islice(remaining, max(0, ahead * crew.size() - len(in_progress) - len(ready))):
            in_progress[number] = piece
            crew.give(number, piece)
        if not in_progress:
            return
        for number, result in crew.wait():
            ready[number] = in_progress.pop(number), result
        while ready and (not in_order or due in ready):
            yield ready.pop(due if in_order else next(iter(ready)))
            due += 1
