"""A timeline: a balanced tree of events in the order of time, with sums and extremes of its subtrees.

Each booking of space is two events: its start adds its size, its end subtracts it. The tree is a treap (Seidel and
Aragon 1996): a binary search tree by (time, ends first, serial number) that is also a heap by a priority that looks
random. Its expected depth is O(log n) whatever the order of insertion, and so is the cost of every function here. All
trees are in one array of EVENT records, where slot 0 is the empty tree.

Every event also describes the subtree below it:

- `sum` and `live`: the change of size and number of bookings over all of its events;
- `plus` and `starts`: the size and number of the bookings that start there;
- `high` and `low`: the largest and smallest sum of sizes from its first event to any of its events;
- `crowd`: the largest number of bookings, in the same way;
- `latest` and `longest`: the latest end and the longest duration of the bookings that start there
  (an end counts as a booking of negative duration, which is never the longest).
"""

import numpy as np

from forebay.model.kernels import Array, kernel
from forebay.model.random_numbers import mix_bits

Slot = Array  # an index of the array of events; np.uint32 in kernels, which then need not check its sign
_BOOKING = [("time", "f8"), ("size", "i8"), ("end", "f8"), ("serial", "i8")]
_TREE = [("left", "u4"), ("right", "u4"), ("priority", "u4"), ("live", "i4"), ("starts", "i4"), ("crowd", "i4")]
_SUBTREE = [("sum", "i8"), ("plus", "i8"), ("high", "i8"), ("low", "i8"), ("latest", "f8"), ("longest", "f8")]
EVENT = np.dtype(_BOOKING + _TREE + _SUBTREE)
"""`size` is negative at an end. `end` is the end of the booking; in its end event, it is the start."""
FAR = np.int64(2**62)
FEW = np.int32(-(2**30))
NIL = np.uint32(0)
_DEEPEST = 400  # a treap of 2**32 events is deeper than this with a probability below 1e-60


def events(count: int) -> Array:
    """An array for `count` events; slot 0, the empty tree, is neutral in every sum and extreme."""
    room = np.zeros(count + 1, dtype=EVENT)
    room["latest"][0] = room["longest"][0] = -np.inf
    room["high"][0], room["low"][0], room["crowd"][0] = -FAR, FAR, FEW
    return room


def paths() -> Array:
    """Scratch space for the path down a tree."""
    return np.zeros((2, _DEEPEST), dtype=np.uint32)


@kernel
def _comes_before(a: Array, b: Array) -> bool:
    if a.time != b.time:
        return a.time < b.time  # type: ignore[no-any-return]
    if (a.size > 0) != (b.size > 0):
        return a.size < 0  # type: ignore[no-any-return]
    return a.serial < b.serial  # type: ignore[no-any-return]


@kernel
def _pull(tree: Array, at: Slot) -> None:
    """Update the sums and extremes of the subtree at `at` from its children."""
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
def insert(tree: Array, root: Slot, new: Slot, path: Array) -> Slot:
    """Insert the event in slot `new`; returns the new root."""
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
    return _attach(tree, path[0], deep, np.uint32(new), root)


@kernel
def _split(tree: Array, at: Slot, new: Slot, spine: Array) -> None:
    """Split the subtree at `at`: earlier events become the left child of `new`, later ones its right child."""
    event = tree[new]
    # Smaller events go to the right of `low`, larger ones to the left of `high`.
    low = high = np.uint32(new)
    deep = 0
    while at != NIL:
        spine[deep] = at
        deep += 1
        if _comes_before(event, tree[at]):
            tree[high].left = at
            high = at
            at = tree[at].left
        else:
            tree[low].right = at
            low = at
            at = tree[at].right
    tree[low].right = NIL
    tree[high].left = NIL
    event.left, event.right = event.right, event.left  # the smaller ones began under its right
    for k in range(deep - 1, -1, -1):
        _pull(tree, spine[k])


@kernel
def _attach(tree: Array, path: Array, deep: int, below: Slot, root: Slot) -> Slot:
    """Attach `below` where the path ends and update everything on the path; returns the root."""
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
def erase(tree: Array, root: Slot, gone: Slot, path: Array) -> Slot:
    """Remove the event in slot `gone`; returns the new root."""
    event = tree[gone]
    deep = 0
    at = np.uint32(root)
    while at != gone:
        path[0, deep] = at
        deep += 1
        at = tree[at].left if _comes_before(event, tree[at]) else tree[at].right
    path[0, deep] = at
    return _attach(tree, path[0], deep, _merge(tree, event.left, event.right, path[1]), root)


@kernel
def take_first(tree: Array, root: Slot, path: Array) -> tuple[Slot, Slot]:
    """Remove the first event of a tree that is not empty; returns its slot and the new root."""
    deep = 0
    at = np.uint32(root)
    while tree[at].left != NIL:
        path[0, deep] = at
        deep += 1
        at = tree[at].left
    path[0, deep] = at
    return at, _attach(tree, path[0], deep, tree[at].right, np.uint32(root))


@kernel
def _merge(tree: Array, left: Slot, right: Slot, spine: Array) -> Slot:
    """Merge two trees, all of `left` before all of `right`."""
    deep = 0
    while left != NIL and right != NIL:
        if tree[left].priority >= tree[right].priority:
            spine[deep] = left
            left = tree[left].right
        else:
            spine[deep] = right
            right = tree[right].left
        deep += 1
    merged = left if right == NIL else right
    for k in range(deep - 1, -1, -1):
        node = tree[spine[k]]
        if _comes_before(node, tree[merged]):
            node.right = merged
        else:
            node.left = merged
        _pull(tree, spine[k])
        merged = spine[k]
    return merged


@kernel
def earliest(tree: Array, root: Slot) -> Slot:
    """The slot of the first event; 0 for the empty tree."""
    at = np.uint32(root)
    while tree[at].left != NIL:
        at = tree[at].left
    return at


@kernel
def find(tree: Array, root: Slot, time: float, begins: bool, serial: int) -> Slot:
    """The slot of a booking's start or end; 0 if the tree does not have it."""
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
