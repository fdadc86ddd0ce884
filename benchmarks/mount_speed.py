"""How much an unmodified program gets through the mount: fio with 4 jobs of 256 KiB, against two peers in turns.

    .venv/bin/python benchmarks/mount_speed.py [--rounds N] [--seconds S] [--request KIB]

Goal: at least 400 MB/s, reading and writing, through the mount, one I/O node and four data servers. Beside it: the
same fio through a passthrough mount of the same FUSE code over a plain folder (what the kernel and Python
allow at most, without a layer behind), and the client library driven by 4 processes without any mount.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import verdict
from forward_speed import Layer

from forebay.act.forward.bench.client_processes import LayerAccess, Task, run_task
from forebay.act.forward.bench.workload import Workload
from forebay.act.forward.mount.device import mount
from forebay.act.forward.mount.file_system import Attributes, Change, User
from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.payloads import Space, space_of

JOBS = 4
FILE = 64 << 20
"""Bytes of each job's file: all of it stays in memory."""
GOAL = 400e6


class Passthrough:
    """A folder as it is; only what fio needs. The kernel's inode numbers stand for paths."""

    shares_locks = False

    def __init__(self, root: Path) -> None:
        self._paths = {1: root}

    def _attributes(self, node: int, path: Path | int) -> Attributes:
        found = os.fstat(path) if isinstance(path, int) else path.lstat()
        return Attributes(
            node, found.st_mode, found.st_size, found.st_blocks * 512, found.st_atime_ns, found.st_mtime_ns,
            found.st_ctime_ns, found.st_nlink, found.st_uid, found.st_gid, found.st_rdev,
        )  # fmt: skip

    def _enter(self, path: Path) -> Attributes:
        node = path.lstat().st_ino
        self._paths[node] = path
        return self._attributes(node, path)

    def lookup(self, user: User, folder: int, name: bytes) -> Attributes:  # noqa: ARG002
        return self._enter(self._paths[folder] / os.fsdecode(name))

    def forget(self, node: int, lookups: int) -> None: ...

    def getattr(self, user: User, node: int) -> Attributes:  # noqa: ARG002
        return self._attributes(node, self._paths[node])

    def setattr(self, user: User, node: int, change: Change) -> Attributes:
        if change.size is not None:
            os.truncate(self._paths[node], change.size)
        return self.getattr(user, node)

    def open(self, user: User, node: int, flags: int) -> int:  # noqa: ARG002
        return os.open(self._paths[node], flags)

    def create(self, user: User, folder: int, name: bytes, flags: int, mode: int) -> tuple[Attributes, int]:  # noqa: ARG002
        path = self._paths[folder] / os.fsdecode(name)
        handle = os.open(path, flags | os.O_CREAT, mode)
        return self._enter(path), handle

    def read(self, handle: int, room: memoryview, offset: int) -> int:
        return os.preadv(handle, [room], offset)

    def write(self, node: int, handle: int, data: memoryview, offset: int, clear: bool) -> int:  # noqa: ARG002
        return os.pwrite(handle, data, offset)

    def allocate(self, handle: int, offset: int, length: int, mode: int) -> None:  # noqa: ARG002
        os.posix_fallocate(handle, offset, length)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def release(self, handle: int, flock_owner: int | None) -> None:  # noqa: ARG002
        os.close(handle)

    def readdir(self, user: User, node: int) -> Sequence[tuple[bytes, int, int]]:  # noqa: ARG002
        with os.scandir(self._paths[node]) as entries:
            return [(os.fsencode(each.name), each.stat().st_mode, each.inode()) for each in entries]

    def unlink(self, user: User, folder: int, name: bytes) -> None:  # noqa: ARG002
        (self._paths[folder] / os.fsdecode(name)).unlink()

    def mkdir(self, user: User, folder: int, name: bytes, mode: int) -> Attributes:  # noqa: ARG002
        path = self._paths[folder] / os.fsdecode(name)
        path.mkdir(mode)
        return self._enter(path)

    def rmdir(self, user: User, folder: int, name: bytes) -> None:  # noqa: ARG002
        (self._paths[folder] / os.fsdecode(name)).rmdir()

    def statfs(self) -> Space:
        return space_of(os.statvfs(self._paths[1]))

    def getxattr(self, user: User, node: int, name: bytes) -> bytes:  # noqa: ARG002
        raise OSError(errno.ENODATA, "no such attribute")

    def __getattr__(self, name: str) -> Any:
        """Everything else fails for one request."""

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSYS, name)

        return refuse


def main() -> int:
    parser = argparse.ArgumentParser(description="How much fio gets through the mount.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--request", type=int, default=256, help="KiB")
    parser.add_argument("--passthrough", nargs=2, metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.passthrough:
        root, point = map(Path, options.passthrough)
        mount(Passthrough(root), point, lambda: print("ready", flush=True))
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
