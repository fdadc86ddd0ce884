"""Plausible runs for histories: of an application on Lustre, with what a test cares about changed."""

from collections.abc import Iterator, Sequence
from typing import Any

from forebay.history.store import Store
from forebay.history.store.past_runs import Behaviour
from forebay.history.store.runs import add_runs
from support.history_rows import ost_columns, run_row

MIB = 1 << 20
START = 1_600_000_000.0


def a_run(number: int, app: str = "vpic", **others: Any) -> dict[str, Any]:
    """What `add_runs` takes, a minute after run `number` - 1.

    `count` sets both kinds of stripe count (None: no Lustre), `slowness` that of OST 0, 1, ...
    """
    count, slowness = others.pop("count", 1), others.pop("slowness", None)
    volume, perf = others.get("total_bytes", 1000 * MIB), others.get("perf_by_slowest", 100.0 * MIB)
    measured: dict[str, Any] = {
        "total_bytes": volume,
        "bytes_read": volume // 4,
        "bytes_written": volume - volume // 4,
        "time_by_slowest": volume / perf if perf else 0.0,
        "perf_by_slowest": perf,
        "total_files": 1,
    }
    module = {"module": "POSIX", "partial_flag": others.get("partial_flag", False), **measured}
    usual = {
        **measured,
        **_REQUESTS,
        "uid": 1000,
        "job_id": 7000 + number,
        "nprocs": 64,
        "io_procs": 64,
        "start_time": START + 60.0 * number,
        "end_time": START + 60.0 * number + 50,
        "run_time": 50.0,
        "shared_files": 1,
        "shared_bytes": volume,
        "stripe_count": count,
        "stripe_size": count and MIB,
        "file_stripe_count": count,
        "stripe_offset": count and 0,
        "pfl_components": 1 if count else 0,
        "module_rows": [module],
        "osts": ost_columns(*_osts(slowness or [None] * (count or 0), volume)),
    }
    return run_row(f"{app}/{number}", app, **usual | others)


_REQUESTS = {
    "read_requests": 250,
    "write_requests": 750,
    "seq_requests": 900,
    "consec_requests": 800,
    "strided_requests": 50,
    "pattern_requests": 1000,
    "seq_pct": 90.0,
    "read_sizes": "0,0,0,0,0,250,0,0,0,0",
    "write_sizes": "0,0,0,0,0,750,0,0,0,0",
    "common_size": MIB,
}


def _osts(slowness: Sequence[float | None], volume: int) -> Iterator[dict[str, Any]]:
    for ost, slow in enumerate(slowness):
        share = volume // len(slowness)
        moved = {"files": 10, "alone_files": 10, "total_bytes": share, "io_time": slow or 1.0}
        yield {"ost": ost, "slowness": slow} | moved


def fill(store: Store, rows: Sequence[dict[str, Any]]) -> None:
    with store.open_writer() as connection:
        add_runs(connection, rows)


def behaviour(number: int, **others: Any) -> Behaviour:
    """The same run as a profile sees it."""
    row = a_run(number, **others) | {"run_id": number}
    return Behaviour(**{name: row[name] for name in Behaviour.__slots__ if name in row})
