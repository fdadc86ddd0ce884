"""The access pattern of an application: sharing, order and size of its requests."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from forebay.history.run_fields import ORDERS
from forebay.history.store.past_runs import Behaviour, RequestTotals

Sharing = Literal["shared file", "file per process", "both", "one process", "no I/O"]
Order = Literal["contiguous", "strided", "with gaps", "random", "backwards", "mixed", "one request per file", "unknown"]
Calls = Literal["collective", "independent", "both", "none"]
MOSTLY = 0.9
"""From this share of bytes in shared (or private) files on, the other kind is not mentioned."""
_KINDS = ("contiguous", "strided", "with_gaps", "random", "backwards")
_FEW = 4  # with more jumps back than this for each jump ahead, the access is backwards, not random


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The pattern of reads, of writes, or of both together. None means unknown.

    `shared` is the share of the bytes in files that several processes used.

    `contiguous` to `backwards` are shares of the requests that follow another one in the same file: right at its end,
    ahead by a repeated stride (`strided`) or by another distance (`with_gaps`), ahead as often as back (`random`), back
    or at the same place (`backwards`). `order` is the kind of more than half of them.

    Sizes are bytes, of the requests that reached the file system and of the MPI-IO calls that caused them.
    `collective` is the share of those calls that all processes made together.
    """

    total_bytes: int
    sharing: Sharing
    shared: float | None
    order: Order
    contiguous: float | None
    strided: float | None
    with_gaps: float | None
    random: float | None
    backwards: float | None
    mean_size: float | None
    common_size: int | None
    calls: Calls
    collective: float | None
    mean_call_size: float | None
    common_call_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Access):
    """The pattern of all requests, and of reads and writes separately; these are None if absent or unknown."""

    reads: Access | None
    writes: Access | None


def pattern_of(runs: Sequence[Behaviour]) -> Pattern:
    detailed = [run for run in runs if run.reads is not None and run.writes is not None]
    older = [_as_requests(run) for run in runs if run.reads is None or run.writes is None]
    reads, writes = [run.reads for run in detailed if run.reads], [run.writes for run in detailed if run.writes]
    one_process = _is_one_process(runs)
    return Pattern(
        **_fields([reads, writes, older], one_process),
        reads=_access(reads, one_process),
        writes=_access(writes, one_process),
    )


def split_orders(kinds: Sequence[int]) -> tuple[int, ...]:
    """The numbers of contiguous, strided, with-gaps, random and backwards requests; `kinds` are as in `ORDERS`.

    Random requests jump ahead as often as back. So every jump back makes one jump ahead count as random, or all of them
    if the difference may be chance.

    >>> split_orders((3, 0, 515, 505))
    (3, 0, 0, 1020, 0)
    """
    contiguous, strided, ahead, back = kinds
    if _FEW * ahead < back:
        return contiguous, strided, 0, 2 * ahead, back - ahead
    if back and (back > ahead or ahead - back <= 2 * math.sqrt(ahead + back)):
        return contiguous, strided, 0, ahead + back, 0
    return contiguous, strided, ahead - back, 2 * back, 0


def _access(parts: Sequence[RequestTotals], one_process: bool) -> Access | None:
    """The pattern of these requests; None without requests."""
    used = any(part.requests or part.collective_calls or part.independent_calls for part in parts)
    return Access(**_fields([parts], one_process)) if used else None


def _fields(groups: Sequence[Sequence[RequestTotals]], one_process: bool) -> dict[str, Any]:
    """The fields of an `Access`, from groups of requests."""
    parts = [part for group in groups for part in group]
    volume = sum(p.total_bytes for p in parts)
    shared = sum(p.shared_bytes for p in parts) / volume if volume else None
    sharing = _name_share(shared, "shared file", "file per process", "no I/O")
    sized = [p for p in parts if p.request_bytes]
    calls = sum(p.collective_calls + p.independent_calls for p in parts)
    collective = sum(p.collective_calls for p in parts) / calls if calls else None
    return {
        "total_bytes": volume,
        "sharing": "one process" if one_process and volume else sharing,
        "shared": shared,
        **_order(groups),
        "mean_size": sum(p.request_bytes for p in sized) / sum(p.requests for p in sized) if sized else None,
        "common_size": _commonest_size((p.common_size, p.requests) for p in parts),
        "calls": _name_share(collective, "collective", "independent", "none"),
        "collective": collective,
        "mean_call_size": sum(p.call_bytes for p in parts) / calls if calls else None,
        "common_call_size": _commonest_size(
            (p.common_call_size, p.collective_calls + p.independent_calls) for p in parts
        ),
    }


def _commonest_size(sizes: Iterable[tuple[int, int]]) -> int | None:
    """The most common size; of several, the largest."""
    counts: Counter[int] = Counter()
    for size, count in sizes:
        if size:
            counts[size] += count
    return max(counts, key=lambda size: (counts[size], size), default=None)


def _is_one_process(runs: Sequence[Behaviour]) -> bool:
    """Whether a single process does all I/O, and not on behalf of the others."""
    together = any(part and part.collective_calls for run in runs for part in (run.reads, run.writes))
    return max(r.nprocs for r in runs) == 1 or (not together and float(np.median([r.io_procs for r in runs])) <= 1)


def _name_share(share: float | None, high: str, low: str, unknown: str) -> str:
    if share is None:
        return unknown
    return high if share >= MOSTLY else low if 1 - share >= MOSTLY else "both"


def _order(groups: Sequence[Sequence[RequestTotals]]) -> dict[str, Any]:
    """The order of more than half of the requests, and the shares of all kinds."""
    ordered = [[part for part in group if part.contiguous is not None and part.requests] for group in groups]
    kinds = [split_orders([sum(getattr(part, kind) for part in group) for kind in ORDERS]) for group in ordered]
    counts = [sum(column) for column in zip(*kinds, strict=True)]
    total = sum(counts)
    if not total:
        return {"order": "one request per file" if any(ordered) else "unknown"} | dict.fromkeys(_KINDS)
    order = next((name for name, count in zip(_KINDS, counts, strict=True) if 2 * count > total), "mixed")
    shares = {name: count / total for name, count in zip(_KINDS, counts, strict=True)}
    return {"order": order.replace("_", " "), **shares}


def _as_requests(run: Behaviour) -> RequestTotals:
    """The requests of a run that an older version recorded, as far as its columns describe them.

    `read_requests` and `write_requests` include standard output and the like, so the mean size is only known if all
    requests have a known order.
    """
    ahead = run.seq_requests
    # Darshan counts the first request of a process to a file as neither forward nor contiguous. At most one
    # such request exists for each pair of a process and a file that it used.
    pairs = run.total_files - run.shared_files + run.shared_files * max(run.io_procs, 1)
    first = min(pairs, run.pattern_requests)
    contiguous = min(run.consec_requests, ahead)
    strided = min(run.strided_requests, ahead - contiguous)
    pure = run.pattern_requests == run.read_requests + run.write_requests
    known = run.pattern_requests > 0
    return RequestTotals(
        total_bytes=run.total_bytes,
        shared_bytes=run.shared_bytes,
        requests=run.pattern_requests,
        request_bytes=run.total_bytes if pure else 0,
        contiguous=contiguous if known else None,
        strided=strided if known else None,
        with_gaps=ahead - contiguous - strided if known else None,
        backward=max(run.pattern_requests - first - ahead, 0) if known else None,
    )
