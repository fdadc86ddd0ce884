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

from forebay.model.kernels import kernel
from forebay.model.random_numbers import mix_bits

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
FAR = np.int64(2**62)
FEW = np.int32(-(2**30))
NIL = np.uint32(0)
_DEEPEST = 400  # a treap of 2**32 events is deeper than this with a probability below 1e-60


def events(count: int) -> Any:
    """Room for `count` events; slot 0, the empty tree, is neutral in every sum and extreme."""
    room = np.zeros(count + 1, dtype=EVENT)
    room["latest"][0] = room["longest"][0] = -np.inf
    room["high"][0], room["low"][0], room["crowd"][0] = -FAR, FAR, FEW
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
    event.priority = np.uint32(mix_bits(np.uint64(2 * event.serial + (event.size > 0))))
    deep = 0
    at = np.uint32(root)
    while at != NIL and tree[at].priority >= event.priority:
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
    event.left = NIL
    event.right = NIL
    low = np.uint32(new)  # where the next smaller subtree goes: under its right, or under `new`'s left
    high = np.uint32(new)
    deep = 0
    while at != NIL:
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
        tree[low].right = NIL
    if high != new:
        tree[high].left = NIL
    for k in range(deep - 1, -1, -1):
        _pull(tree, spine[k])


@kernel
def _mend(tree: Any, path: Any, deep: int, below: Slot, root: Slot) -> Slot:
    """Hang `below` where the path ends, and let everything on the path know; returns the root."""
    if deep == 0:
        return below
    parent = tree[path[deep - 1]]
    if _comes_before(tree[path[deep]] if below == NIL else tree[below], parent):
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
    while tree[at].left != NIL:
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
    top = NIL
    hook = NIL  # whose free side the rest goes to
    to_right = False
    deep = 0
    while left != NIL and right != NIL:
        first = tree[left].priority >= tree[right].priority
        take = left if first else right
        if hook == NIL:
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
    rest = left if right == NIL else right
    if hook == NIL:
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
    while tree[at].left != NIL:
        at = tree[at].left
    return at


@kernel
def find(tree: Any, root: Slot, time: float, begins: bool, serial: int) -> Slot:
    """The slot of a booking's start or end; 0 if it is not there."""
    at = np.uint32(root)
    while at != NIL:
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
