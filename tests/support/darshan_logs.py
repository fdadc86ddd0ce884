"""Darshan logs to test with: real ones, and real ones with other numbers in them.

A log is a header, then parts that are each compressed by themselves: the job, the files' names, and
one part for each module. `Parts` takes a log apart and puts it together again.
"""

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import darshan

WHEEL = Path(darshan.__file__).parent
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "darshan"

POSIX = 1
MPIIO = 2
PNETCDF_VAR = 6  # from format 3.41 on; later ones moved up by one
LUSTRE = 7  # in format 3.21
STDIO = 8


def wheel_logs() -> list[Path]:
    """Those that come with PyDarshan, and so are always there."""
    return sorted(WHEEL.rglob("*.darshan"))


def all_logs() -> list[Path]:
    return wheel_logs() + sorted(SHARED.glob("*.darshan"))


def wheel_log(name: str) -> Path:
    return next(path for path in wheel_logs() if path.name == name)


def inflated(part: bytes) -> bytes:
    """Each process may have compressed its own records."""
    whole = b""
    while part:
        stream = zlib.decompressobj()
        whole += stream.decompress(part)
        part = stream.unused_data
    return whole


class Parts:
    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        self._version = data[:8]
        self._wide = self._version.split(b"\0")[0] >= b"3.41"
        self._modules, self._start = (64, 32) if self._wide else (16, 24)
        self._head = data[: self._start]
        maps = struct.unpack_from(f"<{2 * (self._modules + 1)}Q", data, self._start)
        end = self._start + 16 * (self._modules + 1)
        self._versions = data[end : end + 4 * self._modules]
        size = end + 4 * self._modules
        places = list(zip(maps[::2], maps[1::2], strict=True))
        self._job = data[size : min((offset for offset, length in places if length), default=len(data))]
        self._parts = [data[offset : offset + length] for offset, length in places]

    def with_job(
        self,
        *,
        job_id: int | None = None,
        start: int | None = None,
        uid: int | None = None,
        end: int | None = None,
        nprocs: int | None = None,
    ) -> "Parts":
        """Other numbers in the job's part. A start alone moves the end as well."""
        text = bytearray(zlib.decompress(self._job))
        places = {"uid": 0, "start": 8, "end": 24, "nprocs": 40, "job_id": 48} if self._wide else {
            "uid": 0, "start": 8, "end": 16, "nprocs": 24, "job_id": 32
        }  # fmt: skip
        if job_id is not None:
            struct.pack_into("<q", text, places["job_id"], job_id)
        if uid is not None:
            struct.pack_into("<q", text, places["uid"], uid)
        if start is not None:
            began, ended = (struct.unpack_from("<q", text, places[n])[0] for n in ("start", "end"))
            struct.pack_into("<q", text, places["start"], start)
            struct.pack_into("<q", text, places["end"], min(start + ended - began, (1 << 63) - 1))
        for name, value in (("end", end), ("nprocs", nprocs)):
            if value is not None:
                struct.pack_into("<q", text, places[name], value)
        self._job = zlib.compress(bytes(text), 1)
        return self

    def module(self, number: int) -> bytes:
        return inflated(self._parts[1 + number])

    def with_module(self, number: int, chunks: Iterable[bytes]) -> "Parts":
        """These records as the module's."""
        packed = zlib.compressobj(1)
        part = b"".join([packed.compress(chunk) for chunk in chunks])
        self._parts[1 + number] = part + packed.flush()
        return self

    def without_module(self, number: int) -> "Parts":
        self._parts[1 + number] = b""
        return self

    def widened(self) -> "Parts":
        """The same as a log of format 3.41, with room for 64 modules, made of one of 3.21."""
        assert self._version.startswith(b"3.21")
        versions = struct.unpack(f"<{self._modules}I", self._versions)
        moved = [number + (number >= PNETCDF_VAR) for number in range(self._modules)]
        parts, numbers = [b""] * 65, [0] * 64
        parts[0] = self._parts[0]
        for number, part, version in zip(moved, self._parts[1:], versions, strict=True):
            parts[1 + number], numbers[number] = part, version
        text = zlib.decompress(self._job)
        uid, start, end, *rest = struct.unpack_from("<5q", text)
        self._job = zlib.compress(struct.pack("<7q", uid, start, 0, end, 0, *rest) + text[40:])
        self._parts, self._versions, self._modules = parts, struct.pack("<64I", *numbers), 64
        self._wide, self._start = True, 32
        self._head = b"3.41".ljust(8, b"\0") + self._head[8:16] + bytes(16)
        return self

    def with_module_version(self, number: int, version: int) -> "Parts":
        made = bytearray(self._versions)
        struct.pack_into("<I", made, 4 * number, version)
        self._versions = bytes(made)
        return self

    def names(self) -> bytes:
        return inflated(self._parts[0])

    def with_names(self, names: bytes) -> "Parts":
        """The numbers and names of files."""
        self._parts[0] = zlib.compress(names, 1)
        return self

    def with_mounts(self, *mounts: tuple[str, str]) -> "Parts":
        """These kinds of file systems at these places."""
        whole = zlib.decompress(self._job)
        start = (56 if self._wide else 40) + 1024
        exe = whole[start:].partition(b"\n")[0]
        text = exe + b"".join(f"\n{kind}\t{place}".encode() for kind, place in mounts)
        self._job = zlib.compress((whole[:start] + text).ljust(4096, b"\0"), 1)
        return self

    def with_raw(self, number: int, part: bytes) -> "Parts":
        """These bytes as the module's part, as they are."""
        self._parts[1 + number] = part
        return self

    def with_room(self, size: int) -> "Parts":
        """This many zeros between the header and the job."""
        self._job = bytes(size) + self._job
        return self

    def with_partial(self, number: int) -> "Parts":
        """A module of which Darshan left records out."""
        at = 24 if self._wide else 20
        flags = struct.unpack_from("<I", self._head, at)[0] | 1 << number
        self._head = self._head[:at] + struct.pack("<I", flags) + self._head[at + 4 :]
        return self

    def with_version(self, text: str) -> "Parts":
        self._head = text.encode().ljust(8, b"\0") + self._head[8:]
        return self

    def write(self, path: Path) -> Path:
        at = self._start + 16 * (self._modules + 1) + 4 * self._modules + len(self._job)
        maps: list[int] = []
        for part in self._parts:
            maps += [at, len(part)] if part else [0, 0]
            at += len(part)
        packed = struct.pack(f"<{len(maps)}Q", *maps)
        path.write_bytes(self._head + packed + self._versions + self._job + b"".join(self._parts))
        return path
