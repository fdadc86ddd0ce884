"""What a process of a job does through an I/O node, counted as its requests pass."""

from typing import Any

import numpy as np

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
