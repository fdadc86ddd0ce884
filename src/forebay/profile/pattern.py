"""How an application accesses its files: who shares them, and where requests go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forebay.history.store.behaviour import Behaviour

Sharing = Literal["shared file", "file per process", "both", "one process", "no I/O"]
Order = Literal["contiguous", "strided", "with gaps", "random", "mixed", "one request per file", "unknown"]
Shares = tuple[float, float, float, float]
MOSTLY = 0.9
"""Bytes in shared files from which on (or to private ones from which on) the rest is not worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """`shared` is the share of all bytes that went to or came from files that several processes used.

    The other shares are of requests that could follow another one in the same file: right behind
    it (`contiguous`), forward by a stride that recurs (`strided`) or not (`with_gaps`), backwards
    (`random`). `order` is what more than half of them are. None where nothing tells.
    """

    sharing: Sharing
    shared: float | None
    order: Order
    contiguous: float | None
    strided: float | None
    with_gaps: float | None
    random: float | None


def pattern_of(runs: Sequence[Behaviour]) -> Pattern:
    """Of all runs together."""
    volume = sum(r.total_bytes for r in runs)
    shared = sum(r.shared_bytes for r in runs) / volume if volume else None
    order, shares = _order(runs)
    contiguous, strided, with_gaps, random = shares or (None, None, None, None)
    return Pattern(
        sharing=_sharing(runs, shared),
        shared=shared,
        order=order,
        contiguous=contiguous,
        strided=strided,
        with_gaps=with_gaps,
        random=random,
    )


def _sharing(runs: Sequence[Behaviour], shared: float | None) -> Sharing:
    if shared is None:
        return "no I/O"
    if np.median([r.io_procs for r in runs]) <= 1:
        return "one process"
    return "shared file" if shared >= MOSTLY else "file per process" if 1 - shared >= MOSTLY else "both"


def _order(runs: Sequence[Behaviour]) -> tuple[Order, Shares | None]:
    requests = sum(r.pattern_requests for r in runs)
    if not requests:
        return "unknown", None
    forward = sum(r.seq_requests for r in runs)
    # Darshan counts a process's first request to a file as neither forward nor contiguous.
    following = max(requests - sum(min(_firsts(r), r.pattern_requests) for r in runs), forward)
    if not following:
        return "one request per file", None
    contiguous = min(sum(r.consec_requests for r in runs), forward)
    strided = min(sum(r.strided_requests for r in runs), forward - contiguous)
    counts = (contiguous, strided, forward - contiguous - strided, following - forward)
    names: tuple[Order, ...] = ("contiguous", "strided", "with gaps", "random")
    order: Order = next((name for name, count in zip(names, counts, strict=True) if 2 * count > following), "mixed")
    a, b, c, d = (count / following for count in counts)
    return order, (a, b, c, d)


def _firsts(run: Behaviour) -> int:
    """Pairs of a process and a file that it used, at most."""
    return run.total_files - run.shared_files + run.shared_files * max(run.io_procs, 1)
