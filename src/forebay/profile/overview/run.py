"""What one run did, put together from its log."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.activity import Activity, combine_activities, read_activity
from forebay.history.darshan.file_records import KINDS, FileRecords, ModuleTotals, Uses, count_strided
from forebay.history.darshan.log import Job, open_log
from forebay.history.darshan.log_format import Module
from forebay.model.arrays import Floats
from forebay.profile.findings.evidence import Evidence
from forebay.profile.overview.files import FileOverview, describe_files
from forebay.profile.overview.targets import Target, describe_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Where requests begin, as shares of those that follow another one: at its end, at a stride that recurs, or
    elsewhere (all 0 if none does so); and the share of all that does not begin at a multiple of the file system's
    block."""

    contiguous: float
    ahead: float
    jumps: float
    unaligned: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestFile:
    """The shared file for which a process took longest. The elements of tuples are of the fastest process and of the
    slowest; `seconds` are those of the slowest."""

    name: str
    ranks: tuple[int, int]
    rank_bytes: tuple[int, int]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """One run. `darshan` is the release that recorded it, `collective` and `independent` are numbers of MPI-IO calls.
    `shares` are those of reads, writes and metadata in the time of all processes. `io_seconds` are those of
    the process with most. `by_process` has the bytes that each process read and wrote, or is None if unknown, like
    `order`."""

    evidence: Evidence
    files: FileOverview
    targets: list[Target]
    activity: Activity | None
    totals: dict[str, ModuleTotals]
    darshan: str
    collective: int
    independent: int
    moved: tuple[int, int]
    shares: tuple[float, float, float]
    io_seconds: float
    by_process: Floats | None
    order: Order | None
    slowest_file: SlowestFile | None

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of the process with most I/O time, as Darshan estimates it."""
        return sum(self.moved) / self.io_seconds if self.io_seconds > 0 else None


def describe_run(evidence: Evidence) -> RunOverview:
    records = evidence.records
    with open_log(records.path) as log:
        release = log.sections.release()
    activity = _read_activity(records)
    kinds = [uses for uses in (records.posix, records.stdio, records.dfs) if uses.size]
    moved = sum((uses["bytes"].sum(axis=0) for uses in kinds), np.zeros(2, dtype=np.int64))
    return RunOverview(
        evidence=evidence,
        files=describe_files(records),
        targets=describe_targets(records),
        activity=activity,
        totals={name: records.totals[name] for name in KINDS if name in records.totals},
        darshan=release,
        collective=int(records.calls["collective"].sum()),
        independent=int(records.calls["independent"].sum()),
        moved=(int(moved[0]), int(moved[1])),
        shares=_measure_shares(kinds, records.job.run_time * records.job.nprocs),
        io_seconds=sum(_slowest_seconds(uses, records.job.nprocs) for uses in kinds),
        by_process=_bytes_by_process(evidence, kinds, activity),
        order=_describe_order(records.posix, evidence.nprocs),
        slowest_file=_find_slowest(evidence),
    )


def _read_activity(records: FileRecords) -> Activity | None:
    def read(path: Path, modules: dict[str, Module], job: Job) -> Activity | None:
        with open_log(path) as log:
            return read_activity(log.sections, modules, job)

    if not records.processes:
        return read(records.path, records.modules, records.job)
    parts = [(process.begin, read(process.path, process.modules, process.job)) for process in records.processes]
    return combine_activities(parts, records.job.run_time)


def _measure_shares(kinds: list[Uses], available: float) -> tuple[float, float, float]:
    sums = np.zeros(3)
    for uses in kinds:
        sums += (*uses["seconds"].astype(float).sum(axis=0), uses["meta_seconds"].astype(float).sum())
    read, written, meta = (sums / max(available, sums.sum(), 1e-9)).tolist()
    return read, written, meta


def _slowest_seconds(uses: Uses, nprocs: int) -> float:
    """Seconds of the slowest process, as Darshan estimates them: each shared file takes as long as its slowest."""
    meta: NDArray[np.float32] = uses["meta_seconds"]
    rank: NDArray[np.int32] = uses["rank"]
    data: Floats = uses["seconds"].astype(np.float64).sum(axis=1)
    seconds, merged = data + meta, rank < 0
    alone = np.bincount(rank[~merged], weights=seconds[~merged], minlength=1)
    slowest = uses["slowest_seconds"][merged].astype(float)
    shared = np.where(slowest > 0, slowest, seconds[merged] / nprocs)
    return float(alone.max() + shared.sum())


def _bytes_by_process(evidence: Evidence, kinds: list[Uses], activity: Activity | None) -> Floats | None:
    """From the records, if none of them hides which process moved the bytes; else from heat maps or traces."""
    if evidence.nprocs == 1:
        return None
    if all(not (uses["bytes"][uses["rank"] < 0]).any() for uses in kinds):
        totals = np.zeros((2, evidence.nprocs))
        for uses in kinds:
            alone = uses["rank"] >= 0
            ranks, moved = uses["rank"][alone], uses["bytes"][alone]
            for operation in (0, 1):
                totals[operation] += np.bincount(ranks, weights=moved[:, operation], minlength=evidence.nprocs)
        return totals if totals.any() else None
    return None if activity is None else activity.by_process


def _describe_order(uses: Uses, nprocs: int) -> Order | None:
    requests = int(uses["requests"].sum())
    if not requests:
        return None
    contiguous, jumps, unaligned = (int(uses[name].sum()) for name in ("contiguous", "jumps", "unaligned"))
    ahead = int(count_strided(uses, nprocs).sum())
    following = max(contiguous + ahead + jumps, 1)
    return Order(
        contiguous=contiguous / following,
        ahead=ahead / following,
        jumps=jumps / following,
        unaligned=unaligned / requests,
    )


def _find_slowest(evidence: Evidence) -> SlowestFile | None:
    uses = evidence.records.posix
    seconds = np.where(uses["rank"] < 0, uses["slowest_seconds"], 0)
    if not seconds.any():
        return None
    slowest = uses[np.argmax(seconds)]
    file = int(slowest["id"])
    return SlowestFile(
        name=evidence.records.names({file}).get(file) or f"file {file}",
        ranks=(int(slowest["ranks"][0]), int(slowest["ranks"][1])),
        rank_bytes=(int(slowest["rank_bytes"][0]), int(slowest["rank_bytes"][1])),
        seconds=float(slowest["slowest_seconds"]),
    )
