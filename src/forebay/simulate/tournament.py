"""Who comes first? Tournament trees: the smallest key over a fixed set of players.

Every player always has a key; one that waits for nothing has `inf`. A tree of p players, p a
power of two, takes 2p slots of an array from `base` on: slot base + p + i holds player i's key
and slot base + k the smaller of slots base + 2k and base + 2k + 1, so the smallest of all is
in slot base + 1. Ties go to the lowest player.

Both operations go through all log2(p) levels whatever they find. Unlike a heap's, their
branches can be predicted, and that counts for more than the levels saved. For the same reason
`first` compares bits instead of numbers (`bits` is the same memory as int64), and slots are
unsigned: numba would look at each signed one whether it counts from the end.
"""

import numpy as np

from forebay.model.kernels import Array, hot_kernel

_1 = np.uint64(1)


def players(count: Array) -> Array:
    """The smallest power of two that is at least `count`, and at least 1; for a number, or for each of many."""
    return np.int64(1) << np.frexp(np.maximum(np.asarray(count) - 1, 0))[1]


def tournament(keys: Array) -> Array:
    """One tree from slot 0 on, with these keys."""
    size = players(len(keys))
    tree = np.full(2 * size, np.inf)
    tree[size : size + len(keys)] = keys
    while size > 1:
        tree[size // 2 : size] = tree[size : 2 * size].reshape(-1, 2).min(axis=1)
        size //= 2
    return tree


@hot_kernel
def put(tree: Array, base: int, size: int, player: int, key: float) -> None:
    """Give `player` of the tree of `size` at `base` a new key."""
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
    """The player with the smallest key."""
    root = np.uint64(base)
    leaves = np.uint64(size)
    key = bits[root + _1]
    at = _1
    while at < leaves:
        at <<= _1
        at |= np.uint64(bits[root + at] != key)
    return np.int64(at - leaves)  # type: ignore[return-value]
