"""The decided grants in the order of time: who holds which space when, and whose space isn't there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebay.model.kernels import kernel
from forebay.simulate.storage.plan import GRANTED

ALLOCATED, FAILED = 3, 4
USE = np.dtype(
    [
        ("level", np.int64),  # bytes held now
        ("live", np.int64),  # allocations now
        ("since", np.float64),  # as of when
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
        ("put", np.int64),  # bytes ever put on a disk, those that were taken back at once included
        ("put_split", np.int64),  # of those, of split requests
        ("first", np.float64),  # the first start of all
        ("last", np.float64),  # the last end of all
    ]
)


class Usage(NamedTuple):
    """What every disk and node went through, and all of them together."""

    disks: Any
    nodes: Any
    total: Any  # one TOTAL record


def usage(ledger: Any) -> Usage:
    disks, nodes = np.zeros(ledger.disks.size, dtype=USE), np.zeros(ledger.nodes.size, dtype=USE)
    total = np.zeros(1, dtype=TOTAL)
    total["first"], total["last"] = np.inf, -np.inf
    return Usage(disks, nodes, total)


@kernel
def _pass(one: Any, now: float, capacity: float) -> None:
    """Let the time until `now` go by."""
    passed = now - one.since
    one.use_seconds += passed * (one.level / capacity)
    one.live_seconds += passed * one.live
    one.since = now


@kernel
def _put(one: Any, now: float, size: int, capacity: float) -> None:
    _pass(one, now, capacity)
    one.level += size
    one.live += 1
    one.most_bytes = max(one.most_bytes, one.level)
    one.most_live = max(one.most_live, one.live)


@kernel
def _get(one: Any, now: float, size: int, capacity: float) -> None:
    _pass(one, now, capacity)
    one.level -= size
    one.live -= 1


@kernel
def put_part(ledger: Any, use: Any, part: Any, now: float) -> None:
    disk = ledger.disks[part.disk]
    total = use.total[0]
    _put(use.disks[part.disk], now, part.bytes, disk.capacity)
    _put(use.nodes[disk.node], now, part.bytes, ledger.nodes[disk.node].capacity)
    total.live += 1
    total.most_live = max(total.most_live, total.live)
    total.put += part.bytes


@kernel
def get_part(ledger: Any, use: Any, part: Any, now: float) -> None:
    disk = ledger.disks[part.disk]
    _get(use.disks[part.disk], now, part.bytes, disk.capacity)
    _get(use.nodes[disk.node], now, part.bytes, ledger.nodes[disk.node].capacity)
    use.total[0].live -= 1


@kernel
def fits(ledger: Any, use: Any, parts: Any) -> bool:
    """Whether all of a request's parts fit at once; several may be on one disk."""
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


@kernel
def begin(ledger: Any, use: Any, parts: Any, now: float, letter: bool) -> int:
    """All parts of a request or none; StorAlloc puts one after the other and takes them back when one doesn't fit.

    Returns how many parts were put, those taken back included: all, if the request has its space.
    """
    total = use.total[0]
    total.first = min(total.first, now)
    if not letter and not fits(ledger, use, parts):
        return 0
    for k in range(parts.size):
        part = parts[k]
        if use.disks[part.disk].level + part.bytes > ledger.disks[part.disk].capacity:
            for done in range(k):
                get_part(ledger, use, parts[done], now)
            return k
        put_part(ledger, use, part, now)
        if parts.size > 1:
            total.put_split += part.bytes
    return parts.size  # type: ignore[no-any-return]


@kernel
def finish(ledger: Any, use: Any, parts: Any, now: float) -> None:
    for part in parts:
        get_part(ledger, use, part, now)
    use.total[0].last = max(use.total[0].last, now)


@kernel
def replay(ledger: Any, use: Any, plan: Any, by_start: Any, by_end: Any, ends: Any, letter: bool) -> None:
    """Hold every granted request's space from its start to its end, as far as it is there.

    `by_start` and `by_end` are the granted requests in the order of their starts and ends. In one
    second ends come before starts; in StorAlloc all starts before all ends.
    """
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
    for k in range(started, by_start.size):  # who comes as the last leaves, for no time at all
        _arrive(ledger, use, verdicts[by_start[k]], parts, ends[by_start[k]], letter)


@kernel
def _arrive(ledger: Any, use: Any, verdict: Any, parts: Any, end: float, letter: bool) -> None:
    own = parts[verdict.first : verdict.last]
    verdict.put = begin(ledger, use, own, verdict.start, letter)
    verdict.state = ALLOCATED if verdict.put == own.size else FAILED
    if verdict.state == ALLOCATED and end == verdict.start and not letter:
        finish(ledger, use, own, end)


def in_time(plan: Any, durations: Any) -> tuple[Any, Any, Any]:
    """Granted requests by start and by end, and all ends."""
    granted = np.flatnonzero(plan.verdicts["state"] == GRANTED)
    starts = plan.verdicts["start"]
    ends = starts + durations
    by_start = granted[np.argsort(starts[granted], kind="stable")]
    by_end = by_start[np.argsort(ends[by_start], kind="stable")]
    return by_start, by_end, ends
