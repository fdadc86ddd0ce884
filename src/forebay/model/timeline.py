"""What changes when: a balanced tree of events in the order of time, which knows sums and extremes.

Each booking of space is two events: at its start its size is added, at its end it is taken away
again. The tree is a treap (Seidel and Aragon 1996): a binary search tree by (time, ends first,
serial number) that is at the same time a heap by a priority that looks random. Expected depth is
O(log n) whatever the order of insertion, and so is the cost of every function here. All trees
live in one array of EVENT records, in which slot 0 is the empty tree.

Beside itself, every event knows of the subtree below it:

- `sum` and `live`: by how much size and number of bookings change over all of its events;
- `plus` and `starts`: the size and number of the bookings that start there;
- `high` and `low`: the largest and smallest size that adds up from its first event to any of its events;
- `crowd`: the largest number of bookings that adds up in the same way;
- `latest` and `longest`: the latest end and the longest duration of the bookings that start there
  (an end counts like a booking of negative duration, which is never what anybody asks for).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.model.chance import mixed
from forebay.model.compiled import kernel

Slot = Any  # where in the array of events; np.uint32 in the kernels, which need no check of the sign
EVENT = np.dtype(
    [
        ("time", np.float64),
        ("size", np.int64),  # added at a start, taken away (negative) at an end
        ("end", np.float64),  # when what starts here ends; at an end, when it started
        ("serial", np.int64),
        ("left", np.uint32),
        ("right", np.uint32),
        ("priority", np.uint32),
        ("live", np.int32),
        ("starts", np.int32),
        ("crowd", np.int32),
        ("sum", np.int64),
        ("plus", np.int64),
        ("high", np.int64),
        ("low", np.int64),
        ("latest", np.float64),
        ("longest", np.float64),
    ]
)
_FAR = np.int64(2**62)
_FEW = np.int32(-(2**30))
_NIL = np.uint32(0)
_DEEPEST = 400  # a treap of 2**32 events is deeper than this with a probability below 1e-60


def events(count: int) -> Any:
    """Room for `count` events; slot 0, the empty tree, is neutral in every sum and extreme."""
    room = np.zeros(count + 1, dtype=EVENT)
    room["latest"][0] = room["longest"][0] = -np.inf
    room["high"][0], room["low"][0], room["crowd"][0] = -_FAR, _FAR, _FEW
    return room


def paths() -> Any:
    """Scratch to note the way down a tree in."""
    return np.zeros((2, _DEEPEST), dtype=np.uint32)


@kernel
def _comes_before(a: Any, b: Any) -> bool:
    if a.time != b.time:
        return a.time < b.time  # type: ignore[no-any-return]
    if (a.size > 0) != (b.size > 0):
        return a.size < 0  # type: ignore[no-any-return]
    return a.serial < b.serial  # type: ignore[no-any-return]


@kernel
def _pull(tree: Any, at: Slot) -> None:
    """What `at` knows of its subtree, anew from its children."""
    node = tree[at]
    left = tree[node.left]
    right = tree[node.right]
    begins = node.size > 0
    here = left.sum + node.size
    there = left.live + (1 if begins else -1)
    node.sum = here + right.sum
    node.live = there + right.live
    node.plus = left.plus + right.plus + (node.size if begins else 0)
    node.starts = left.starts + right.starts + (1 if begins else 0)
    node.high = max(left.high, max(here, here + right.high))
    node.low = min(left.low, min(here, here + right.low))
    node.crowd = max(left.crowd, max(there, there + right.crowd))
    node.latest = max(node.end, max(left.latest, right.latest))
    node.longest = max(node.end - node.time, max(left.longest, right.longest))


@kernel
def insert(tree: Any, root: Slot, new: Slot, path: Any) -> Slot:
    """Put the event in slot `new` into the tree; returns its new root."""
    event = tree[new]
    event.priority = np.uint32(mixed(np.uint64(2 * event.serial + (event.size > 0))))
    deep = 0
    at = np.uint32(root)
    while at != _NIL and tree[at].priority >= event.priority:
        path[0, deep] = at
        deep += 1
        at = tree[at].left if _comes_before(event, tree[at]) else tree[at].right
    _split(tree, at, new, path[1])
    _pull(tree, new)
    return _mend(tree, path[0], deep, np.uint32(new), root)


@kernel
def _split(tree: Any, at: Slot, new: Slot, spine: Any) -> None:
    """Hang what comes before the event `new` under its left, what comes after under its right."""
    event = tree[new]
    event.left = _NIL
    event.right = _NIL
    low = np.uint32(new)  # where the next smaller subtree goes: under its right, or under `new`'s left
    high = np.uint32(new)
    deep = 0
    while at != _NIL:
        node = tree[at]
        spine[deep] = at
        deep += 1
        if _comes_before(event, node):
            if high == new:
                event.right = at
            else:
                tree[high].left = at
            high = at
            at = node.left
        else:
            if low == new:
                event.left = at
            else:
                tree[low].right = at
            low = at
            at = node.right
    if low != new:
        tree[low].right = _NIL
    if high != new:
        tree[high].left = _NIL
    for k in range(deep - 1, -1, -1):
        _pull(tree, spine[k])


@kernel
def _mend(tree: Any, path: Any, deep: int, below: Slot, root: Slot) -> Slot:
    """Hang `below` where the path ends, and let everything on the path know; returns the root."""
    if deep == 0:
        return below
    parent = tree[path[deep - 1]]
    if _comes_before(tree[path[deep]] if below == _NIL else tree[below], parent):
        parent.left = below
    else:
        parent.right = below
    for k in range(deep - 1, -1, -1):
        _pull(tree, path[k])
    return root


@kernel
def erase(tree: Any, root: Slot, gone: Slot, path: Any) -> Slot:
    """Take the event in slot `gone` out of the tree; returns its new root."""
    event = tree[gone]
    deep = 0
    at = np.uint32(root)
    while at != gone:
        path[0, deep] = at
        deep += 1
        at = tree[at].left if _comes_before(event, tree[at]) else tree[at].right
    path[0, deep] = at
    return _mend(tree, path[0], deep, _merge(tree, event.left, event.right, path[1]), root)


@kernel
def take_first(tree: Any, root: Slot, path: Any) -> tuple[Slot, Slot]:
    """Take the first event out of the tree, of which there is one; returns its slot and the new root."""
    deep = 0
    at = np.uint32(root)
    while tree[at].left != _NIL:
        path[0, deep] = at
        deep += 1
        at = tree[at].left
    rest = tree[at].right
    if deep == 0:
        return at, rest
    tree[path[0, deep - 1]].left = rest
    for k in range(deep - 1, -1, -1):
        _pull(tree, path[0, k])
    return at, np.uint32(root)


@kernel
def _merge(tree: Any, left: Slot, right: Slot, spine: Any) -> Slot:
    """One tree of two, all of `left` before all of `right`."""
    top = _NIL
    hook = _NIL  # whose free side the rest goes to
    to_right = False
    deep = 0
    while left != _NIL and right != _NIL:
        first = tree[left].priority >= tree[right].priority
        take = left if first else right
        if hook == _NIL:
            top = take
        elif to_right:
            tree[hook].right = take
        else:
            tree[hook].left = take
        spine[deep] = take
        deep += 1
        hook = take
        to_right = first
        if first:
            left = tree[take].right
        else:
            right = tree[take].left
    rest = left if right == _NIL else right
    if hook == _NIL:
        return rest
    if to_right:
        tree[hook].right = rest
    else:
        tree[hook].left = rest
    for k in range(deep - 1, -1, -1):
        _pull(tree, spine[k])
    return top


@kernel
def earliest(tree: Any, root: Slot) -> Slot:
    """The slot of the first event; 0 if there is none."""
    at = np.uint32(root)
    while tree[at].left != _NIL:
        at = tree[at].left
    return at


@kernel
def find(tree: Any, root: Slot, time: float, begins: bool, serial: int) -> Slot:
    """The slot of a booking's start or end; 0 if it is not there."""
    at = np.uint32(root)
    while at != _NIL:
        node = tree[at]
        if node.time == time and (node.size > 0) == begins and node.serial == serial:
            return at
        if node.time != time:
            later = node.time > time
        elif (node.size > 0) != begins:
            later = node.size > 0
        else:
            later = node.serial > serial
        at = node.left if later else node.right
    return at


@kernel
def changes(tree: Any, root: Slot, until: float, inclusive: bool) -> tuple[Any, Any, Any, Any]:
    """Over all events before `until`, or up to and including it: sum, live, plus, starts."""
    total, live, plus, starts = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    at = np.uint32(root)
    while at != _NIL:
        node = tree[at]
        if node.time < until or (inclusive and node.time == until):
            left = tree[node.left]
            total += left.sum + node.size
            live += left.live
            plus += left.plus
            starts += left.starts
            if node.size > 0:
                live += 1
                plus += node.size
                starts += 1
            else:
                live -= 1
            at = node.right
        else:
            at = node.left
    return total, live, plus, starts


@kernel
def highest(tree: Any, root: Slot, after: float, before: float) -> tuple[Any, Any]:
    """The largest size, and the largest number of bookings, that add up from the first event to any event
    strictly between the two times; far below zero if there is none.
    """
    at = np.uint32(root)
    size, live = np.int64(0), np.int64(0)
    while at != _NIL:
        node = tree[at]
        if node.time <= after:
            size += tree[node.left].sum + node.size
            live += tree[node.left].live + _one(node)
            at = node.right
        elif node.time >= before:
            at = node.left
        else:
            break
    if at == _NIL:
        return -_FAR, np.int64(_FEW)
    top = tree[at]
    here = size + tree[top.left].sum + top.size
    there = live + tree[top.left].live + _one(top)
    most, crowd = here, there
    down = top.left  # of these, what comes after `after`
    while down != _NIL:
        node = tree[down]
        left, right = tree[node.left], tree[node.right]
        size_here = size + left.sum + node.size
        live_here = live + left.live + _one(node)
        if node.time > after:
            most = max(most, max(size_here, size_here + right.high))
            crowd = max(crowd, max(live_here, live_here + right.crowd))
            down = node.left
        else:
            size, live = size_here, live_here
            down = node.right
    down = top.right  # of these, what comes before `before`
    while down != _NIL:
        node = tree[down]
        if node.time < before:
            left = tree[node.left]
            most = max(most, here + left.high)
            crowd = max(crowd, there + left.crowd)
            here += left.sum + node.size
            there += left.live + _one(node)
            most = max(most, here)
            crowd = max(crowd, there)
            down = node.right
        else:
            down = node.left
    return most, crowd


@kernel
def _one(node: Any) -> int:
    return 1 if node.size > 0 else -1


@kernel
def first_beyond(tree: Any, root: Slot, after: float, limit: int, above: bool, path: Any) -> float:
    """When, later than `after`, the sum first is above `limit` (or, if not `above`, at most `limit`); inf if never."""
    deep = 0
    at = np.uint32(root)
    total = np.int64(0)
    while at != _NIL:  # note every event later than `after` on the way
        node = tree[at]
        if node.time > after:
            path[0, deep] = at
            deep += 1
            at = node.left
        else:
            total += tree[node.left].sum + node.size
            at = node.right
    for k in range(deep - 1, -1, -1):  # in the order of time: the event, then what is under its right
        node = tree[path[0, k]]
        total += node.size
        if (total > limit) == above:
            return node.time  # type: ignore[no-any-return]
        at = node.right
        if not _reaches(tree[at], total, limit, above):
            total += tree[at].sum
            continue
        while at != _NIL:
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
def _reaches(node: Any, total: int, limit: int, above: bool) -> bool:
    """Whether the sum goes beyond the limit somewhere in this subtree, of which there must be something."""
    if node.high == -_FAR:
        return False
    return total + node.high > limit if above else total + node.low <= limit  # type: ignore[no-any-return]


@kernel
def latest_end(tree: Any, root: Slot, until: float) -> float:
    """The latest end of the bookings that start no later than `until`; no later than that if there is none."""
    at = np.uint32(root)
    best = -np.inf
    while at != _NIL:
        node = tree[at]
        if node.time <= until:
            best = max(best, max(tree[node.left].latest, node.end))
            at = node.right
        else:
            at = node.left
    return best


@kernel
def last_end(tree: Any, root: Slot, until: float, path: Any) -> float:
    """The latest end in the tree of a booking that starts no later than `until`; -inf if there is none."""
    deep = 0
    at = np.uint32(root)
    while at != _NIL or deep > 0:
        while at != _NIL:  # from the last event backwards
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
def _longest_after(tree: Any, at: Slot, after: float) -> float:
    """The longest duration of the bookings under `at` that start later than `after`."""
    best = -np.inf
    while at != _NIL:
        node = tree[at]
        if node.time > after:
            best = max(best, max(tree[node.right].longest, node.end - node.time))
            at = node.left
        else:
            at = node.right
    return best


@kernel
def longest_within(tree: Any, root: Slot, after: float, before: float) -> float:
    """The longest that one booking which starts strictly between the two times lasts before the second; or below 0.

    For a booking that starts at x and lasts d that is min(d, before - x). Let P(x) be the longest
    duration of those that start up to x. min(P(x), before - x) is never more than what some
    booking reaches, and for the best booking's x no less. P rises and before - x falls with x, so
    the largest of them is where they cross, which one way down the tree finds.
    """
    best = -np.inf
    longest = -np.inf  # P up to what is left behind
    whole = False  # whether everything under `at` is later than `after`
    at = np.uint32(root)
    while at != _NIL:
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
