"""What a log shows of a run, in the form in which the rules ask for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_records import FileRecords, Uses
from forebay.model.arrays import Bools, Floats, Ints
from forebay.profile.calibration.filesystem_costs import DEFAULT, FileSystem
from forebay.profile.findings.file_targets import Targets, locate_files, read_targets
from forebay.profile.findings.io_time import Limits, count_waits, data_time, ideal_time
from forebay.profile.findings.thresholds import NOTICEABLE, is_io_noticeable

Singles = NDArray[np.float32]
Counts = NDArray[np.int32]
Files = NDArray[np.uint64]
"""Numbers of files."""
_MOST_MODELLED = 1000.0
_NAMED = 3
_BLOCK = 50_000


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The records of one log, and the model of its file system."""

    records: FileRecords
    fs: FileSystem = field(default=DEFAULT)

    @property
    def nprocs(self) -> int:
        return self.records.job.nprocs

    @cached_property
    def posix(self) -> Uses:
        """Records with I/O or metadata calls."""
        uses = self.records.posix
        used = (uses["opens"] > 0) | (uses["stats"] > 0) | (uses["requests"].sum(axis=1) > 0)
        return uses if used.all() else uses[used]

    @cached_property
    def is_shared(self) -> Bools:
        """Which records of `posix` are of files that several processes use."""
        if self.nprocs == 1:
            return np.zeros(self.posix.size, dtype=bool)
        files: Files = self.posix["id"]
        rank: Counts = self.posix["rank"]
        ids = np.sort(files)
        return np.isin(files, ids[1:][ids[1:] == ids[:-1]]) | (rank < 0)

    @cached_property
    def data_seconds(self) -> Singles:
        """The model's seconds for the reads and the writes of each record of `posix`."""
        return self.compute_by_blocks(lambda at: data_time(self.posix[at], self.is_shared[at], self.fs))

    @cached_property
    def ideal_seconds(self) -> Singles:
        """The same for large contiguous requests."""
        ideal = self.compute_by_blocks(lambda at: ideal_time(self.posix[at], self.fs))
        return np.minimum(ideal, self.data_seconds, out=ideal)

    def compute_by_blocks(self, compute: Callable[[slice], Floats], columns: tuple[int, ...] = (2,)) -> Singles:
        """Numbers for each record of `posix`, computed for a part of them at a time: a log can have millions."""
        numbers = np.empty((self.posix.size, *columns), dtype=np.float32)
        for first in range(0, self.posix.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            numbers[block] = compute(block)
        return numbers

    @cached_property
    def name_seconds(self) -> Floats:
        """The model's seconds for the metadata calls on each record of `posix`."""
        opens: Counts = self.posix["opens"]
        stats: Counts = self.posix["stats"]
        syncs: Counts = self.posix["syncs"]
        return (opens.astype(np.float64) + stats + syncs) * self.fs.name

    @cached_property
    def stdio_seconds(self) -> Floats:
        """The model's seconds for each record of STDIO, which moves a page at a time."""
        fs, moved = self.fs, self.records.stdio["bytes"]
        each = [1 / fs.bandwidth[i] + fs.call[i] / 4096 + fs.latency[i] / fs.rpc for i in (0, 1)]
        return np.asarray(moved @ np.array(each), dtype=float)

    @cached_property
    def seconds(self) -> float:
        """The model's seconds of all processes for all I/O."""
        parts = (self.data_seconds, self.name_seconds, self.stdio_seconds)
        return float(sum(part.sum() for part in parts))

    @property
    def calls_collectively(self) -> bool:
        """Whether most calls of MPI-IO are collective."""
        calls = self.records.calls
        return bool(calls["collective"].sum() > calls["independent"].sum())

    @cached_property
    def measured_seconds(self) -> float:
        """Darshan's seconds of all processes for all I/O."""
        uses = (self.records.posix, self.records.stdio)
        return float(sum(u["seconds"].sum() + u["meta_seconds"].sum() for u in uses))

    @cached_property
    def bytes_moved(self) -> int:
        """Bytes read and written."""
        return int(self.records.posix["bytes"].sum() + self.records.stdio["bytes"].sum())

    @cached_property
    def targets(self) -> Targets | None:
        """None if the log does not say where files are."""
        return read_targets(self.records, self.posix)

    @cached_property
    def seconds_by_process(self) -> Floats:
        """Darshan's seconds of each process. Of a merged record, every process has an equal part, and the slowest one
        what Darshan says."""
        totals = np.zeros(self.nprocs)
        slowest = np.zeros(self.nprocs)
        for uses in (self.records.posix, self.records.stdio):
            rank: Counts = uses["rank"]
            meta: NDArray[np.float32] = uses["meta_seconds"]
            data: Floats = uses["seconds"].sum(axis=1, dtype=float)
            alone, spent = rank >= 0, data + meta
            totals += np.bincount(rank[alone], weights=spent[alone], minlength=self.nprocs)[: self.nprocs]
            totals += float(spent[~alone].sum()) / self.nprocs
            np.maximum.at(slowest, uses["ranks"][~alone, 1], uses["slowest_seconds"][~alone])
        return np.maximum(totals, slowest)

    @cached_property
    def slowest_process(self) -> tuple[int, float]:
        """The process with most of Darshan's seconds of I/O, and how many; at least so many, as a merged record names
        only its slowest process."""
        seconds = self.seconds_by_process
        busiest = int(seconds.argmax())
        return busiest, min(float(seconds[busiest]), self.measured_seconds)

    @cached_property
    def busiest_seconds(self) -> float:
        """Darshan's seconds of I/O of the process with most, which the run waits for; the model's, if the log has no
        times."""
        return self.slowest_process[1] if self.measured_seconds > 0 else self.seconds / self.nprocs

    @property
    def matters(self) -> bool:
        """Whether the I/O of the busiest process takes a noticeable part of the run."""
        return is_io_noticeable(self.busiest_seconds, self.records.job.run_time)

    def is_noticeable(self, saved: float) -> bool:
        """Whether saving this many of the model's `seconds` is noticeable in the busiest process; if the log's I/O is
        not, because it lacks records, whether it is a noticeable part of that."""
        part = saved / self.seconds if self.seconds > 0 else 0.0
        return not self.matters or part * self.busiest_seconds >= NOTICEABLE * self.records.job.run_time

    def predict_gain(self, saved: float, undone: Bools | None = None) -> float:
        """How many times as fast the I/O is with so many of the model's `seconds` less, if the `undone` reads and
        writes of each record have large requests in order; 1.0 if nobody would notice, or if something else limits the
        run."""
        if not self.is_noticeable(saved):
            return 1.0
        return self.compare(self.find_limits(saved, undone))

    def find_limits(self, saved: float = 0.0, undone: Bools | None = None, count: int | None = None) -> Limits:
        """What limits the run with so many of the model's `seconds` less, large requests in order for the `undone`
        reads and writes of each record, and all bytes on `count` OSTs."""
        ost = self.find_ost_limit(undone, count)
        return Limits(
            process=self._find_process_limit(saved, undone),
            total=self._total_limit,
            ost=ost if count is None else min(ost, self.limits.ost),
            lock=self.find_lock_limit(undone, count),
        )

    def _find_process_limit(self, saved: float, undone: Bools | None = None) -> float:
        """Seconds of the process with most to do; without waiting for locks, if the stripes are known for which they
        stand (`find_lock_limit`)."""
        left = self.seconds - saved
        if self.targets is not None:
            turns = self._turns if undone is None else self._turns * ~undone[:, 1]
            left -= float(turns.sum()) * self.fs.lock
        return max(left, 0.0) / self.nprocs * self.skew

    def compare(self, changed: Limits) -> float:
        """How many times as fast the I/O is with these limits."""
        return min(self.limits.longest / changed.longest, _MOST_MODELLED)

    @cached_property
    def limits(self) -> Limits:
        """What limits the run as it is."""
        return self.find_limits()

    @cached_property
    def _total_limit(self) -> float:
        moved = self.records.posix["bytes"].sum(axis=0) + self.records.stdio["bytes"].sum(axis=0)
        return float((moved / np.array(self.fs.total)).sum())

    @cached_property
    def skew(self) -> float:
        """The bytes of the process with most, compared with the mean."""
        return float(self.bytes_by_process.max()) * self.nprocs / self.bytes_moved if self.bytes_moved else 1.0

    def find_ost_limit(self, undone: Bools | None = None, count: int | None = None) -> float:
        """Seconds of the busiest OST, if these records have large requests in order, or if all bytes are spread over
        `count` OSTs."""
        if self.targets is None:
            return 0.0
        trips = self._trips
        if undone is not None:
            trips = np.where(undone, np.ceil(self.posix["bytes"] / self.fs.rpc), trips)
        total = float(self.targets.bytes.sum())
        busiest = float(self.targets.bytes.max()) if count is None else total / count
        return busiest / self.fs.ost + busiest / max(total, 1.0) * float(trips.sum()) * self.fs.serve

    @cached_property
    def _turns(self) -> Singles:
        """How many turns the small writes of each record take."""
        return self.compute_by_blocks(
            lambda at: (
                count_waits(self.posix[at], self.is_shared[at][:, None], self.fs.rpc)[1][:, 1] / self.fs.neighbours
            ),
            (),
        )

    @cached_property
    def _trips(self) -> Singles:
        """How many reads and writes of each record reach a server."""
        return self.compute_by_blocks(
            lambda at: count_waits(self.posix[at], self.is_shared[at][:, None], self.fs.rpc)[0]
        )

    def find_lock_limit(self, undone: Bools | None = None, count: int | None = None) -> float:
        """Seconds for the turns that processes take in the stripes of the busiest file, if these records have large
        requests in order, or if files have `count` stripes. While one process has a stripe, others wait for it, and
        the stripes of a file are used at the same time. A large request takes a turn in each stripe that it spans."""
        used, chosen = self.targets, self.is_shared & (self.posix["bytes"][:, 1] > 0)
        if used is None or not chosen.any() or self.nprocs == 1:
            return 0.0
        uses = self.posix[chosen]
        at, known = locate_files(used.file_ids, uses["id"])
        stripes = np.maximum(used.stripes[at] if count is None else np.full(at.size, count), 1)
        written, requests = uses["bytes"][:, 1], np.maximum(uses["requests"][:, 1], 1)
        mean = written / requests
        small = self._turns[chosen]
        if undone is not None:
            in_order = undone[chosen, 1]
            mean, small = np.where(in_order, self.fs.rpc, mean), np.where(in_order, 0.0, small)
        block = mean * self.fs.neighbours
        extent = np.maximum(np.minimum(used.stripe_size[at], block), block / stripes)
        large = np.where((mean >= self.fs.rpc) & (stripes > 1), written / np.maximum(extent, 1), 0.0)
        turns = np.bincount(at[known], weights=(small + large)[known], minlength=used.file_ids.size)
        counts = np.bincount(at[known], minlength=used.file_ids.size)
        sums = np.bincount(at[known], weights=stripes[known], minlength=used.file_ids.size)
        at_once = np.minimum(sums / np.maximum(counts, 1), self.nprocs)
        return float((turns / np.maximum(at_once, 1)).max()) * self.fs.lock

    def measure_share(self, uses: Bools | Floats) -> float | None:
        """The part of the measured I/O seconds that these records of `posix` took (or these parts of each)."""
        if self.measured_seconds <= 0:
            return None
        return float((uses * self.posix["seconds"].sum(axis=1)).sum() / self.measured_seconds)

    def count_files(self, chosen: Bools) -> int:
        """How many files these records of `posix` are about. Of a file that one process uses, there is one record."""
        ids: Files = self.posix["id"]
        return int((chosen & ~self.is_shared).sum()) + np.unique(ids[chosen & self.is_shared]).size

    def name_files(self, weights: Singles | Floats | Ints, kind: Uses | None = None) -> tuple[str, ...]:
        """The names of the files with the largest weights."""
        uses = self.posix if kind is None else kind
        several = self.is_shared if kind is None else np.ones(uses.size, dtype=bool)
        numbers: Files = uses["id"]
        ids, of = np.unique(numbers[several], return_inverse=True)
        sums = list(zip(np.bincount(of.ravel(), weights=weights[several], minlength=ids.size), ids, strict=True))
        alone = np.where(several, -1, weights)
        most = np.argpartition(alone, -_NAMED)[-_NAMED:] if alone.size > _NAMED else np.arange(alone.size)
        sums += [(alone[i], numbers[i]) for i in most]
        largest = [int(file) for weight, file in sorted(sums, key=lambda s: (-s[0], s[1]))[:_NAMED] if weight > 0]
        names = self.records.names(set(largest))
        return tuple(names.get(file, f"file {file}") for file in largest)

    @cached_property
    def bytes_by_process(self) -> Floats:
        """Bytes that each process moved. Of merged records, the fastest and the slowest process have theirs, and all
        others the same part of the rest."""
        totals = np.zeros(self.nprocs)
        for uses in (self.posix, self.records.stdio):
            for first in range(0, uses.size, _BLOCK):  # a log can have millions of records
                self._add_bytes(totals, uses[first : first + _BLOCK])
        return np.maximum(totals, 0)

    def _add_bytes(self, totals: Floats, uses: Uses) -> None:
        rank: Counts = uses["rank"]
        moved: Floats = uses["bytes"].sum(axis=1).astype(np.float64)
        alone = rank >= 0
        totals += np.bincount(rank[alone], weights=moved[alone], minlength=self.nprocs)[: self.nprocs]
        ranks: Counts = uses["ranks"][~alone]
        moved_by: Ints = uses["rank_bytes"][~alone]
        known = np.minimum(moved_by, moved[~alone, None])
        known[ranks[:, 0] == ranks[:, 1]] = 0  # of a log without these counters
        named = known.any(axis=1)
        others = np.where(named, max(self.nprocs - 2, 1), self.nprocs)
        rest = np.maximum(moved[~alone] - known.sum(axis=1), 0) / others
        totals += rest.sum()
        np.add.at(totals, ranks[named], known[named] - rest[named, None])
