"""The first target of a layout, away from other jobs (Kim et al. 2022, Procedure 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from forebay.decide.stripe.view import StripeView
from forebay.model.units import format_size, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The index of the first target, the indices of all targets, and why these."""

    index: int
    targets: tuple[int, ...]
    because: str


def place(view: StripeView, count: int) -> Start:
    """Choose `count` unused targets in a row; else a row with the most unused ones; else start at the emptiest."""
    _check(view, count)
    free = _windows([int(target.users == 0) for target in view.usable], count)
    most = max(free)
    if most == count:
        which = "this target" if count == 1 else f"these {count} targets"
        return _from(view, free.index(count), count, f"no running job uses {which}")
    if most:
        # Whole bytes per second, so that sums are exact and equal windows are equal.
        busy = _windows([round(target.busy) for target in view.usable], count)
        first = min(range(len(view.usable)), key=lambda k: (-free[k], busy[k], k))
        shared = f"running jobs use {count - most} of these {plural(count, 'target')}, the fewest possible"
        return _from(view, first, count, shared)
    emptiest = max(range(len(view.usable)), key=lambda k: (view.usable[k].free_bytes, -k))
    # "The lowest capacity" of the listing is the lowest used capacity: the aim is to balance it.
    target = view.usable[emptiest]
    most_free = f"target {target.index} has the most free space, {format_size(target.free_bytes)}"
    return _from(view, emptiest, count, f"running jobs use every target, and {most_free}")


def start_anywhere(view: StripeView, count: int) -> Start:
    """Choose `count` targets in a row from a random one on, used or not."""
    _check(view, count)
    first = min(int(view.chance * len(view.usable)), len(view.usable) - 1)
    return _from(view, first, count, f"target {view.usable[first].index} was chosen at random as the first")


def _check(view: StripeView, count: int) -> None:
    if not 1 <= count <= view.most:
        raise ValueError(f"cannot use {count} stripes; use 1 to {view.most}")


def _windows(values: Sequence[int], count: int) -> list[int]:
    """Return the sum of `count` values from each place on, in a ring."""
    sums = list(accumulate([*values, *values[: count - 1]], initial=0))
    return [sums[k + count] - sums[k] for k in range(len(values))]


def _from(view: StripeView, first: int, count: int, because: str) -> Start:
    ring = (*view.usable[first:], *view.usable[:first])
    return Start(index=ring[0].index, targets=tuple(t.index for t in ring[:count]), because=because)
