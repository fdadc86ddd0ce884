"""What each process of each job does through an I/O node, counted as its requests pass."""

import hashlib
from collections import Counter
from itertools import count
from typing import Any

import numpy as np

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.council_payloads import SIZE_BINS, JobPart
from forebay.act.forward.net.payloads import layout_fields
from forebay.model.kernels import kernel
from forebay.model.layout import Layout

MOST_FILES = 10_000
"""Files of one process that have separate counts; the others share one."""
_EDGES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)  # the same as Darshan's
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


Job = tuple[str, int, int]
"""Application, user, and number of a job."""


class JobProcess:
    """One process of a job; `part` identifies it, and `summary` fills `part`. Times are nanoseconds since 1970.

    `flow` is the number of its job in schedulers that share the servers among jobs.
    """

    def __init__(self, part: JobPart, flow: int = 0) -> None:
        self.part, self.flow = part, flow
        self._uses = np.zeros((8, _WIDTH), dtype=np.int64)
        self._rows: dict[int, int] = {}  # row by the file's number at the node
        self._files: list[tuple[int, Layout]] = []
        self._rows_by_file: dict[int, int] = {}
        self._in_progress = 0
        self._since = self._busy = self._last = 0
        self.other_time = 0  # nanoseconds in requests other than reads and writes
        self._times = [0, 0]

    @property
    def job(self) -> Job:
        return self.part.app, self.part.uid, self.part.job

    def add_file(self, number: int, file: int, layout: Layout) -> None:
        """Count requests to a file that the process has opened."""
        known = self._rows_by_file.get(file)
        if known is None and len(self._files) < MOST_FILES:
            known = self._rows_by_file[file] = len(self._files)
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
        """Count the answer to a request that arrived at `began`."""
        self._in_progress -= 1
        self._times[write] += now - began
        self._last = now
        if not self._in_progress:
            self._busy += now - self._since

    def summary(self) -> JobPart | None:
        """What the process did; None if it did nothing."""
        part, uses = self.part, self._uses[: len(self._files)]
        used = uses[:, _READS] + uses[:, _WRITES] > 0
        if not used.any():
            return None
        for name, column in _SUMMED.items():
            setattr(part, name, int(uses[:, column].sum()))
        part.end = max(self._last / 1e9, part.begin)
        part.busy, part.meta_time = self._busy / 1e9, self.other_time / 1e9
        part.read_time, part.write_time = (nanoseconds / 1e9 for nanoseconds in self._times)
        part.common_size = int(uses[int(uses[:, _OFTEN].argmax()), _COMMON])
        part.read_sizes = uses[:, _READ_BINS : _READ_BINS + SIZE_BINS].sum(axis=0).tolist()
        part.write_sizes = uses[:, _WRITE_BINS : _WRITE_BINS + SIZE_BINS].sum(axis=0).tolist()
        moved = uses[:, _BYTES_READ] + uses[:, _BYTES_WRITTEN]
        part.files = [
            (file, layout_fields(layout), int(moved[row]), int(uses[row, _EXTENT]))
            for row, (file, layout) in enumerate(self._files)
            if used[row]
        ]
        return part


class Jobs:
    """The processes of jobs that are connected here, and summaries of those that left.

    A process may have several connections. Processes of one program that don't name their job count as one job, from
    the first that connects to the last that disconnects.
    """

    def __init__(self, node: str, flows: int = 1) -> None:
        """`node` must be unique to each start of an I/O node. Jobs that find no free flow share flow 0."""
        self._node = node
        self._flows: dict[Job, int] = {}
        self._free_flows = list(range(flows - 1, 0, -1))
        self._serials = count(1)
        self._unnamed: dict[tuple[str, int], int] = {}
        self._processes: dict[Job, dict[str, JobProcess]] = {}
        self._connections: Counter[JobProcess] = Counter()
        self._parts: dict[Job, list[JobPart]] = {}

    def enter(self, peer: Peer, now: int) -> JobProcess:
        """Register a process that connects."""
        part = identify_process(peer, now)
        if not part.job:
            number = job_number(f"{self._node}/{next(self._serials)}")
            part.job = self._unnamed.setdefault((part.app, part.uid), number)
        job = part.app, part.uid, part.job
        if job not in self._flows:
            self._flows[job] = self._free_flows.pop() if self._free_flows else 0
        processes = self._processes.setdefault(job, {})
        if part.process not in processes:
            part.token = f"{self._node}/{next(self._serials)}"
            processes[part.process] = JobProcess(part, self._flows[job])
        process = processes[part.process]
        self._connections[process] += 1
        return process

    def leave(self, process: JobProcess) -> list[JobPart]:
        """Unregister a process that disconnects; return what its job did here, if it was the job's last process."""
        self._connections[process] -= 1
        if self._connections[process]:
            return []
        del self._connections[process]
        job = process.job
        processes, parts = self._processes[job], self._parts.setdefault(job, [])
        del processes[process.part.process]
        part = process.summary()
        if part is not None:
            parts.append(part)
        if processes:
            return []
        del self._processes[job]
        if flow := self._flows.pop(job):
            self._free_flows.append(flow)
        if self._unnamed.get(job[:2]) == job[2]:
            del self._unnamed[job[:2]]
        return self._parts.pop(job)


def identify_process(peer: Peer, now: int) -> JobPart:
    """Identify a client, with defaults for invalid facts; `job` is 0 if the client does not name its job."""
    facts = peer.facts
    app = _text(facts.get("application")) or "unknown"
    return JobPart(
        app=app,
        exe=_text(facts.get("exe")) or app,
        user=_text(facts.get("user")) or None,
        uid=_natural(facts.get("uid")),
        job=job_number(facts.get("job")),
        process=_text(facts.get("process")) or peer.name,
        processes=max(_natural(facts.get("processes")), 1),
        token="",
        begin=now / 1e9,
        end=now / 1e9,
        read_sizes=[],
        write_sizes=[],
        files=[],
    )


def job_number(job: object) -> int:
    """The number itself if a batch system assigned one; for any other name, a number derived from it.

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
