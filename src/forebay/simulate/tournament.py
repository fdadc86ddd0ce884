"""Tournament trees: the smallest key of a fixed set of players.

Every player has a key; an inactive one has `inf`. A tree of p players, p a power of two, uses
2p slots of an array from `base` on. Slot base + p + i holds the key of player i, and slot
base + k the smaller of slots base + 2k and base + 2k + 1, so the smallest key is in slot
base + 1. Ties go to the lowest player.

Both operations visit all log2(p) levels. Unlike in a heap, their branches are predictable, which
saves more time than fewer levels would. For the same reason `first` compares bits instead of
numbers (`bits` is the same memory as int64). Slots are unsigned, so that numba need not check
for negative indices.
"""

import numpy as np

from forebay.model.kernels import Array, hot_kernel

_1 = np.uint64(1)


def players(count: Array) -> Array:
    """Return the smallest power of two that is at least `count` and 1; works on numbers and arrays."""
    return np.int64(1) << np.frexp(np.maximum(np.asarray(count) - 1, 0))[1]


def tournament(keys: Array) -> Array:
    """Return a tree with these keys, from slot 0 on."""
    size = players(len(keys))
    tree = np.full(2 * size, np.inf)
    tree[size : size + len(keys)] = keys
    while size > 1:
        tree[size // 2 : size] = tree[size : 2 * size].reshape(-1, 2).min(axis=1)
        size //= 2
    return tree


@hot_kernel
def put(tree: Array, base: int, size: int, player: int, key: float) -> None:
    """Set the key of `player` in the tree of `size` players at `base`."""
    root = np.uint64(base)
    at = np.uint64(size + player)
    tree[root + at] = key
    while at > _1:
        rival = tree[root + (at ^ _1)]
        key = rival if rival < key else key
        at >>= _1
        tree[root + at] = key


@hot_kernel
def first(bits: Array, base: int, size: int) -> int:
    """Return the player with the smallest key."""
    root = np.uint64(base)
    leaves = np.uint64(size)
    key = bits[root + _1]
    at = _1
    while at < leaves:
        at <<= _1
        at |= np.uint64(bits[root + at] != key)
    return np.int64(at - leaves)  # type: ignore[return-value]
