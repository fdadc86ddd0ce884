"""What each process of each job does through an I/O node, counted as its requests pass."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.payloads import SIZE_BINS, FileUse, JobPart, layout_fields
from forebay.model.kernels import kernel
from forebay.model.layout import Layout

MOST_FILES = 10_000
"""Files of one process that are counted separately; more are counted together."""
_EDGES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)  # as Darshan has them
# The columns of one process's use of one file; sizes in bytes.
_END, _STRIDE, _EXTENT, _ALIGN, _READS, _WRITES, _BYTES_READ, _BYTES_WRITTEN = range(8)
_SEQ, _CONSEC, _STRIDED, _UNALIGNED, _COMMON, _OFTEN = range(8, 14)
_READ_BINS, _WRITE_BINS, _WIDTH = 14, 14 + SIZE_BINS, 14 + 2 * SIZE_BINS
_SUMMED = {
    "reads": _READS, "writes": _WRITES, "bytes_read": _BYTES_READ, "bytes_written": _BYTES_WRITTEN, "seq": _SEQ,
    "consec": _CONSEC, "strided": _STRIDED, "unaligned": _UNALIGNED,
}  # fmt: skip


@kernel
def count_request(uses: Any, row: int, offset: int, size: int, write: int) -> None:
    """Count a request of `size` bytes at `offset` of the file in this row."""
    use = uses[row]
    if use[_READS] + use[_WRITES] > 0:
        stride = offset - use[_END]
        if stride >= 0:
            use[_SEQ] += 1
        if stride == 0:
            use[_CONSEC] += 1
        elif stride == use[_STRIDE]:
            use[_STRIDED] += 1
        use[_STRIDE] = stride
    if use[_ALIGN] > 0 and offset % use[_ALIGN]:
        use[_UNALIGNED] += 1
    use[_READS + write] += 1
    use[_BYTES_READ + write] += size
    use[_END] = offset + size
    use[_EXTENT] = max(use[_EXTENT], offset + size)
    # The most frequent size, if one makes up more than half.
    if size == use[_COMMON]:
        use[_OFTEN] += 1
    elif use[_OFTEN] == 0:
        use[_COMMON], use[_OFTEN] = size, 1
    else:
        use[_OFTEN] -= 1
    place = 0
    for edge in _EDGES:
        place += size > edge
    use[(_WRITE_BINS if write else _READ_BINS) + place] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """Who a client is, as the history will call it; `job` is 0 if the client did not name its job."""

    app: str
    exe: str
    user: str | None
    uid: int
    job: int
    process: str
    processes: int


Job = tuple[str, int, int]
"""Application, user, and number of a job."""


class JobProcess:
    """One process of a job. Times are nanoseconds since 1970."""

    def __init__(self, facts: ProcessFacts, now: int, token: str) -> None:
        self.facts = facts
        self.job: Job = (facts.app, facts.uid, facts.job)
        self._token = token
        self._begin = self._last = now
        self._uses = np.zeros((8, _WIDTH), dtype=np.int64)
        self._rows: dict[int, int] = {}  # by the file's number at the node
        self._files: list[tuple[int, Layout]] = []
        self._in_progress = 0
        self._since = self._busy = 0
        self._times = [0, 0]
        self._other_time = 0

    def add_file(self, number: int, file: int, layout: Layout) -> None:
        """The process has opened a file."""
        known = next((row for row, (id_, _) in enumerate(self._files) if id_ == file), None)
        if known is None and len(self._files) < MOST_FILES:
            known = len(self._files)
            self._files.append((file, layout))
            if known == len(self._uses):
                self._uses = np.concatenate((self._uses, np.zeros_like(self._uses)))
            self._uses[known, _ALIGN] = layout.size
        self._rows[number] = len(self._files) - 1 if known is None else known

    def begin_request(self, now: int, number: int, offset: int, size: int, write: int) -> None:
        if not self._in_progress:
            self._since = now
        self._in_progress += 1
        count_request(self._uses, self._rows[number], offset, size, write)

    def end_request(self, now: int, began: int, write: int) -> None:
        """A request that came at `began` has its answer."""
        self._in_progress -= 1
        self._times[write] += now - began
        self._last = now
        if not self._in_progress:
            self._busy += now - self._since

    def add_other_time(self, nanoseconds: int) -> None:
        """Something other than a read or a write took this long."""
        self._other_time += nanoseconds

    def summary(self) -> JobPart | None:
        """What the process did; None if it did nothing."""
        facts, uses = self.facts, self._uses[: len(self._files)]
        used = uses[:, _READS] + uses[:, _WRITES] > 0
        if not used.any():
            return None
        sums = {name: int(uses[:, at].sum()) for name, at in _SUMMED.items()}
        return JobPart(
            app=facts.app,
            exe=facts.exe,
            user=facts.user,
            uid=facts.uid,
            job=facts.job,
            process=facts.process,
            processes=facts.processes,
            token=self._token,
            begin=self._begin / 1e9,
            end=self._last / 1e9,
            busy=self._busy / 1e9,
            read_time=self._times[0] / 1e9,
            write_time=self._times[1] / 1e9,
            meta_time=self._other_time / 1e9,
            common_size=int(uses[int(uses[:, _OFTEN].argmax()), _COMMON]),
            read_sizes=uses[:, _READ_BINS : _READ_BINS + SIZE_BINS].sum(axis=0).tolist(),
            write_sizes=uses[:, _WRITE_BINS : _WRITE_BINS + SIZE_BINS].sum(axis=0).tolist(),
            files=[self._file_use(row) for row in range(len(self._files)) if used[row]],
            **sums,
        )

    def _file_use(self, row: int) -> FileUse:
        file, layout = self._files[row]
        use = self._uses[row]
        return file, layout_fields(layout), int(use[_BYTES_READ] + use[_BYTES_WRITTEN]), int(use[_EXTENT])


class Jobs:
    """Which processes of which jobs are connected here, and what those that left did.

    A process may have several connections. Processes of one program that don't name their job count as one job, from
    the first that comes to the last that leaves.
    """

    def __init__(self, node: str) -> None:
        """`node` is a name that no other start of an I/O node has."""
        self._node = node
        self._serial = 0
        self._unnamed: dict[tuple[str, int], int] = {}
        self._processes: dict[Job, dict[str, JobProcess]] = {}
        self._connections: Counter[JobProcess] = Counter()
        self._parts: dict[Job, list[JobPart]] = {}

    def enter(self, peer: Peer, now: int) -> JobProcess:
        """A process connects."""
        facts = read_facts(peer)
        if not facts.job:
            number = job_number(f"{self._node}/{self._next_serial()}")
            facts = replace(facts, job=self._unnamed.setdefault((facts.app, facts.uid), number))
        processes = self._processes.setdefault((facts.app, facts.uid, facts.job), {})
        if facts.process not in processes:
            processes[facts.process] = JobProcess(facts, now, f"{self._node}/{self._next_serial()}")
        process = processes[facts.process]
        self._connections[process] += 1
        return process

    def leave(self, process: JobProcess) -> list[JobPart]:
        """A process disconnects. If that ends its job here, what the job's processes did."""
        self._connections[process] -= 1
        if self._connections[process]:
            return []
        del self._connections[process]
        job, name = process.job, process.facts.process
        processes, parts = self._processes[job], self._parts.setdefault(job, [])
        del processes[name]
        part = process.summary()
        if part is not None:
            parts.append(part)
        if processes:
            return []
        del self._processes[job]
        if self._unnamed.get(job[:2]) == job[2]:
            del self._unnamed[job[:2]]
        return self._parts.pop(job)

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    @property
    def running(self) -> int:
        return len(self._processes)


def read_facts(peer: Peer) -> ProcessFacts:
    """What a client says about itself, with defaults for what makes no sense."""
    facts = peer.facts
    app = _text(facts.get("application")) or "unknown"
    return ProcessFacts(
        app=app,
        exe=_text(facts.get("exe")) or app,
        user=_text(facts.get("user")) or None,
        uid=_natural(facts.get("uid")),
        job=job_number(facts.get("job")),
        process=_text(facts.get("process")) or peer.name,
        processes=max(_natural(facts.get("processes")), 1),
    )


def job_number(job: object) -> int:
    """A batch system's number as it is; for any other name, a number that is always the same.

    >>> job_number("4711"), job_number(12), job_number("nightly") == job_number("nightly")
    (4711, 12, True)
    """
    if isinstance(job, int) and 0 <= job < 1 << 62:
        return job
    text = _text(job)
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 2 if text else 0


def _text(value: object) -> str:
    return "".join(c if c.isprintable() else " " for c in value)[:400].strip() if isinstance(value, str) else ""


def _natural(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0
