"""Lists of row numbers, sorted by a key of the rows. They stay short enough for binary search and moving."""

import numpy as np

from forebay.model.kernels import Array, hot_kernel


@hot_kernel
def place_of(rows: Array, count: int, keys: Array, row: int) -> int:
    """Return the place of `row` in a list that is sorted by (key, row), whether it is in the list or not."""
    key = keys[np.uint64(row)]
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        other = rows[middle]
        if keys[np.uint64(other)] < key or (keys[np.uint64(other)] == key and other < row):
            low = middle + 1
        else:
            high = middle
    return low


@hot_kernel
def insert_row(rows: Array, count: int, keys: Array, row: int) -> None:
    """Insert a row into the first `count` ones."""
    at = place_of(rows, count, keys, row)
    for k in range(count, at, -1):
        rows[k] = rows[k - 1]
    rows[at] = row


@hot_kernel
def remove_row(rows: Array, count: int, keys: Array, row: int) -> bool:
    """Remove a row from the first `count` ones; returns whether it was there."""
    at = place_of(rows, count, keys, row)
    if at == count or rows[at] != row:
        return False
    for k in range(at, count - 1):
        rows[k] = rows[k + 1]
    return True
