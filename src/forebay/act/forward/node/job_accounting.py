"""What a process of a job does through an I/O node, counted as its requests pass."""

import numpy as np

from forebay.act.forward.net.council_payloads import SIZE_BINS, JobPart
from forebay.act.forward.net.payloads import layout_fields
from forebay.model.kernels import Array, hot_kernel
from forebay.model.layout import Layout

MOST_FILES = 10_000
"""Files of one process that have separate counts; the others share one."""
_UNOPENED = -1
"""Stands for the number of a file that is not open at the node."""
_EDGES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)  # the same as Darshan's
# The columns of one process's use of one file; sizes in bytes.
_END, _STRIDE, _EXTENT, _ALIGN, _READS, _WRITES, _BYTES_READ, _BYTES_WRITTEN = range(8)
_SEQ, _CONSEC, _STRIDED, _UNALIGNED, _COMMON, _OFTEN = range(8, 14)
_READ_BINS, _WRITE_BINS, _WIDTH = 14, 14 + SIZE_BINS, 14 + 2 * SIZE_BINS
_SUMMED = {
    "reads": _READS, "writes": _WRITES, "bytes_read": _BYTES_READ, "bytes_written": _BYTES_WRITTEN, "seq": _SEQ,
    "consec": _CONSEC, "strided": _STRIDED, "unaligned": _UNALIGNED,
}  # fmt: skip


# The columns of a process's times, in nanoseconds; times of day are since 1970.
_IN_PROGRESS, _SINCE, _BUSY, _LAST, _READ_TIME, _WRITE_TIME = range(6)


@hot_kernel
def begin_request(uses: Array, times: Array, now: int, row: int, offset: int, size: int, write: int) -> None:
    """Count a request of `size` bytes at `offset` of the file in this row, which arrives `now`."""
    if times[_IN_PROGRESS] == 0:
        times[_SINCE] = now
    times[_IN_PROGRESS] += 1
    if uses[row, _READS] + uses[row, _WRITES] > 0:
        stride = offset - uses[row, _END]
        if stride >= 0:
            uses[row, _SEQ] += 1
        if stride == 0:
            uses[row, _CONSEC] += 1
        elif stride == uses[row, _STRIDE]:
            uses[row, _STRIDED] += 1
        uses[row, _STRIDE] = stride
    if uses[row, _ALIGN] > 0 and offset % uses[row, _ALIGN]:
        uses[row, _UNALIGNED] += 1
    uses[row, _READS + write] += 1
    uses[row, _BYTES_READ + write] += size
    uses[row, _END] = offset + size
    uses[row, _EXTENT] = max(uses[row, _EXTENT], offset + size)
    # The most frequent size, if one makes up more than half.
    if size == uses[row, _COMMON]:
        uses[row, _OFTEN] += 1
    elif uses[row, _OFTEN] == 0:
        uses[row, _COMMON], uses[row, _OFTEN] = size, 1
    else:
        uses[row, _OFTEN] -= 1
    place = 0
    for edge in _EDGES:
        place += size > edge
    uses[row, (_WRITE_BINS if write else _READ_BINS) + place] += 1


@hot_kernel
def end_request(times: Array, now: int, began: int, write: int) -> None:
    """Count the answer to a request that arrived at `began`."""
    times[_IN_PROGRESS] -= 1
    times[_READ_TIME + write] += now - began
    times[_LAST] = now
    if times[_IN_PROGRESS] == 0:
        times[_BUSY] += now - times[_SINCE]


Job = tuple[str, int, int]
"""Application, user, and number of a job."""


class JobProcess:
    """One process of a job; `part` identifies it, and `summary` fills `part`.

    `flow` is the number of its job in schedulers that share the servers among jobs. Kernels count its requests in
    `times` and in `uses`, where `rows` has the row of each file by the file's number at the node.
    """

    def __init__(self, part: JobPart, flow: int = 0) -> None:
        self.part, self.flow = part, flow
        self.uses: Array = np.zeros((8, _WIDTH), dtype=np.int64)
        self.times: Array = np.zeros(_WRITE_TIME + 1, dtype=np.int64)
        self.rows: dict[int, int] = {}
        self._files: list[tuple[int, Layout]] = []
        self._rows_by_file: dict[int, int] = {}
        self.other_time = 0  # nanoseconds in requests other than reads and writes

    @property
    def job(self) -> Job:
        return self.part.app, self.part.uid, self.part.job

    def add_file(self, number: int, file: int, layout: Layout) -> None:
        """Count requests to a file that the process has opened."""
        known = self._rows_by_file.get(file)
        if known is None and len(self._files) < MOST_FILES:
            known = self._rows_by_file[file] = len(self._files)
            self._files.append((file, layout))
            if known == len(self.uses):
                self.uses = np.concatenate((self.uses, np.zeros_like(self.uses)))
            self.uses[known, _ALIGN] = layout.size
        self.rows[number] = len(self._files) - 1 if known is None else known

    def count_new_file(self, began: int, now: int, file: int, layout: Layout, size: int) -> None:
        """Count a file that the process has created and written before this node has heard of it."""
        self.add_file(_UNOPENED, file, layout)
        begin_request(self.uses, self.times, began, self.rows[_UNOPENED], 0, size, 1)
        end_request(self.times, now, began, 1)

    def summary(self) -> JobPart | None:
        """What the process did; None if it did nothing."""
        part, uses = self.part, self.uses[: len(self._files)]
        used = uses[:, _READS] + uses[:, _WRITES] > 0
        if not used.any():
            return None
        for name, column in _SUMMED.items():
            setattr(part, name, int(uses[:, column].sum()))
        _, _, busy, last, read_time, write_time = self.times.tolist()
        part.end = max(last / 1e9, part.begin)
        part.busy, part.meta_time = busy / 1e9, self.other_time / 1e9
        part.read_time, part.write_time = read_time / 1e9, write_time / 1e9
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
