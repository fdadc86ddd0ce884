"""Rows of the history as a log would give them, with what a test cares about."""

from typing import Any

from forebay.history.store.schema import requests, runs

_TEXTS = {
    "read_sizes": ",".join("0" * 10),
    "write_sizes": ",".join("0" * 10),
    "modules": "POSIX,LUSTRE",
    "log_ver": "3.41",
}
_NULLS = {
    "filesystem",
    "user",
    "pool",
    "components",
    "seq_pct",
    "stripe_count",
    "stripe_size",
    "file_stripe_count",
    "stripe_offset",
}


def run_row(key: str, app: str = "app", **values: Any) -> dict[str, Any]:
    """A run; what is not given is 0, or not known."""
    row: dict[str, Any] = {c.name: 0 for c in runs.columns if c.name not in ("run_id", "app_id")}
    row |= {"exe": app, "nprocs": 1, "logs": 1, "partial_flag": False} | _TEXTS | dict.fromkeys(_NULLS)
    row |= {"run_key": key, "app": app, "module_rows": [], "request_rows": [], "osts": {}}
    unknown = values.keys() - row.keys()
    assert not unknown, unknown
    return row | values


def request_row(operation: str, **values: Any) -> dict[str, Any]:
    """What a run's reads or writes are like; what is not given is 0."""
    row: dict[str, Any] = {c.name: 0 for c in requests.columns if c.name != "run_id"}
    assert not values.keys() - row.keys()
    return row | {"operation": operation, "file_sizes": None} | values


def ost_columns(*rows: dict[str, Any]) -> dict[str, list[Any]]:
    """The columns of `run_osts` of rows; what is not given is 0, or not known."""
    names = ("files", "total_bytes", "io_time", "alone_files", "alone_bytes", "alone_time")
    whole = [{"filesystem": ""} | dict.fromkeys(names, 0) | {"slowness": None} | row for row in rows]
    return {name: [row[name] for row in whole] for name in whole[0]} if whole else {}
