"""Combines the logs of a job without MPI, which has one for each process, into one run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from forebay.history.darshan.ost_slowness import slowness
from forebay.history.run_fields import DIAGNOSIS_SUMS, ORDERS, Row
from forebay.history.scanned_log import ProcessSummary
from forebay.model.file_sizes import add_sizes, format_sizes, parse_sizes

_SUMMED = (
    "total_bytes", "bytes_read", "bytes_written", "read_time", "write_time", "meta_time", "read_requests",
    "write_requests", "seq_requests", "consec_requests", "strided_requests", "unaligned_requests",
    "pattern_requests", "io_less_1k", "io_1k_to_100k",
)  # fmt: skip
_FROM_FIRST = ("app", "exe", "user", "uid", "job_id", "log_ver")
_NOT_SUMMED = ("operation", "file_size", "file_sizes", "common_size", "common_call_size", *ORDERS)
_FROM_LARGEST = ("filesystem", "stripe_size", "file_stripe_count", "stripe_offset", "components", "pool", "common_size")


def merge_processes(processes: Sequence[ProcessSummary]) -> Row:
    """Merge these processes into a run; their order does not matter.

    Bytes and requests add up, the I/O time is that of the slowest process, and files of several processes are shared.
    """
    if len(processes) == 1:
        return dict(processes[0][0])
    rows = sorted(
        (row for row, _ in processes), key=lambda r: (r["start_time"], r["exe"], r["end_time"], r["total_bytes"])
    )
    largest = max(rows, key=lambda r: (r["stripe_size"] is not None, r["total_bytes"]))
    users, moved = Counter[int](), Counter[int]()
    for _, files in processes:
        users.update(files.keys())
        moved.update(files)
    shared = [file for file, count in users.items() if count > 1]
    run: Row = {name: rows[0][name] for name in _FROM_FIRST}
    run |= {name: sum(r[name] for r in rows) for name in _SUMMED}
    run |= {name: largest[name] for name in _FROM_LARGEST}
    seconds = max(r["time_by_slowest"] for r in rows)
    start, end = rows[0]["start_time"], max(r["end_time"] for r in rows)
    osts = _merge_osts(rows)
    return run | {
        "logs": len(rows),
        "nprocs": len(rows),
        "io_procs": sum(r["total_bytes"] > 0 for r in rows),
        "start_time": start,
        "end_time": end,
        "run_time": end - start,
        "modules": ",".join(dict.fromkeys(m for r in rows for m in r["modules"].split(",") if m)),
        "partial_flag": any(r["partial_flag"] for r in rows),
        "time_by_slowest": seconds,
        "perf_by_slowest": run["total_bytes"] / seconds if seconds > 0 else 0.0,
        "total_files": max(len(users), max(r["total_files"] for r in rows)),
        "shared_files": len(shared),
        "shared_bytes": sum(moved[file] for file in shared),
        "seq_pct": 100 * run["seq_requests"] / run["pattern_requests"] if run["pattern_requests"] else None,
        "read_sizes": _add_histograms(r["read_sizes"] for r in rows),
        "write_sizes": _add_histograms(r["write_sizes"] for r in rows),
        "stripe_count": osts["filesystem"].count(run["filesystem"]) or None,
        "pfl_components": max(r["pfl_components"] for r in rows),
        "module_rows": _merge_modules(rows),
        "request_rows": _merge_requests(rows, sum(moved[file] for file in shared) / max(run["total_bytes"], 1)),
        "osts": osts,
        "diagnosis": _merge_diagnoses(rows, largest),
    }


def _merge_diagnoses(rows: Sequence[Row], largest: Row) -> Row | None:
    """The findings of the process that moved most, and the seconds and bytes of all."""
    diagnoses = [diagnosis for row in rows if (diagnosis := row.get("diagnosis"))]
    if not largest.get("diagnosis"):
        return None
    summed = {name: sum(diagnosis.get(name, 0) for diagnosis in diagnoses) for name in DIAGNOSIS_SUMS}
    busiest = max(diagnosis.get("busiest_seconds", 0.0) for diagnosis in diagnoses)
    return {**largest["diagnosis"], **summed, "busiest_seconds": busiest}


def _add_histograms(histograms: Iterable[str]) -> str:
    columns = zip(*(map(int, h.split(",")) for h in histograms), strict=True)
    return ",".join(str(sum(column)) for column in columns)


def _merge_modules(rows: Sequence[Row]) -> list[Row]:
    merged = []
    known = [ids["modules"] for row in rows if (ids := row.get("file_ids"))]
    for name, same in _group_by("module", (m for r in rows for m in r["module_rows"])):
        added = ("total_bytes", "bytes_read", "bytes_written", "total_files")
        summed = {name: sum(m[name] for m in same) for name in added}
        if len(known) == len(rows):  # each file once; otherwise, once for each process
            summed["total_files"] = len({file for files in known for file in files.get(name, ())})
        slowest = max(m["time_by_slowest"] for m in same)
        speed = summed["total_bytes"] / slowest if slowest > 0 else 0.0
        flag = any(m["partial_flag"] for m in same)
        merged.append({**same[0], **summed, "time_by_slowest": slowest, "perf_by_slowest": speed, "partial_flag": flag})
    return merged


def _merge_requests(rows: Sequence[Row], shared: float) -> list[Row]:
    """Merge rows of requests. Reads and writes get the same share of shared bytes: the logs do not separate them. A
    file of several processes counts as one of each in `file_sizes`, which has no names."""
    merged = []
    for _, same in _group_by("operation", (part for row in rows for part in row.get("request_rows", ()))):
        largest = max(same, key=lambda part: part["total_bytes"])
        summed = {name: sum(part[name] for part in same) for name in largest if name not in _NOT_SUMMED}
        known = [part for part in same if part["contiguous"] is not None]
        order = {name: sum(part[name] for part in known) if known else None for name in ORDERS}
        sizes = [text for part in same if (text := part.get("file_sizes")) is not None]
        files = format_sizes(add_sizes(*map(parse_sizes, sizes))) if len(sizes) == len(same) else None
        moved_shared = round(min(shared, 1.0) * summed["total_bytes"])
        merged.append({**largest, **summed, **order, "file_sizes": files, "shared_bytes": moved_shared})
    return merged


def _merge_osts(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Merge the rows of OSTs, and compute slowness again: one process seldom uses enough OSTs to compare. A file of
    several processes counts once."""
    added = [name for row in rows[:1] for name in row["osts"] if name not in ("filesystem", "ost", "slowness")]
    sums: dict[tuple[str, int], list[Any]] = {}
    for osts in (row["osts"] for row in rows):
        columns = (osts[name] for name in ("filesystem", "ost", *added))
        for system, ost, *values in zip(*columns, strict=True):
            before = sums.get((system, ost))
            sums[system, ost] = values if before is None else [a + b for a, b in zip(before, values, strict=True)]
    for name, files in _merge_files(rows).items():
        for place, ids in files.items():
            sums[place][added.index(name)] = len(ids)
    every = sorted(sums)
    merged: dict[str, list[Any]] = {"filesystem": [s for s, _ in every], "ost": [ost for _, ost in every]}
    merged |= {name: [sums[place][i] for place in every] for i, name in enumerate(added)}
    return merged | {"slowness": slowness(merged["filesystem"], merged["alone_bytes"], merged["alone_time"])}


def _merge_files(rows: Sequence[Row]) -> dict[str, dict[tuple[str, int], set[int]]]:
    """The ids behind the columns that count files, by OST; none if a process does not list them."""
    merged: dict[str, dict[tuple[str, int], set[int]]] = {"files": {}, "alone_files": {}}
    for row in rows:
        listed = (row.get("file_ids") or {}).get("osts")
        if listed is None and row["osts"]["ost"]:
            return {}
        for name, files in merged.items():
            places = zip(row["osts"]["filesystem"], row["osts"]["ost"], strict=True)
            for place, ids in zip(places, (listed or {}).get(name, ()), strict=True):
                files.setdefault(place, set()).update(ids)
    return merged


def _group_by(name: str, rows: Iterable[Row]) -> list[tuple[Any, list[Row]]]:
    key = itemgetter(name)
    return [(value, list(same)) for value, same in groupby(sorted(rows, key=key), key)]
