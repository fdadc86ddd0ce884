"""Queries of a timeline (see `timeline`), each in one or two passes down its tree."""

import numpy as np

from forebay.model.kernels import Array, kernel
from forebay.model.timeline import FAR, FEW, NIL, Slot


@kernel
def changes(tree: Array, root: Slot, until: float, inclusive: bool) -> tuple[Array, Array, Array, Array]:
    """Sum, live, plus and starts over all events before `until`, or up to and including it."""
    total, live, plus, starts = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    at = np.uint32(root)
    while at != NIL:
        node = tree[at]
        if node.time < until or (inclusive and node.time == until):
            left = tree[node.left]
            total += left.sum + node.size
            live += left.live + _sign(node)
            plus += left.plus + max(node.size, 0)
            starts += left.starts + (node.size > 0)
            at = node.right
        else:
            at = node.left
    return total, live, plus, starts


@kernel
def highest(tree: Array, root: Slot, after: float, before: float) -> tuple[Array, Array]:
    """The largest sum of sizes, and of bookings, up to any event strictly between the two times; far below zero if
    no event is there."""
    most, crowd = -FAR, np.int64(FEW)
    size, live = np.int64(0), np.int64(0)
    whole = False  # whether everything under `at` is later than `after`
    at = np.uint32(root)
    while at != NIL:
        node = tree[at]
        if node.time >= before:
            at = node.left
            continue
        left = tree[node.left]
        if whole:
            most, crowd = max(most, size + left.high), max(crowd, live + left.crowd)
        elif node.time > after:
            whole = True
            most, crowd = _highest_after(tree, node.left, after, size, live)
        size += left.sum + node.size
        live += left.live + _sign(node)
        if whole:
            most, crowd = max(most, size), max(crowd, live)
        at = node.right
    return most, crowd


@kernel
def _highest_after(tree: Array, at: Slot, after: float, size: Array, live: Array) -> tuple[Array, Array]:
    """The same over the events under `at` that are later than `after`; `size` and `live` are the sums before them."""
    most, crowd = -FAR, np.int64(FEW)
    while at != NIL:
        node = tree[at]
        left, right = tree[node.left], tree[node.right]
        size_here = size + left.sum + node.size
        live_here = live + left.live + _sign(node)
        if node.time > after:
            most = max(most, max(size_here, size_here + right.high))
            crowd = max(crowd, max(live_here, live_here + right.crowd))
            at = node.left
        else:
            size, live = size_here, live_here
            at = node.right
    return most, crowd


@kernel
def _sign(node: Array) -> int:
    return 1 if node.size > 0 else -1


@kernel
def first_beyond(tree: Array, root: Slot, after: float, limit: int, above: bool, path: Array) -> float:
    """The first time after `after` at which the sum is above `limit`, or at most `limit` if not `above`; else inf."""
    deep = 0
    at = np.uint32(root)
    total = np.int64(0)
    while at != NIL:  # collect every event later than `after` on the way
        node = tree[at]
        if node.time > after:
            path[0, deep] = at
            deep += 1
            at = node.left
        else:
            total += tree[node.left].sum + node.size
            at = node.right
    for k in range(deep - 1, -1, -1):  # in order of time: the event, then what is under its right
        node = tree[path[0, k]]
        total += node.size
        if (total > limit) == above:
            return node.time  # type: ignore[no-any-return]
        at = node.right
        if not _reaches(tree[at], total, limit, above):
            total += tree[at].sum
            continue
        while at != NIL:
            node = tree[at]
            left = tree[node.left]
            if _reaches(left, total, limit, above):
                at = node.left
                continue
            total += left.sum + node.size
            if (total > limit) == above:
                return node.time  # type: ignore[no-any-return]
            at = node.right
    return np.inf


@kernel
def _reaches(node: Array, total: int, limit: int, above: bool) -> bool:
    """Whether the sum passes the limit somewhere in this subtree; never in the empty one."""
    if node.high == -FAR:
        return False
    return total + node.high > limit if above else total + node.low <= limit  # type: ignore[no-any-return]


@kernel
def latest_end(tree: Array, root: Slot, until: float) -> float:
    """The latest end of the bookings that start no later than `until`; at most `until` without one."""
    at = np.uint32(root)
    best = -np.inf
    while at != NIL:
        node = tree[at]
        if node.time <= until:
            best = max(best, max(tree[node.left].latest, node.end))
            at = node.right
        else:
            at = node.left
    return best


@kernel
def last_end(tree: Array, root: Slot, until: float, path: Array) -> float:
    """The latest end event of a booking that starts no later than `until`; -inf without one."""
    deep = 0
    at = np.uint32(root)
    while at != NIL or deep > 0:
        while at != NIL:  # from the last event backwards
            path[0, deep] = at
            deep += 1
            at = tree[at].right
        deep -= 1
        node = tree[path[0, deep]]
        if node.size < 0 and node.end <= until:
            return node.time  # type: ignore[no-any-return]
        at = node.left
    return -np.inf


@kernel
def _longest_after(tree: Array, at: Slot, after: float) -> float:
    """The longest duration of the bookings under `at` that start later than `after`."""
    best = -np.inf
    while at != NIL:
        node = tree[at]
        if node.time > after:
            best = max(best, max(tree[node.right].longest, node.end - node.time))
            at = node.left
        else:
            at = node.right
    return best


@kernel
def longest_within(tree: Array, root: Slot, after: float, before: float) -> float:
    """The longest time up to `before` of a booking that starts strictly between the two times; below 0 without one.

    For a booking that starts at x and lasts d, this is min(d, before - x). Let P(x) be the longest duration of all that
    start up to x. Some booking reaches at least min(P(x), before - x), and the best one reaches no more at its own x.
    P rises and before - x falls with x, so the maximum is where they cross, which one pass down the tree finds.
    """
    best = -np.inf
    longest = -np.inf  # P of everything to the left
    whole = False  # whether everything under `at` is later than `after`
    at = np.uint32(root)
    while at != NIL:
        node = tree[at]
        if node.time >= before:
            at = node.left
        elif node.time <= after:
            at = node.right
        else:
            under = tree[node.left].longest if whole else _longest_after(tree, node.left, after)
            here = max(longest, max(under, node.end - node.time))
            best = max(best, min(here, before - node.time))
            if here >= before - node.time:
                at = node.left
            else:
                longest = here
                whole = True
                at = node.right
    return best
