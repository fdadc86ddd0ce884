"""Whether the numbers of a log can be true. A log may be whole, and yet have been written over.

One impossible number would spoil the sums over all runs, or not even fit into the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from forebay.history.darshan.header import UnreadableLog
from forebay.history.darshan.log import BINS, Job, counter_columns, counter_prefix, whole_counters
from forebay.history.run_fields import LARGEST

_ANY = ("job_id", "uid", "stripe_offset")
_TOLD_APART = ("POSIX", "MPI-IO")  # DFS and DAOS count requests under names of their own
_HOW = ("INDEP", "COLL", "SPLIT", "NB")
_SLACK_SHARE, _SLACK_SECONDS = 0.05, 0.05
"""What a time may be longer than the run: the clocks of processes differ, and so do the moments that they start at."""


def check_records(path: str, name: str, job: Job, chunks: Iterator[Any]) -> Iterator[Any]:
    """The chunks of a module's records again; an `UnreadableLog` if one of them can't be true."""
    for chunk in chunks:
        # The library takes a rank for a place in its arrays, without a look at their length.
        if chunk["rank"].max() >= job.nprocs or chunk["rank"].min() < -1:
            raise UnreadableLog(path, f"is damaged: its {name} records are of processes that it does not have")
        wrong = _wrong_share(name, chunk["counters"]) or _wrong_time(name, job, chunk)
        if wrong is not None:
            raise UnreadableLog(path, f"is implausible: a {name} record has {wrong}")
        yield chunk


def _wrong_share(name: str, counters: Any) -> str | None:
    """Requests of a kind that are more than all."""
    if name not in _TOLD_APART:
        return None
    kinds, some, every = _shares(name)
    part, whole = counters @ some, counters @ every
    over = np.argwhere(part > np.maximum(whole, 0))
    if not over.size:
        return None
    at = tuple(over[0])
    return f"{part[at]:,} {kinds[at[1]]} among {whole[at]:,}"


@cache
def _shares(name: str) -> tuple[list[str], Any, Any]:
    """Kinds of requests; and what adds up the counters of each, and of all that it is a part of."""
    requests = {kind: [f"{kind}S", *(f"{how}_{kind}S" for how in _HOW)] for kind in ("READ", "WRITE")}
    both = requests["READ"] + requests["WRITE"]
    strides = [f"STRIDE{i}_COUNT" for i in range(1, 5)]
    found = [("requests with a known stride", strides, both), ("unaligned requests", ["FILE_NOT_ALIGNED"], both)]
    for kind, every in requests.items():
        sizes = [f"SIZE_{kind}_{agg}{size}" for agg in ("", "AGG_") for size in BINS]
        found += [
            (f"sequential {kind.lower()}s", [f"SEQ_{kind}S"], every),
            (f"consecutive {kind.lower()}s", [f"CONSEC_{kind}S"], every),
            (f"{kind.lower()}s of a known size", sizes, every),
        ]
    some = np.array([_adder(name, names) for _, names, _ in found]).T
    return [what for what, _, _ in found], some, np.array([_adder(name, names) for _, _, names in found]).T


def _adder(name: str, counters: Iterable[str]) -> Any:
    """1 for each of these counters, as far as the module has them, and 0 for the others."""
    named = [f"{counter_prefix(name)}_{counter}" for counter in counters]
    return np.isin(whole_counters(name), named).astype(np.int64)


def _wrong_time(name: str, job: Job, chunk: Any) -> str | None:
    """More than the run took, spent by a process on one file. (On all its files together it may have spent more, if it
    has threads.) A record of all processes has the sum over them, and the time of the slowest."""
    if not job.run_time:  # the log has no end
        return None
    parts, slowest = _times(name)
    spent, shared = chunk["fcounters"][:, parts].sum(axis=1), chunk["rank"] < 0
    spent[shared] = np.fmax(spent[shared] / job.nprocs, chunk["fcounters"][shared, slowest])
    longest = spent.max()
    if longest <= job.run_time * (1 + _SLACK_SHARE) + _SLACK_SECONDS:
        return None
    return f"{longest:.3g} s of I/O of a process in a run of {job.run_time:.3g} s"


@cache
def _times(name: str) -> tuple[list[int], int]:
    at, known = counter_columns(name), counter_prefix(name)
    return [at[f"{known}_F_{kind}_TIME"] for kind in ("READ", "WRITE", "META")], at[f"{known}_F_SLOWEST_RANK_TIME"]


def find_impossible(row: Mapping[str, Any]) -> str | None:
    """What can't be true of a row of `runs` with its modules and OSTs, in words; None if all of it can.

    >>> find_impossible({"total_bytes": -5, "module_rows": [], "osts": {}})
    'total_bytes of -5'
    """
    for name, value in _numbers(row):
        if not 0 <= value <= LARGEST:  # which NaN is not, either
            return f"{name} of {value}"
    return None


def _numbers(row: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    for part in (row, *row["module_rows"], *row.get("request_rows", ())):
        yield from ((n, v) for n, v in part.items() if isinstance(v, int | float) and n not in _ANY)
    for name, column in row["osts"].items():
        if name == "filesystem":
            continue
        yield from ((name, value) for value in column if value is not None)
