"""Sums up one log as a row of the history.

The bytes and seconds of a run are those of POSIX and STDIO together. MPI-IO calls end up in POSIX, so they count only
if a log has no POSIX module (and DAOS only if it has no DFS). The I/O time is that of the slowest process (Luu et al.
2015), computed by the library's accumulators.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forebay.history.darshan import examination
from forebay.history.darshan.activity import active_ranks
from forebay.history.darshan.file_counts import FileCounts
from forebay.history.darshan.file_records import FileRecords, Tables
from forebay.history.darshan.file_systems import NONE, FileSystems, mounts_of
from forebay.history.darshan.log import BINS, Job, Log, Sums, counter_columns, describe_unknown, open_log
from forebay.history.darshan.log_format import Module, UnreadableLog, UnreadableSection
from forebay.history.darshan.ost_usage import OstUsage
from forebay.history.darshan.plausibility import check_chunk, find_impossible
from forebay.history.darshan.request_statistics import RequestStatistics
from forebay.history.run_fields import Row
from forebay.history.scanned_log import Status, path_text

SUMMED = ("MPI-IO", "POSIX", "STDIO", "DFS", "DAOS")
"""In this order, because POSIX's records need to know which files were shared through MPI-IO."""
UNKNOWN = "unknown"
MOST_FILES = 100_000
"""The most files of a single process that are compared with those of the job's other processes."""
_EMPTY = "is empty: it recorded no I/O"
_PARTIAL = "is partial: Darshan ran out of memory and left records out"
_NAME = re.compile(r"_id(?P<job>\d+)(?:-(?P<pid>\d+))?_\d+-\d+-\d+-\d+")


@dataclass(slots=True)
class Summary:
    """A row of `runs` with its modules and OSTs. `of_many` is true for a log of one process, which may be one of many
    in its job; `files` then has the bytes moved to and from each file. `remarks` say what is missing from the log."""

    row: Row
    of_many: bool
    files: dict[int, int] = field(default_factory=dict)
    remarks: list[tuple[Status, str]] = field(default_factory=list)


def read_log(path: Path, examine: examination.Examine | None = None) -> Summary:
    """Read one log, without its unreadable sections; `examine` adds the findings.

    Raises `UnreadableLog` if the section with the main records is unreadable (POSIX, or the module in its place).
    """
    with open_log(path) as log:
        job, (modules, unknown) = log.job(), log.modules()
        remarks = _check_modules(modules, unknown)
        records = FileRecords(path=path, job=job, modules=modules)
        records.mounts = mounts_of(log.sections.job()[1])
        tables = Tables(records, examination.MOST_EXAMINED if examine else 0)
        # Without a batch system, Darshan uses the process id as the job id, so no other log belongs to the job.
        is_alone = _split_name(path)[2] == str(job.job_id)
        of_many = job.nprocs == 1 and "MPI-IO" not in modules and not is_alone
        layouts = _read_layouts(log, modules, remarks, records if examine else None)
        watch = _RecordWatch(layouts, MOST_FILES if of_many else 0)
        requests, files = RequestStatistics(job.nprocs), FileCounts()
        instead = {"MPI-IO": "POSIX", "DAOS": "DFS"}
        counted = [name for name in SUMMED if name in modules and instead.get(name) not in modules]
        sums: dict[str, Sums] = {}

        def observe(name: str, chunk: Any) -> Any:
            check_chunk(str(path), name, job, chunk)
            requests.add(name, chunk)
            files.add(name, chunk)
            if name in counted:
                watch.add(name, chunk)
            tables.add(name, chunk)
            return chunk

        for name in (n for n in SUMMED if n in modules):
            try:
                count = log.sections.check_records(modules[name])
            except UnreadableSection as error:
                if name == counted[0]:
                    raise
                remarks.append(("partial" if name in counted else "incomplete", error.reason))
                continue
            tables.begin(name, count)
            chunks = map(partial(observe, name), log.records(modules[name]))
            if total := log.sums(modules[name], job.nprocs, chunks):
                sums[name] = total
        active = _count_active(log, modules, watch, job, remarks)
        row = _row(path, job, modules, sums, [n for n in counted if n in sums], watch, requests, files)
        if of_many and len(watch.files) < MOST_FILES:
            row["file_ids"] = {"modules": {name: files.list_ids(name) for name in sums}, "osts": layouts.list_files()}
        row |= {"io_procs": active, "partial_flag": any(status == "partial" for status, _ in remarks)}
        wrong = find_impossible(row)
        if wrong is not None:
            raise UnreadableLog(str(path), f"is damaged: {wrong}")
        if examine:
            records.usage, records.read_names = layouts, log.sections.names
            records.unreadable = [reason for _, reason in remarks if reason not in (_EMPTY, _PARTIAL)]
            row["diagnosis"] = examination.examine_log(records, tables, examine, row, remarks)
    return Summary(row, of_many, watch.files, remarks)


def _split_name(path: Path) -> tuple[str, str, str]:
    """Split a log's name into user and program, job id, and process id; "" for missing ones."""
    name = path_text(path.name)
    match = _NAME.search(name)
    return (name[: match.start()], match["job"], match["pid"] or "") if match else ("", "", "")


def _check_modules(modules: dict[str, Module], unknown: list[int]) -> list[tuple[Status, str]]:
    remarks: list[tuple[Status, str]] = []
    if not modules and not unknown:
        remarks.append(("empty", _EMPTY))
    if any(modules[name].partial for name in ("LUSTRE", *SUMMED) if name in modules):  # not traces and heat maps
        remarks.append(("partial", _PARTIAL))
    return remarks + [("incomplete", describe_unknown(number)) for number in unknown]


def _read_layouts(
    log: Log, modules: dict[str, Module], remarks: list[tuple[Status, str]], records: FileRecords | None
) -> OstUsage:
    if "LUSTRE" not in modules:
        return OstUsage(())
    try:
        systems = FileSystems(mounts_of(log.sections.job()[1]), log.sections.names)
    except UnreadableSection as error:
        systems = NONE
        remarks.append(("incomplete", error.reason))
    layouts = log.sections.layouts(modules["LUSTRE"])
    try:
        return OstUsage(examination.keep_layouts(layouts, records) if records else layouts, systems)
    except UnreadableSection as error:
        remarks.append(("incomplete", error.reason))
        return OstUsage(())


def _count_active(
    log: Log, modules: dict[str, Module], watch: _RecordWatch, job: Job, remarks: list[tuple[Status, str]]
) -> int:
    """The number of processes that did I/O. A record shared by all does not say which did; the heat maps do."""
    if watch.by_all and "HEATMAP" in modules and not modules["HEATMAP"].partial:
        try:
            ranks = active_ranks(log.sections, modules["HEATMAP"])
        except UnreadableSection as error:
            remarks.append(("incomplete", error.reason))
            ranks = set()
        if ranks:
            return min(len(ranks), job.nprocs)
    return job.nprocs if watch.by_all else len(watch.ranks)


class _RecordWatch:
    """Collects values that the library does not sum up: active ranks, bytes by file, and OSTs."""

    def __init__(self, targets: OstUsage, most_files: int) -> None:
        self.targets = targets
        self._most_files = most_files
        self.ranks: set[int] = set()
        self.by_all = False
        self.files: dict[int, int] = {}

    def add(self, name: str, chunk: Any) -> None:
        at = counter_columns(name)
        moved = chunk["counters"][:, [at["BYTES_READ"], at["BYTES_WRITTEN"]]].sum(axis=1)
        ranks = np.unique(chunk["rank"][moved > 0])
        self.by_all |= bool(ranks.size and ranks[0] < 0)
        self.ranks.update(r for r in ranks.tolist() if r >= 0)
        if len(self.files) < self._most_files:
            for file, amount in zip(chunk["id"].tolist(), moved.tolist(), strict=True):
                self.files[file] = self.files.get(file, 0) + amount
        self.targets.add_records(name, chunk)


def _row(
    path: Path,
    job: Job,
    modules: dict[str, Module],
    sums: dict[str, Sums],
    counted: list[str],
    watch: _RecordWatch,
    requests: RequestStatistics,
    files: FileCounts,
) -> Row:
    in_name = _split_name(path)[0].partition("_")[2]  # right if the user's name has no underscore
    app = program_name(job.exe) or in_name or UNKNOWN
    seconds = sum(sums[n].time_by_slowest for n in counted)
    moved = sum(sums[n].total_bytes for n in counted)
    layout = watch.targets.main_layout()
    size, count, first, pool, system = layout or (None, None, None, "", None)
    osts = watch.targets.columns()
    several = job.nprocs > 1  # with one process, a file of all processes is not shared
    total_files, shared_files = files.count(counted)
    return {
        "app": app,
        "exe": job.exe,
        "user": find_user(path, app, job),
        "uid": job.uid,
        "job_id": job.job_id,
        "logs": 1,
        "nprocs": job.nprocs,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "run_time": job.run_time,
        "modules": ",".join(modules),
        "log_ver": job.log_ver,
        "total_bytes": moved,
        "time_by_slowest": seconds,
        "perf_by_slowest": moved / seconds if seconds > 0 else 0.0,
        "total_files": total_files,
        "shared_files": several * shared_files,
        "shared_bytes": sum(requests.shared_bytes(sums, counted)),
        **_counters(sums, counted),
        "common_size": requests.common_size(counted),
        "filesystem": system,
        "stripe_count": osts["filesystem"].count(system) or None,
        "stripe_size": size,
        "file_stripe_count": count,
        "stripe_offset": first,
        "pfl_components": watch.targets.most_components,
        "components": json.dumps(parts) if (parts := watch.targets.main_components()) else None,
        "pool": pool or None,
        "module_rows": [_module_row(n, s, modules[n], files.count([n])[0]) for n, s in sums.items()],
        "request_rows": requests.rows(sums, counted),
        "osts": osts,
    }


def _counters(sums: dict[str, Sums], counted: list[str]) -> Row:
    # Without negative counters, which mean unknown.
    every: Any = sum((+Counter(sums[m].counters) for m in counted), Counter())
    posix: Any = +Counter(sums["POSIX"].counters) if "POSIX" in counted else {}  # only it counts the order of requests

    def total(*names: str, of: Any = every) -> Any:
        """The sum of these counters; a missing one counts as 0."""
        return sum(of.get(name, 0) for name in names)

    requests = total("READS", "WRITES", of=posix)
    in_order = total("SEQ_READS", "SEQ_WRITES", of=posix)
    read = [total(f"SIZE_READ_{b}", f"SIZE_READ_AGG_{b}") for b in BINS]
    written = [total(f"SIZE_WRITE_{b}", f"SIZE_WRITE_AGG_{b}") for b in BINS]
    both = [r + w for r, w in zip(read, written, strict=True)]
    return {
        "bytes_read": total("BYTES_READ"),
        "bytes_written": total("BYTES_WRITTEN"),
        "read_time": total("F_READ_TIME"),
        "write_time": total("F_WRITE_TIME"),
        "meta_time": total("F_META_TIME"),
        "read_requests": total("READS", "INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"),
        "write_requests": total("WRITES", "INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"),
        "seq_requests": in_order,
        "consec_requests": total("CONSEC_READS", "CONSEC_WRITES", of=posix),
        "strided_requests": total("STRIDE1_COUNT", "STRIDE2_COUNT", "STRIDE3_COUNT", "STRIDE4_COUNT", of=posix),
        "unaligned_requests": total("FILE_NOT_ALIGNED", of=posix),
        "pattern_requests": requests,
        "seq_pct": 100 * in_order / requests if requests else None,
        "io_less_1k": sum(both[:2]),
        "io_1k_to_100k": sum(both[2:4]),
        "read_sizes": ",".join(map(str, read)),
        "write_sizes": ",".join(map(str, written)),
    }


def _module_row(name: str, sums: Sums, module: Module, files: int) -> Row:
    return {
        "module": name,
        "total_bytes": sums.total_bytes,
        "bytes_read": max(int(sums.counters.get("BYTES_READ", 0)), 0),
        "bytes_written": max(int(sums.counters.get("BYTES_WRITTEN", 0)), 0),
        "time_by_slowest": sums.time_by_slowest,
        "perf_by_slowest": sums.perf_by_slowest,
        "total_files": files,
        "partial_flag": module.partial,
    }


def program_name(exe: str) -> str:
    """The name of the program in a command line.

    >>> program_name("/opt/apps/vpic/bin/vpic.x deck.in")
    'vpic.x'
    """
    return exe.split()[0].rstrip("/").rpartition("/")[2] if exe.split() else ""


def find_user(path: Path, app: str, job: Job) -> str | None:
    """The user, from the log's name or from the folders USER/PROGRAM/JOB/HOST above it."""
    before, number, _ = _split_name(path)
    if number == str(job.job_id):
        return before.removesuffix(f"_{app}") if before.endswith(f"_{app}") else before.partition("_")[0]
    folders = path.parts[:-1]
    for at in (-1, -2):  # the job's folder holds the log, or a folder for each host
        if len(folders) + at >= 3 and folders[at] == str(job.job_id):
            return path_text(folders[at - 2])
    return None
