"""The grants in the order of time: which space each holds, and which grants find no space."""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, hot_kernel

ALLOCATED, FAILED = 3, 4
USE = np.dtype(
    [
        ("level", np.int64),  # bytes held now
        ("live", np.int64),  # allocations now
        ("since", np.float64),  # the time of the last change
        ("most_bytes", np.int64),
        ("most_live", np.int64),
        ("use_seconds", np.float64),  # integral of level / capacity
        ("live_seconds", np.float64),  # integral of live
    ]
)
TOTAL = np.dtype(
    [
        ("live", np.int64),
        ("most_live", np.int64),
        ("put", np.int64),  # bytes ever put on a disk, including those removed at once
        ("put_split", np.int64),  # of these, bytes of split requests
        ("first", np.float64),  # the earliest start
        ("last", np.float64),  # the latest end
    ]
)


class Usage(NamedTuple):
    """The usage of every disk and node, and the totals."""

    disks: Array
    nodes: Array
    total: Array  # one TOTAL record


def usage(ledger: Array) -> Usage:
    disks, nodes = np.zeros(ledger.disks.size, dtype=USE), np.zeros(ledger.nodes.size, dtype=USE)
    total = np.zeros(1, dtype=TOTAL)
    total["first"], total["last"] = np.inf, -np.inf
    return Usage(disks, nodes, total)


@hot_kernel
def _change(record: Array, now: float, size: int, live: int, capacity: float) -> None:
    """Account for the time until `now`, then add `size` bytes and `live` allocations."""
    passed = now - record.since
    record.use_seconds += passed * (record.level / capacity)
    record.live_seconds += passed * record.live
    record.since = now
    record.level += size
    record.live += live
    record.most_bytes = max(record.most_bytes, record.level)
    record.most_live = max(record.most_live, record.live)


@hot_kernel
def _hold(ledger: Array, use: Array, part: Array, now: float, live: int) -> None:
    """Put a part on its disk (`live` is 1) or remove it (-1)."""
    disk, total = ledger.disks[part.disk], use.total[0]
    _change(use.disks[part.disk], now, live * part.bytes, live, disk.capacity)
    _change(use.nodes[disk.node], now, live * part.bytes, live, ledger.nodes[disk.node].capacity)
    total.live += live
    total.most_live = max(total.most_live, total.live)


@hot_kernel
def fits(ledger: Array, use: Array, parts: Array) -> bool:
    """Whether all parts of a request fit together; several may be on one disk."""
    fitting = 0
    for part in parts:
        level = use.disks[part.disk].level + part.bytes
        if level > ledger.disks[part.disk].capacity:
            break
        use.disks[part.disk].level = level
        fitting += 1
    for k in range(fitting):
        use.disks[parts[k].disk].level -= parts[k].bytes
    return fitting == parts.size  # type: ignore[no-any-return]


@hot_kernel
def begin(ledger: Array, use: Array, parts: Array, now: float, letter: bool) -> int:
    """Put all parts of a request on disks, or none. Return how many were put, even if StorAlloc removes them."""
    total = use.total[0]
    total.first = min(total.first, now)
    if not letter and not fits(ledger, use, parts):
        return 0
    for k in range(parts.size):
        part = parts[k]
        if use.disks[part.disk].level + part.bytes > ledger.disks[part.disk].capacity:
            for done in range(k):
                _hold(ledger, use, parts[done], now, -1)
            return k
        _hold(ledger, use, part, now, 1)
        total.put += part.bytes
        if parts.size > 1:
            total.put_split += part.bytes
    return parts.size  # type: ignore[no-any-return]


@hot_kernel
def finish(ledger: Array, use: Array, parts: Array, now: float) -> None:
    for part in parts:
        _hold(ledger, use, part, now, -1)
    use.total[0].last = max(use.total[0].last, now)


@hot_kernel
def replay(ledger: Array, use: Array, plan: Array, by_start: Array, by_end: Array, ends: Array, letter: bool) -> None:
    """Hold the space of every granted request from start to end. Ends come before starts, except in StorAlloc."""
    verdicts, parts = plan.verdicts, plan.parts
    started = 0
    for leaving in by_end:
        end = ends[leaving]
        while started < by_start.size:
            arriving = by_start[started]
            start = verdicts[arriving].start
            if start > end or (start == end and not letter):
                break
            _arrive(ledger, use, verdicts[arriving], parts, ends[arriving], letter)
            started += 1
        gone = verdicts[leaving]
        if gone.state == ALLOCATED and (letter or gone.start < end):
            finish(ledger, use, parts[gone.first : gone.last], end)
    for k in range(started, by_start.size):  # requests of zero duration that start as the last one ends
        _arrive(ledger, use, verdicts[by_start[k]], parts, ends[by_start[k]], letter)


@hot_kernel
def _arrive(ledger: Array, use: Array, verdict: Array, parts: Array, end: float, letter: bool) -> None:
    parts = parts[verdict.first : verdict.last]
    verdict.put = begin(ledger, use, parts, verdict.start, letter)
    verdict.state = ALLOCATED if verdict.put == parts.size else FAILED
    if verdict.state == ALLOCATED and end == verdict.start and not letter:
        finish(ledger, use, parts, end)
