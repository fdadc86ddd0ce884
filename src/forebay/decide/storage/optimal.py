"""`optimal`: an upper bound on the bytes that any policy can allocate."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import connected_components

from forebay.model.kernels import Array
from forebay.model.space_requests import Requests
from forebay.model.system import Platform

_MOST_ENTRIES = 20_000_000  # of all constraints together; more do not fit into memory
_MOST_WHOLE = 5_000  # competing requests; larger groups are relaxed to fractions
_MOST_BRANCHES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """No policy allocates more than `bytes`; `how` names the relaxation behind this bound."""

    bytes: int
    how: str


def upper_bound(platform: Platform, requests: Requests, *, split: int = 0, longest_delay: float = 0.0) -> Bound:
    """Bound what any policy can allocate, even one that knows the future.

    All disks count as one with their total capacity. Requests that fit on no disk (or, if they may be
    split, not on the whole platform) are left out. Where requests exceed the capacity, integer
    programming finds the best subset, separately for each group of competing requests. A request that
    may be delayed competes only in the time during which it runs in any case.
    """
    whole = platform.capacity
    most = np.where((split > 0) & (requests.bytes > split), whole, max(disk.capacity for disk in platform.disks))
    start, end = requests.start + longest_delay, requests.start + requests.duration
    possible = requests.bytes <= most
    competing = np.flatnonzero(possible & (start < end))
    total = int(requests.bytes[possible].sum())
    crowds, entries = [], 0
    for crowd in _crowds(start[competing], end[competing], requests.bytes[competing], whole):
        crowds.append(crowd)
        entries += crowd.size
        if entries > _MOST_ENTRIES:
            return Bound(bytes=total, how="each request alone: too many compete for a closer bound")
    given_up, exact = _least_given_up(requests.bytes[competing], crowds, whole)
    how = "integer programming" if exact else "integer programming, in part relaxed"
    return Bound(bytes=total - given_up, how=how if crowds else "nothing competes")


def _crowds(start: Array, end: Array, size: Array, capacity: int) -> Iterator[NDArray[np.int64]]:
    """Yield the requests present whenever they exceed `capacity` and one of them is about to end."""
    times = np.concatenate([end, start])
    change = np.concatenate([-size, size])
    request = np.tile(np.arange(size.size), 2)
    order = np.argsort(times, kind="stable")  # ends before starts
    level, arrived = 0, False
    present: set[int] = set()
    for index, delta in zip(request[order].tolist(), change[order].tolist(), strict=True):
        if delta > 0:
            present.add(index)
            arrived = True
        else:
            if arrived and level > capacity:
                yield np.fromiter(present, dtype=np.int64)
            present.discard(index)
            arrived = False
        level += delta


def _least_given_up(size: Array, crowds: list[NDArray[np.int64]], capacity: int) -> tuple[int, bool]:
    """Return the fewest bytes to leave out so that every crowd fits, and whether this is exact."""
    if not crowds:
        return 0, True
    rows = np.repeat(np.arange(len(crowds)), [crowd.size for crowd in crowds])
    members, columns = np.unique(np.concatenate(crowds), return_inverse=True)
    shape = (len(crowds), members.size)
    table = csr_array((size[members][columns] / capacity, (rows, columns)), shape=shape)
    count, labels = connected_components(block_array([[None, table], [table.T, None]]), directed=False)
    label = labels[len(crowds) :]
    given_up, exact = 0.0, True
    for group in range(count):
        inside = np.flatnonzero(label == group)
        sizes = size[members[inside]] / capacity
        constraints = table[:, inside]
        constraints = constraints[np.unique(constraints.nonzero()[0])]
        whole = inside.size <= _MOST_WHOLE
        answer = milp(
            -sizes,
            constraints=LinearConstraint(constraints, -np.inf, 1.0),
            bounds=Bounds(0, 1),
            integrality=np.full(inside.size, int(whole)),
            options={"node_limit": _MOST_BRANCHES},
        )
        bound = answer.mip_dual_bound if whole else answer.fun
        given_up += 0.0 if bound is None else max(0.0, sizes.sum() + bound)
        exact &= whole and answer.status == 0
    return int(np.floor(given_up * capacity * (1 - 1e-9))), exact
