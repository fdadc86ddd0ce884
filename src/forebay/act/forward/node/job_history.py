"""Jobs that went through the layer, as runs of the history: as if each of their processes had left a Darshan log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from forebay.history.darshan.process_logs import merge_processes
from forebay.history.run_fields import FORWARDED
from forebay.history.scanned_log import ScannedLog, pack_summary
from forebay.history.store import Store
from forebay.history.store.logs import clear_stale, read_process_summaries, record_logs
from forebay.history.store.runs import add_runs
from forebay.model.errors import BadInput

MODULE = "FORWARD"
_VERSION = "forward-1"
_NUMBERS = (
    "uid", "job", "processes", "reads", "writes", "bytes_read", "bytes_written", "seq", "consec", "strided",
    "unaligned", "common_size",
)  # fmt: skip
_SECONDS = ("begin", "end", "busy", "read_time", "write_time", "meta_time")
_BINS = 10


class _Through(ScannedLog):
    """What one process did. Its job may also have left Darshan logs, which are other runs."""

    @property
    def run_key(self) -> str | None:
        row = self.row or {}
        same = "{job_id}:{uid}:{app}".format_map(row)
        return "forward:" + hashlib.blake2b(same.encode(), digest_size=16).hexdigest()


def store_parts(store: Store, told: Sequence[Mapping[str, Any]]) -> None:
    """Take in what processes did. What is told twice counts once, and all processes of a job are one run."""
    found = [_found(part) for part in map(checked, told)]
    keys = sorted({each.run_key for each in found if each.run_key is not None})
    with store.writing() as connection:
        record_logs(connection, found)
        add_runs(connection, [_run(key, some) for key, some in read_process_summaries(connection, keys)])
        clear_stale(connection, keys)


def _run(key: str, some: Sequence[Any]) -> dict[str, Any]:
    active = len({row["process"] for row, _ in some})
    processes = max(max(row["nprocs"] for row, _ in some), active)
    return merge_processes(some) | {"run_key": key, "nprocs": processes, "io_procs": active}


def checked(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """`part`, if a process can have done that; a peer sent it."""
    for names, kind in ((_NUMBERS, int), (_SECONDS, (int, float))):
        for name in names:
            value = part.get(name)
            if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= value < 2**62:
                raise BadInput(f"a job's record: {name}", f"can't be {value!r}")
    for name in ("app", "exe", "process", "token"):
        if not isinstance(part.get(name), str):
            raise BadInput(f"a job's record: {name}", f"can't be {part.get(name)!r}")
    for name in ("read_sizes", "write_sizes"):
        if not _are_counts(part.get(name), _BINS):
            raise BadInput(f"a job's record: {name}", f"must be {_BINS} counts")
    if not isinstance(part.get("files"), list) or not all(map(_is_file, part["files"])):
        raise BadInput("a job's record: files", "must be ids, layouts, bytes and ends")
    return part


def _are_counts(value: object, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(type(v) is int and v >= 0 for v in value)


def _is_file(value: object) -> bool:
    match value:
        case [int(), [int() as count, int() as size, int() as start], int() as moved, int() as end]:
            return 0 < count <= 1 << 16 and size > 0 and start >= -1 and moved >= 0 and end >= 0
    return False


def _found(part: Mapping[str, Any]) -> ScannedLog:
    digest = hashlib.blake2b(part["token"].encode(), digest_size=16).hexdigest()
    row = _row(part)
    files = {file: moved for file, _, moved, _ in part["files"]}
    return _Through(
        path=f"forward://{part['token']}",
        size=len(json.dumps(part, default=str)),
        mtime_ns=int(part["end"] * 1e9),
        digest=digest,
        row=row,
        summary=pack_summary(row, files),
    )


def _row(part: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `runs`, with what `merge_processes` needs."""
    moved, busy = part["bytes_read"] + part["bytes_written"], part["busy"]
    requests = part["reads"] + part["writes"]
    both = [r + w for r, w in zip(part["read_sizes"], part["write_sizes"], strict=True)]
    osts = _osts(part["files"], busy)
    speed = moved / busy if busy > 0 else 0.0
    return {
        "app": part["app"],
        "exe": part["exe"],
        "user": part.get("user"),
        "uid": part["uid"],
        "job_id": part["job"],
        "process": part["process"],
        "logs": 1,
        "nprocs": part["processes"],
        "io_procs": 1,
        "start_time": part["begin"],
        "end_time": part["end"],
        "run_time": max(part["end"] - part["begin"], 0.0),
        "modules": MODULE,
        "log_ver": _VERSION,
        "partial_flag": False,
        "total_bytes": moved,
        "bytes_read": part["bytes_read"],
        "bytes_written": part["bytes_written"],
        "time_by_slowest": busy,
        "perf_by_slowest": speed,
        "read_time": part["read_time"],
        "write_time": part["write_time"],
        "meta_time": part["meta_time"],
        "total_files": len(part["files"]),
        "shared_files": 0,
        "shared_bytes": 0,
        "read_requests": part["reads"],
        "write_requests": part["writes"],
        "seq_requests": part["seq"],
        "consec_requests": part["consec"],
        "strided_requests": part["strided"],
        "unaligned_requests": part["unaligned"],
        "pattern_requests": requests,
        "seq_pct": 100 * part["seq"] / requests if requests else None,
        "io_less_1k": sum(both[:2]),
        "io_1k_to_100k": sum(both[2:4]),
        "read_sizes": ",".join(map(str, part["read_sizes"])),
        "write_sizes": ",".join(map(str, part["write_sizes"])),
        "common_size": part["common_size"],
        **_layout(part["files"]),
        "filesystem": FORWARDED if osts["ost"] else None,
        "stripe_count": len(osts["ost"]) or None,
        "pfl_components": 1,
        "components": None,
        "pool": None,
        "module_rows": [_module(part, moved, busy, speed)],
        "osts": osts,
    }


def _layout(files: Sequence[Any]) -> dict[str, Any]:
    """That of the file with most bytes."""
    if not files:
        return {"stripe_size": None, "file_stripe_count": None, "stripe_offset": None}
    _, (count, size, start), _, _ = max(files, key=lambda file: file[2])
    return {"stripe_size": size, "file_stripe_count": count, "stripe_offset": max(start, 0)}


def _osts(files: Sequence[Any], seconds: float) -> dict[str, list[Any]]:
    """What each server had of it: a file's bytes are spread evenly over the servers that its stripes reach."""
    servers = 1 + max((max(start, 0) + count - 1 for _, (count, _, start), _, _ in files), default=0)
    all_moved = sum(moved for _, _, moved, _ in files) or 1
    names = ("files", "total_bytes", "io_time", "alone_files", "alone_bytes", "alone_time")
    sums: dict[int, dict[str, Any]] = {}
    for _, (count, size, start), moved, end in files:
        reached = min(count, max(-(-end // size), 1))
        for place in range(reached):
            row = sums.setdefault((max(start, 0) + place) % servers, dict.fromkeys(names, 0))
            row["files"] += 1
            row["total_bytes"] += moved // reached
            row["io_time"] += seconds * moved / all_moved / reached
            if reached == 1:
                row["alone_files"] += 1
                row["alone_bytes"] += moved
                row["alone_time"] += seconds * moved / all_moved
    found: dict[str, list[Any]] = {"filesystem": [FORWARDED] * len(sums), "ost": sorted(sums)}
    found |= {name: [sums[ost][name] for ost in found["ost"]] for name in names}
    return found | {"slowness": [None] * len(found["ost"])}


def _module(part: Mapping[str, Any], moved: int, busy: float, speed: float) -> dict[str, Any]:
    return {
        "module": MODULE,
        "total_bytes": moved,
        "bytes_read": part["bytes_read"],
        "bytes_written": part["bytes_written"],
        "time_by_slowest": busy,
        "perf_by_slowest": speed,
        "total_files": len(part["files"]),
        "partial_flag": False,
    }
