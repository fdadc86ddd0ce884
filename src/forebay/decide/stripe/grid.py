"""The layouts that there are to choose from, and what of the targets others leave to each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.decide.stripe.view import Past, StripeView
from forebay.model.layout import GRAIN, KIB, MOST_SIZE

SIZES = tuple(256 * KIB << doublings for doublings in range(9))
"""Stripe sizes that are tried: 256 KiB to 64 MiB."""
_OLD = 6  # counts and sizes of its latest runs that are options too


@dataclass(frozen=True, slots=True)
class Grid:
    """Stripe counts and sizes (bytes) of the options, ascending, and which of them the application ran with.

    `share` is the part of a target's bandwidth that is left on the busiest target of each;
    `free` is how many targets next to each other nobody uses.
    """

    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    known: NDArray[np.bool_]
    share: NDArray[np.float64]
    free: int

    def find(self, count: int, size: int) -> int | None:
        """Where that layout is."""
        return next(
            (i for i, option in enumerate(zip(self.counts, self.sizes, strict=True)) if option == (count, size)), None
        )


def grid(view: StripeView, runs: Sequence[Past]) -> Grid:
    """Powers of two, all targets, all free targets, the request size, and what was run before.

    Files that hold less than all stripes lie on fewer targets, so such a layout counts as the one with as many stripes
    as there are in use, and is not offered.
    """
    free = _free_in_a_row(view)
    latest = runs[::-1]
    counts = {1 << k for k in range(view.most.bit_length())} | {view.most, min(max(free, 1), view.most)}
    counts |= _first(run.count for run in latest if run.count <= view.most)
    sizes = {*SIZES} | (
        {view.request_size}
        if _possible(view.request_size) and view.request_size in range(SIZES[0], SIZES[-1])
        else set()
    )
    sizes |= _first(run.size for run in latest if _possible(run.size))
    counts |= {view.useful(size) for size in sizes} if view.file_size is not None else set()
    options = [(count, size) for count in sorted(counts) for size in sorted(sizes) if count <= view.useful(size)]
    ran = {(min(run.count, view.useful(run.size)), run.size) for run in runs}
    shares = {count: left(view, count) for count in counts}
    return Grid(
        counts=tuple(count for count, _ in options),
        sizes=tuple(size for _, size in options),
        known=np.array([option in ran for option in options]),
        share=np.array([shares[count] for count, _ in options]),
        free=free,
    )


def left(view: StripeView, count: int) -> float:
    """What part of its bandwidth the busiest of `count` targets has left, where most of them are free.

    A target with n users gives each newcomer 1 / (n + 1), and the slowest target sets the pace,
    as all of them hold equal parts of the file.
    """
    users = np.array([target.users for target in view.usable])
    ring = np.concatenate([users, users[: count - 1]])
    idle = np.concatenate([[0], np.cumsum(ring == 0)])
    first = int(np.argmax(idle[count:] - idle[:-count]))
    return 1.0 / (1.0 + float(ring[first : first + count].max()))


def _free_in_a_row(view: StripeView) -> int:
    """The most free targets next to each other; after the last comes the first."""
    free = [target.users == 0 for target in view.usable]
    longest = length = 0
    for one in free * 2:
        length = length + 1 if one else 0
        longest = max(longest, length)
    return min(longest, len(free))


def _first(values: Iterable[int]) -> set[int]:
    return set(list(dict.fromkeys(values))[:_OLD])


def _possible(size: int) -> bool:
    return size % GRAIN == 0 and GRAIN <= size <= MOST_SIZE
