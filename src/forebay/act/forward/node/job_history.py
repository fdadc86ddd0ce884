"""Stores jobs that used the layer as runs of the history, as if each process had left a Darshan log."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from forebay.act.forward.net.council_payloads import FileUse, JobPart
from forebay.act.forward.net.wire import pack
from forebay.history.darshan.process_logs import merge_processes
from forebay.history.run_fields import FORWARDED, Row
from forebay.history.scanned_log import ScannedLog, pack_summary
from forebay.history.store import Store
from forebay.history.store.ingested_logs import combine_runs, record_logs

MODULE = "FORWARD"
_VERSION = "forward-1"
_COLUMNS = {
    "app": "app", "exe": "exe", "user": "user", "uid": "uid", "process": "process", "job_id": "job",
    "nprocs": "processes", "start_time": "begin", "end_time": "end", "bytes_read": "bytes_read",
    "bytes_written": "bytes_written", "read_time": "read_time", "write_time": "write_time", "meta_time": "meta_time",
    "common_size": "common_size", "read_requests": "reads", "write_requests": "writes", "seq_requests": "seq",
    "consec_requests": "consec", "strided_requests": "strided", "unaligned_requests": "unaligned",
}  # fmt: skip
"""Columns of `runs`, and the field of a `JobPart` that each one copies."""


class _ProcessLog(ScannedLog):
    """What one process did. Darshan logs of the same job are separate runs."""

    @property
    def run_key(self) -> str | None:
        identity = "{job_id}:{uid}:{app}".format_map(self.row or {})
        return "forward:" + hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()


def store_parts(store: Store, new: Sequence[JobPart]) -> None:
    """Store what processes did. A part that is sent twice counts once, and all processes of a job form one run."""
    logs = [_log(part) for part in new]
    keys = sorted({log.run_key for log in logs if log.run_key is not None})
    with store.open_writer() as connection:
        record_logs(connection, logs)
        combine_runs(connection, keys, _merge)


def _merge(summaries: Sequence[Any]) -> Row:
    active = len({row["process"] for row, _ in summaries})
    processes = max(max(row["nprocs"] for row, _ in summaries), active)
    return merge_processes(summaries) | {"nprocs": processes, "io_procs": active}


def _log(part: JobPart) -> ScannedLog:
    row = _row(part)
    return _ProcessLog(
        path=f"forward://{part.token}",
        size=len(pack(part)),
        mtime_ns=int(part.end * 1e9),
        digest=hashlib.blake2b(part.token.encode(), digest_size=16).hexdigest(),
        row=row,
        summary=pack_summary(row, {file: moved for file, _, moved, _ in part.files}),
    )


def _row(part: JobPart) -> Row:
    """Build a row of `runs`, with the fields that `merge_processes` needs."""
    requests = part.reads + part.writes
    sizes = [r + w for r, w in zip(part.read_sizes, part.write_sizes, strict=True)]
    osts, files_by_ost = _osts(part.files, part.busy)
    moved = part.bytes_read + part.bytes_written
    totals = {  # of the run and of its only module
        "total_bytes": moved,
        "bytes_read": part.bytes_read,
        "bytes_written": part.bytes_written,
        "time_by_slowest": part.busy,
        "perf_by_slowest": moved / part.busy if part.busy > 0 else 0.0,
        "total_files": len(part.files),
        "partial_flag": False,
    }
    return {
        **{column: getattr(part, field) for column, field in _COLUMNS.items()},
        **totals,
        "logs": 1,
        "io_procs": 1,
        "run_time": max(part.end - part.begin, 0.0),
        "modules": MODULE,
        "log_ver": _VERSION,
        "shared_files": 0,
        "shared_bytes": 0,
        "pattern_requests": requests,
        "seq_pct": 100 * part.seq / requests if requests else None,
        "io_less_1k": sum(sizes[:2]),
        "io_1k_to_100k": sum(sizes[2:4]),
        "read_sizes": ",".join(map(str, part.read_sizes)),
        "write_sizes": ",".join(map(str, part.write_sizes)),
        **_main_layout(part.files),
        "filesystem": FORWARDED if osts["ost"] else None,
        "stripe_count": len(osts["ost"]) or None,
        "pfl_components": 1,
        "components": None,
        "pool": None,
        "module_rows": [{"module": MODULE, **totals}],
        "osts": osts,
        "file_ids": {"modules": {MODULE: [file for file, *_ in part.files]}, "osts": files_by_ost},
    }


def _main_layout(files: Sequence[FileUse]) -> dict[str, int | None]:
    """The layout of the file with the most bytes moved."""
    if not files:
        return {"stripe_size": None, "file_stripe_count": None, "stripe_offset": None}
    _, (count, size, start), _, _ = max(files, key=lambda file: file[2])
    return {"stripe_size": size, "file_stripe_count": count, "stripe_offset": max(start, 0)}


def _osts(files: Sequence[FileUse], seconds: float) -> tuple[dict[str, list[Any]], dict[str, list[list[int]]]]:
    """The share of each server, if the bytes of a file are spread evenly over the servers that its stripes reach; and
    the files behind the columns that count them."""
    servers = 1 + max((max(start, 0) + count - 1 for _, (count, _, start), _, _ in files), default=0)
    all_moved = sum(moved for _, _, moved, _ in files) or 1
    sums: dict[int, Counter[str]] = {}
    used: dict[str, dict[int, list[int]]] = {"files": {}, "alone_files": {}}
    for file, (count, size, start), moved, end in files:
        reached = min(count, max(-(-end // size), 1))
        for place in range(reached):
            time: Any = seconds * moved / all_moved / reached
            ost = (max(start, 0) + place) % servers
            row = sums.setdefault(ost, Counter())
            used["files"].setdefault(ost, []).append(file)
            row.update(files=1, total_bytes=moved // reached, io_time=time)
            if reached == 1:
                used["alone_files"].setdefault(ost, []).append(file)
                row.update(alone_files=1, alone_bytes=moved, alone_time=time)
    osts = sorted(sums)
    names = ("files", "total_bytes", "io_time", "alone_files", "alone_bytes", "alone_time")
    columns = {name: [sums[ost][name] for ost in osts] for name in names}
    listed = {name: [ids.get(ost, []) for ost in osts] for name, ids in used.items()}
    return {"filesystem": [FORWARDED] * len(osts), "ost": osts, **columns, "slowness": [None] * len(osts)}, listed
