"""How much an unmodified program gets through the mount: fio with 4 jobs of 256 KiB, against two peers in turns.

    .venv/bin/python benchmarks/mount_speed.py [--rounds N] [--seconds S] [--request KIB]

Goal: at least 400 MB/s, reading and writing, through the mount, one I/O node and four data servers. Beside it: the
same fio through a passthrough mount of the same FUSE code over a plain folder (what the kernel, libfuse and Python
allow at most, without a layer behind), and the client library driven by 4 processes without any mount.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import verdict
from forward_speed import Layer

from forebay.act.forward.bench.client_processes import LayerAccess, Task, run_task
from forebay.act.forward.bench.workload import Workload
from forebay.act.forward.mount import Times, mount
from forebay.act.forward.net.address import parse_address

JOBS = 4
FILE = 64 << 20
"""Bytes of each job's file: all of it stays in memory."""
GOAL = 400e6


class Passthrough:
    """A folder as it is; only what fio needs."""

    use_ns = flag_nopath = flag_nullpath_ok = True

    def __init__(self, root: Path) -> None:
        self._root = root

    def _at(self, path: str | None) -> Path:
        return self._root / (path or "").lstrip("/")

    def getattr(self, path: str | None, handle: int | None) -> dict[str, Any]:
        found = os.fstat(handle or 0) if path is None else self._at(path).lstat()
        names = ("st_mode", "st_size", "st_nlink", "st_uid", "st_gid", "st_blocks")
        return {name: getattr(found, name) for name in names} | {"st_mtime": found.st_mtime_ns}

    def opendir(self, path: str) -> int:
        return os.open(self._at(path), os.O_RDONLY)

    def releasedir(self, path: str | None, handle: int) -> int:  # noqa: ARG002
        os.close(handle)
        return 0

    def readdir(self, path: str | None, handle: int) -> Iterable[tuple[str, int, int]]:  # noqa: ARG002
        return [(name, 0, 0) for name in (".", "..", *os.listdir(handle))]

    def create(self, path: str, mode: int, flags: int) -> int:
        return os.open(self._at(path), flags | os.O_CREAT, mode)

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags)

    def read(self, handle: int, room: memoryview, offset: int) -> int:
        return os.preadv(handle, [room], offset)

    def write(self, handle: int, data: memoryview, offset: int) -> int:
        return os.pwrite(handle, data, offset)

    def release(self, path: str | None, handle: int) -> int:  # noqa: ARG002
        os.close(handle)
        return 0

    def fsync(self, path: str | None, datasync: int, handle: int) -> int:  # noqa: ARG002
        os.fsync(handle)
        return 0

    def truncate(self, path: str | None, length: int, handle: int | None) -> int:
        os.truncate(handle or 0 if path is None else self._at(path), length)
        return 0

    def unlink(self, path: str) -> int:
        self._at(path).unlink()
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._at(path).mkdir(mode)
        return 0

    def rmdir(self, path: str) -> int:
        self._at(path).rmdir()
        return 0

    def rename(self, old: str, new: str) -> int:
        self._at(old).rename(self._at(new))
        return 0

    def chmod(self, path: str | None, mode: int, handle: int | None) -> int:  # noqa: ARG002
        return 0

    def chown(self, path: str | None, uid: int, gid: int, handle: int | None) -> int:  # noqa: ARG002
        return 0

    def utimens(self, path: str | None, times: Times, handle: int | None) -> int:  # noqa: ARG002
        return 0

    def statfs(self, path: str) -> dict[str, int]:  # noqa: ARG002
        return {}

    def getxattr(self, path: str, name: str) -> bytes:  # noqa: ARG002
        raise OSError(61, "no such attribute")

    def setxattr(self, path: str, name: str, value: bytes, options: int) -> int:  # noqa: ARG002
        raise OSError(95, "not supported")

    def listxattr(self, path: str) -> Iterable[str]:  # noqa: ARG002
        return ()

    def removexattr(self, path: str, name: str) -> int:  # noqa: ARG002
        raise OSError(61, "no such attribute")

    def init(self, path: str) -> None:  # noqa: ARG002
        print("ready", flush=True)

    def destroy(self, path: str) -> None: ...


def main() -> int:
    parser = argparse.ArgumentParser(description="How much fio gets through the mount.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--request", type=int, default=256, help="KiB")
    parser.add_argument("--passthrough", nargs=2, metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.passthrough:
        root, point = map(Path, options.passthrough)
        mount(Passthrough(root), point)
        return 0
    if shutil.which("fio") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: fio and /dev/fuse are needed (Debian: apt-get install fio fuse3)")
        return 0
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder, ways(Path(folder), options.request << 10) as by_name:
        measured = in_turns(by_name, options.rounds, options.seconds)
    return report(measured, options.request)


@contextmanager
def ways(folder: Path, request: int) -> Iterator[dict[str, Callable[[str, float], float]]]:
    """What to measure: each takes "read" or "write" and for how many seconds, and gives bytes per second."""
    layer = Layer(folder)
    points = [folder / "mount", folder / "passthrough", folder / "plain"]
    for point in points:
        point.mkdir()
    try:
        layer.serve()
        address, _ = layer.node()
        layer.forebay("mount", str(points[0]), "--nodes", address)
        layer.started(sys.executable, __file__, "--passthrough", str(points[2]), str(points[1]))
        assert all(point.is_mount() for point in points[:2])
        through = LayerAccess((parse_address(address),), layer.secret)
        yield {
            "mount": lambda doing, seconds: fio(points[0], doing, request, seconds),
            "passthrough mount": lambda doing, seconds: fio(points[1], doing, request, seconds),
            "client library, no mount": lambda doing, _seconds: library(through, doing, request),
        }
    finally:
        for point in points[:2]:
            subprocess.run(["fusermount3", "-u", "-q", str(point)], check=False)
        layer.close()


def in_turns(
    by_name: dict[str, Callable[[str, float], float]], rounds: int, seconds: float
) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        names = list(by_name)[number % len(by_name) :] + list(by_name)[: number % len(by_name)]
        for doing in ("write", "read"):
            for name in names:
                found.setdefault((name, doing), []).append(by_name[name](doing, seconds))
    return found


def fio(folder: Path, doing: str, request: int, seconds: float) -> float:
    argv = [
        "fio", "--name=speed", f"--directory={folder}", f"--rw={doing}", f"--bs={request}", f"--size={FILE}",
        f"--numjobs={JOBS}", "--ioengine=psync", "--time_based", f"--runtime={round(1000 * seconds)}ms",
        "--group_reporting", "--output-format=json",
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][doing]["bw_bytes"])


def library(through: LayerAccess, doing: str, request: int) -> float:
    """4 processes with a file each; what they read they also check."""
    workload = Workload(processes=JOBS, pattern="file-per-process", request=request, total=JOBS * FILE)
    done = run_task(Task(workload=workload, doings=("write", "read"), name="library", seed=1), through)
    return next(one.bandwidth for one in done if one.doing == doing)


def report(measured: dict[tuple[str, str], list[float]], request: int) -> int:
    print(f"fio, {JOBS} jobs of {request} KiB, medians of {len(measured['mount', 'read'])} turns:")
    print("  (each turn's MB/s in brackets: on a machine that does other things besides, look at the ratios)")
    for (name, doing), widths in measured.items():
        turns = " ".join(f"{width / 1e6:.0f}" for width in widths)
        ratio = statistics.median(w / p for w, p in zip(measured["mount", doing], widths, strict=True))
        middle = statistics.median(widths) / 1e6
        print(f"  {doing:5} {name:26} {middle:7.0f} MB/s   the mount has {ratio:.2f} of it [{turns}]")
    for doing in ("write", "read"):
        width = statistics.median(measured["mount", doing])
        print(f"at least {GOAL / 1e6:.0f} MB/s, {doing}: {width / 1e6:.0f} MB/s, {verdict(width >= GOAL)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
