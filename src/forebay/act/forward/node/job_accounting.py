"""What each process of each job did through an I/O node, counted as its requests pass."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from forebay.act.forward.net.auth import Peer
from forebay.model.kernels import kernel
from forebay.model.layout import Layout

MOST_FILES = 10_000
"""Files of one process that are told apart; more are counted together."""
BINS = 10
_EDGES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)  # as Darshan has them
# Of one process's use of one file. Times are nanoseconds, sizes bytes.
_END, _STRIDE, _EXTENT, _ALIGN, _READS, _WRITES, _BYTES_READ, _BYTES_WRITTEN = range(8)
_SEQ, _CONSEC, _STRIDED, _UNALIGNED, _COMMON, _OFTEN = range(8, 14)
_READ_BINS, _WRITE_BINS, _WIDTH = 14, 14 + BINS, 14 + 2 * BINS
_SUMS = {
    "reads": _READS, "writes": _WRITES, "bytes_read": _BYTES_READ, "bytes_written": _BYTES_WRITTEN, "seq": _SEQ,
    "consec": _CONSEC, "strided": _STRIDED, "unaligned": _UNALIGNED,
}  # fmt: skip


@kernel
def note(uses: Any, row: int, offset: int, size: int, write: int) -> None:
    """A request of `size` bytes at `offset` of the file that has this row."""
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
    # The size that came most often, if one makes up more than half.
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


class Client:
    """One process. Times are nanoseconds since 1970."""

    def __init__(self, facts: dict[str, Any], now: int, token: str) -> None:
        self._facts = facts
        self.job = (facts["app"], facts["uid"], facts["job"])
        self.process: str = facts["process"]
        self.processes: int = self._facts["processes"]
        self._token = token
        self._begin = self._last = now
        self._uses = np.zeros((8, _WIDTH), dtype=np.int64)
        self._rows: dict[int, int] = {}  # by the file's number at the node
        self._files: list[tuple[int, Layout, str]] = []
        self._here = 0
        self._since = self._busy = 0
        self._times = [0, 0]
        self._meta = 0

    def opened(self, number: int, file: int, layout: Layout, name: bytes) -> None:
        """It has a file open from here on."""
        known = next((row for row, (id_, _, _) in enumerate(self._files) if id_ == file), None)
        if known is None and len(self._files) < MOST_FILES:
            known = len(self._files)
            self._files.append((file, layout, name.decode(errors="backslashreplace")))
            if known == len(self._uses):
                self._uses = np.concatenate((self._uses, np.zeros_like(self._uses)))
            self._uses[known, _ALIGN] = layout.size
        self._rows[number] = len(self._files) - 1 if known is None else known

    def began(self, now: int, number: int, offset: int, size: int, write: int) -> None:
        """A request has come."""
        if not self._here:
            self._since = now
        self._here += 1
        note(self._uses, self._rows[number], offset, size, write)

    def ended(self, now: int, began: int, write: int) -> None:
        """A request that came at `began` has been answered."""
        self._here -= 1
        self._times[write] += now - began
        self._last = now
        if not self._here:
            self._busy += now - self._since

    def asked(self, nanoseconds: int) -> None:
        """Something other than a read or a write took so long."""
        self._meta += nanoseconds

    def part(self) -> dict[str, Any] | None:
        """All that it did, as words; None if it did nothing."""
        uses = self._uses[: len(self._files)]
        if not uses[:, [_READS, _WRITES]].any():
            return None
        sums = {name: int(uses[:, at].sum()) for name, at in _SUMS.items()}
        often = uses[int(uses[:, _OFTEN].argmax()), _COMMON]
        return self._facts | sums | {
            "token": self._token,
            "begin": self._begin / 1e9,
            "end": self._last / 1e9,
            "busy": self._busy / 1e9,
            "read_time": self._times[0] / 1e9,
            "write_time": self._times[1] / 1e9,
            "meta_time": self._meta / 1e9,
            "common_size": int(often),
            "read_sizes": uses[:, _READ_BINS : _READ_BINS + BINS].sum(axis=0).tolist(),
            "write_sizes": uses[:, _WRITE_BINS : _WRITE_BINS + BINS].sum(axis=0).tolist(),
            "files": [self._file(row) for row in range(len(self._files)) if uses[row, [_READS, _WRITES]].any()],
        }  # fmt: skip

    def _file(self, row: int) -> list[Any]:
        """Id, [count, size, start], bytes moved, and the end of what was used."""
        file, layout, _ = self._files[row]
        use = self._uses[row]
        moved = int(use[_BYTES_READ] + use[_BYTES_WRITTEN])
        return [file, [layout.count, layout.size, layout.start], moved, int(use[_EXTENT])]


class Jobs:
    """Which processes of which jobs are connected here, and what those that have gone did.

    A process may have several connections. Processes of one program that don't name their job are taken for one job
    from the first of them that comes to the last that goes.
    """

    def __init__(self, node: str) -> None:
        """`node` is this start of this I/O node: a name that no other has."""
        self._node = node
        self._serial = 0
        self._unnamed: dict[tuple[Any, ...], int] = {}
        self._here: dict[tuple[Any, ...], dict[str, list[Any]]] = {}  # job -> process -> client, connections
        self._parts: dict[tuple[Any, ...], list[dict[str, Any]]] = {}

    def enter(self, peer: Peer, now: int) -> Client:
        facts = facts_of(peer)
        program = facts["app"], facts["uid"]
        if not facts["job"]:
            self._serial += 1
            facts["job"] = self._unnamed.setdefault(program, job_number(f"{self._node}/{self._serial}"))
        job = *program, facts["job"]
        processes = self._here.setdefault(job, {})
        if facts["process"] not in processes:
            self._serial += 1
            processes[facts["process"]] = [Client(facts, now, f"{self._node}/{self._serial}"), 0]
        known = processes[facts["process"]]
        known[1] += 1
        client: Client = known[0]
        return client

    def leave(self, client: Client) -> list[dict[str, Any]]:
        """What the job's processes did here, if this was the last connection of its last one."""
        processes, parts = self._here[client.job], self._parts.setdefault(client.job, [])
        known = processes[client.process]
        known[1] -= 1
        if known[1]:
            return []
        del processes[client.process]
        part = client.part()
        if part is not None:
            parts.append(part)
        if processes:
            return []
        del self._here[client.job]
        if self._unnamed.get(client.job[:2]) == client.job[2]:
            del self._unnamed[client.job[:2]]
        return self._parts.pop(client.job)

    @property
    def running(self) -> int:
        return len(self._here)


def facts_of(peer: Peer) -> dict[str, Any]:
    """What a client says of itself, made sound: who knows what it sends."""
    facts: Mapping[str, Any] = peer.facts
    app = _text(facts.get("application")) or "unknown"
    return {
        "app": app,
        "exe": _text(facts.get("exe")) or app,
        "user": _text(facts.get("user")) or None,
        "uid": _whole(facts.get("uid")),
        "job": job_number(facts.get("job")),
        "process": _text(facts.get("process")) or peer.name,
        "processes": max(_whole(facts.get("processes")), 1),
    }


def job_number(job: object) -> int:
    """A batch system's number as it is; any other name as a number that is always the same.

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


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0
