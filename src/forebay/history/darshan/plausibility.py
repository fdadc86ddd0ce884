"""Checks that the numbers in a log are possible: a log of the right length may still have damaged contents.

One impossible number would spoil the sums over all runs, or not fit into the database.
"""

from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from forebay.history.darshan.log import BINS, Job, counter_columns, counter_names
from forebay.history.darshan.log_format import UnreadableLog
from forebay.history.run_fields import LARGEST

_UNCHECKED = ("job_id", "uid", "stripe_offset")
_WITH_KINDS = ("POSIX", "MPI-IO")  # DFS and DAOS have other names for their request counters
_CALLS = ("INDEP", "COLL", "SPLIT", "NB")
_SLACK_SHARE, _SLACK_SECONDS = 0.05, 0.05
"""How much longer than the run a time may be: clocks and start times of processes differ."""


def check_chunk(path: str, name: str, job: Job, chunk: Any) -> None:
    """Raise `UnreadableLog` if one of a module's records is impossible."""
    # The library uses a rank as an array index without a check.
    if chunk["rank"].max() >= job.nprocs or chunk["rank"].min() < -1:
        raise UnreadableLog(path, f"is damaged: its {name} records have ranks outside its {job.nprocs} processes")
    wrong = _find_wrong_share(name, chunk["counters"]) or _find_wrong_time(name, job, chunk)
    if wrong is not None:
        raise UnreadableLog(path, f"is implausible: a {name} record shows {wrong}")


def _find_wrong_share(name: str, counters: Any) -> str | None:
    """Describe a kind of requests with a count above the total; None if all are possible."""
    if name not in _WITH_KINDS:
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
    """The kinds of requests, and two matrices: one adds up the counters of each kind, one those of its total."""
    requests = {kind: [f"{kind}S", *(f"{how}_{kind}S" for how in _CALLS)] for kind in ("READ", "WRITE")}
    both = requests["READ"] + requests["WRITE"]
    strides = [f"STRIDE{i}_COUNT" for i in range(1, 5)]
    kinds = [("requests with a known stride", strides, both), ("unaligned requests", ["FILE_NOT_ALIGNED"], both)]
    for kind, names in requests.items():
        sizes = [f"SIZE_{kind}_{agg}{size}" for agg in ("", "AGG_") for size in BINS]
        kinds += [
            (f"sequential {kind.lower()}s", [f"SEQ_{kind}S"], names),
            (f"consecutive {kind.lower()}s", [f"CONSEC_{kind}S"], names),
            (f"{kind.lower()}s of a known size", sizes, names),
        ]
    whole, _ = counter_names(name)
    some, every = ([np.isin(whole, kind[i]).astype(np.int64) for kind in kinds] for i in (1, 2))
    return [what for what, _, _ in kinds], np.array(some).T, np.array(every).T


def _find_wrong_time(name: str, job: Job, chunk: Any) -> str | None:
    """Describe a process that spent more time on one file than the run took. (A process with threads may spend more on
    all its files together.) A record of all processes has the sum over them and the time of the slowest."""
    if not job.run_time:  # the log has no end
        return None
    at = counter_columns(name)
    parts = [at[f"F_{kind}_TIME"] for kind in ("READ", "WRITE", "META")]
    spent, shared = chunk["fcounters"][:, parts].sum(axis=1), chunk["rank"] < 0
    spent[shared] = np.fmax(spent[shared] / job.nprocs, chunk["fcounters"][shared, at["F_SLOWEST_RANK_TIME"]])
    longest = spent.max()
    if longest <= job.run_time * (1 + _SLACK_SHARE) + _SLACK_SECONDS:
        return None
    return f"{longest:.3g} s of I/O by one process in a run of {job.run_time:.3g} s"


def find_impossible(row: Mapping[str, Any]) -> str | None:
    """Describe an impossible number in a row of `runs`, its modules or its OSTs; None if all are possible.

    >>> find_impossible({"total_bytes": -5, "module_rows": [], "osts": {}})
    'total_bytes is -5'
    """
    parts = (row, *row["module_rows"], *row.get("request_rows", ()))
    numbers = ((name, value) for part in parts for name, value in part.items() if isinstance(value, int | float))
    columns = ((name, value) for name, column in row["osts"].items() if name != "filesystem" for value in column)
    for name, value in chain(numbers, columns):
        if value is not None and name not in _UNCHECKED and not 0 <= value <= LARGEST:  # also false for NaN
            return f"{name} is {value}"
    return None
