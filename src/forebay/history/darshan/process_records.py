"""Combines the records of a job without MPI, which has one log for each process, as `process_logs` combines its sums.

Processes get ranks in the order in which they started, and times are those since the first one started.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forebay.history.darshan.file_records import FileRecords, ModuleTotals, ProcessLog, Uses
from forebay.history.darshan.file_systems import FileSystems
from forebay.history.darshan.log import Job
from forebay.history.darshan.log_format import Module
from forebay.history.darshan.ost_usage import OstUsage

_TABLES = ("posix", "stdio", "dfs", "calls")


def combine_records(parts: Sequence[FileRecords]) -> FileRecords:
    """The records of these logs as those of one run. `path` is that of the log with most bytes."""
    parts = sorted(parts, key=lambda part: (part.job.start_time, part.job.exe, part.job.end_time, _count_bytes(part)))
    largest = max(parts, key=_count_bytes)
    start = parts[0].job.start_time
    combined = FileRecords(path=largest.path, job=_combine_jobs(parts), modules=_combine_modules(parts))
    combined.processes = tuple(
        ProcessLog(path=part.path, job=part.job, modules=part.modules, begin=part.job.start_time - start)
        for part in parts
    )
    for name in _TABLES:
        setattr(combined, name, _combine_tables([getattr(part, name) for part in parts], combined.processes))
    for part in parts:
        combined.mounts |= part.mounts
        for name, totals in part.totals.items():
            _add_totals(combined.totals.setdefault(name, ModuleTotals()), totals)
    combined.layouts = list({layout.file: layout for part in parts for layout in part.layouts}.values())
    combined.unreadable = list(dict.fromkeys(reason for part in parts for reason in part.unreadable))
    if any(part.usage is not None for part in parts):
        combined.usage = _sum_usage(combined)
    return combined


def _count_bytes(records: FileRecords) -> int:
    return sum(int(totals.moved.sum()) for totals in records.totals.values())


def _combine_jobs(parts: Sequence[FileRecords]) -> Job:
    jobs = [part.job for part in parts]
    start = jobs[0].start_time
    return replace(
        jobs[0],
        nprocs=len(jobs),
        end_time=max(job.end_time for job in jobs),
        run_time=max(job.start_time - start + job.run_time for job in jobs),
    )


def _combine_modules(parts: Sequence[FileRecords]) -> dict[str, Module]:
    modules: dict[str, Module] = {}
    for name, module in (named for part in parts for named in part.modules.items()):
        known = modules.setdefault(name, module)
        modules[name] = known._replace(partial=known.partial or module.partial)
    return modules


def _combine_tables(tables: Sequence[Uses], processes: Sequence[ProcessLog]) -> Uses:
    combined: Uses = np.concatenate(tables)
    at = 0
    for rank, (table, process) in enumerate(zip(tables, processes, strict=True)):
        rows = combined[at : at + table.size]
        at += table.size
        rows["rank"] = rank
        names = table.dtype.names or ()
        for name in (name for name in ("begin", "end") if name in names):
            rows[name] = np.where(rows[name] > 0, rows[name] + process.begin, 0)
    return combined


def _add_totals(sums: ModuleTotals, totals: ModuleTotals) -> None:
    sums.sizes += totals.sizes
    sums.moved += totals.moved
    sums.seconds += totals.seconds
    sums.common.update(totals.common)
    sums.calls.update(totals.calls)


def _sum_usage(records: FileRecords) -> OstUsage:
    usage = OstUsage(records.layouts, FileSystems(records.mounts, records.iterate_names))
    for uses in (records.posix, records.stdio, records.dfs):
        columns: dict[str, Any] = {name: uses[name] for name in ("bytes", "seconds", "extent")}
        usage.add(
            uses["id"],
            columns["bytes"].sum(axis=1),
            columns["seconds"].sum(axis=1, dtype=float),
            columns["extent"].max(axis=1, initial=0),
        )
    return usage
