"""Create, stat, read and remove small files through the mount, against a passthrough FUSE in Python, in turns.

    .venv/bin/python benchmarks/small_files.py [--files N] [--rounds N] [--size BYTES] [--only client|servers]

Goals: with one client, at least half the passthrough's rate in each of the four; with four servers and eight processes
at least twice the rate of one server, where cores allow. The passthrough is a file system of mfusepy (an outside
binding of libfuse) over a folder on the same disk as the servers' folders. Beside them: the same work from a second
mount, which has nothing cached, and which must see all that the first one has done.

Rates depend on whatever else runs on the machine. So each table also has the processor time that the layer's processes
need for an operation, which depends on that less. Where each process has a core, the busiest one limits the rate.
"""

# ruff: noqa: PTH102, PTH106, PTH108, PTH116, PTH208

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from bench import verdict
from forward_speed import Layer

PHASES = ("create", "stat", "read", "remove")
GOAL = 0.5
SPREAD = 2.0
SETTLE = 0.5
PROCESSES = 8
Rates = dict[str, list[float]]
"""Operations a second of each phase, one for each round."""
Processes = dict[str, list[int]]
"""The numbers of processes, by what they are."""


class Costs:
    """Processor time that processes need for an operation, by phase: medians of rounds, in microseconds."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self._samples: dict[str, list[dict[int, float]]] = {phase: [] for phase in PHASES}

    def measure(self, phase: str, work: Callable[[], float], operations: int) -> float:
        """Do some work, and return its rate."""
        numbers = [number for each in self.processes.values() for number in each]
        before = {number: processor_time(number) for number in numbers}
        found = work()
        time.sleep(SETTLE)  # what follows an operation belongs to it: reports of closed files, removed objects
        used = {number: (processor_time(number) - before[number]) / operations for number in numbers}
        self._samples[phase].append(used)
        return found

    def of_each(self, phase: str) -> dict[str, list[float]]:
        """For each kind of process, the median of each."""
        samples = self._samples[phase]
        return {
            name: [statistics.median(sample[number] for sample in samples) for number in numbers]
            for name, numbers in self.processes.items()
        }

    def describe(self, phase: str) -> str:
        each = self.of_each(phase)
        shown = ", ".join(f"{name} {sum(costs):.0f}" for name, costs in each.items())
        busiest = max(cost for costs in each.values() for cost in costs)
        return f"{shown}; the busiest process {busiest:.0f} us, at most {1e6 / max(busiest, 1.0):.0f}/s"


def processor_time(process: int) -> float:
    """Microseconds that all threads of a process have run."""
    total = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description="Small files through the mount.")
    parser.add_argument("--files", type=int, default=1000, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=4096, help="of a file, in bytes")
    parser.add_argument("--only", choices=("client", "servers"))
    parser.add_argument("--passthrough", nargs=2, metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.passthrough:
        serve_passthrough(*options.passthrough)
        return 0
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: /dev/fuse is needed (Debian: apt-get install fuse3)")
        return 0
    data = os.urandom(options.size)
    if options.only != "servers" and find_spec("mfusepy") is None:
        print("skipped: one client beside a passthrough (needs mfusepy: pip install mfusepy)")
    elif options.only != "servers":
        compare_with_passthrough(options.files, options.rounds, data)
    if options.only != "client":
        compare_servers(options.files // 4, options.rounds, data)
    return 0


def serve_passthrough(root: str, point: str) -> None:
    """Mount `root` at `point`, in the way of the loopback example of mfusepy."""
    import mfusepy

    class Passthrough(mfusepy.Operations):  # type: ignore[misc]
        use_ns = True

        def init(self, path: str) -> None: ...

        def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:  # noqa: ARG002
            status = os.lstat(root + path)
            return {
                "st_atime": status.st_atime_ns, "st_ctime": status.st_ctime_ns, "st_mtime": status.st_mtime_ns,
                "st_gid": status.st_gid, "st_uid": status.st_uid, "st_mode": status.st_mode,
                "st_nlink": status.st_nlink, "st_size": status.st_size, "st_blocks": status.st_blocks,
            }  # fmt: skip

        def readdir(self, path: str, fh: int) -> list[str]:  # noqa: ARG002
            return [".", "..", *os.listdir(root + path)]

        def mkdir(self, path: str, mode: int) -> None:
            os.mkdir(root + path, mode)

        def rmdir(self, path: str) -> None:
            os.rmdir(root + path)

        def unlink(self, path: str) -> None:
            os.unlink(root + path)

        def create(self, path: str, mode: int) -> int:
            return os.open(root + path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

        def open(self, path: str, flags: int) -> int:
            return os.open(root + path, flags)

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:  # noqa: ARG002
            return os.pread(fh, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:  # noqa: ARG002
            return os.pwrite(fh, data, offset)

        def flush(self, path: str, fh: int) -> None: ...

        def release(self, path: str, fh: int) -> None:  # noqa: ARG002
            os.close(fh)

    mfusepy.FUSE(Passthrough(), point, foreground=True, nothreads=True)


class SmallFiles:
    """The work of one process in a folder of its own; the phases follow one another."""

    def __init__(self, folder: Path, files: int, data: bytes) -> None:
        self.folder, self.data = str(folder), data
        self.paths = [f"{folder}/file{i}" for i in range(files)]

    def create(self) -> None:
        for path in self.paths:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.write(handle, self.data)
            os.close(handle)

    def stat(self) -> None:
        size = len(self.data)
        for path in self.paths:
            assert os.stat(path).st_size == size, path

    def read(self) -> None:
        for path in self.paths:
            handle = os.open(path, os.O_RDONLY)
            assert os.read(handle, len(self.data) + 1) == self.data, path
            os.close(handle)

    def list_with_status(self) -> None:
        """As `ls -l` does."""
        for entry in os.scandir(self.folder):
            entry.stat()

    def remove(self) -> None:
        for path in self.paths:
            os.unlink(path)


def rate(work: Callable[[], None], operations: int) -> float:
    began = time.perf_counter()
    work()
    return operations / (time.perf_counter() - began)


def compare_with_passthrough(files: int, rounds: int, data: bytes) -> None:
    """One client, in turns with the passthrough; and a second mount that looks at what the first has created."""
    rates: dict[str, Rates] = {name: {phase: [] for phase in PHASES} for name in ("layer", "passthrough")}
    other: Rates = {"stat": [], "read": [], "list": []}
    with tempfile.TemporaryDirectory(prefix="forebay-") as place:
        folder = Path(place)
        with layer(folder / "layer", 4) as (points, processes), passthrough(folder) as (peer, number_of_peer):
            costs = {"layer": Costs(processes), "passthrough": Costs({"passthrough": [number_of_peer]})}
            for number in range(rounds):
                for name, point in (("layer", points[0]), ("passthrough", peer)):
                    work = begin(point, f"round{number}", files, data)
                    for phase in PHASES:
                        found = costs[name].measure(phase, lambda: rate(getattr(work, phase), files), files)  # noqa: B023
                        rates[name][phase].append(found)
                    os.rmdir(work.folder)
                look_from(points[1], begin(points[0], f"look{number}", files, data), other)
    print(f"one client, {files} files of {len(data)} bytes, four servers; medians of {rounds} rounds in turns")
    print(f"{'':10} {'layer':>10} {'passthrough':>12}   ratio   goal")
    for phase in PHASES:
        mine, peers = rates["layer"][phase], rates["passthrough"][phase]
        ratio = statistics.median(a / b for a, b in zip(mine, peers, strict=True))
        values = f"{statistics.median(mine):10.0f} {statistics.median(peers):12.0f}"
        print(f"{phase:10} {values}/s {ratio:6.2f}   {GOAL} {verdict(ratio >= GOAL)}")
    for phase, seen in other.items():
        print(f"{phase:10} {statistics.median(seen):10.0f}/s from a second mount, which has cached nothing")
    print("processor time of an operation in us, all processes of a kind together")
    for phase in PHASES:
        print(f"{phase:10} {'; '.join(each.describe(phase) for each in costs.values())}")


def look_from(point: Path, work: SmallFiles, rates: Rates) -> None:
    """Create files, and stat and read all of them from another mount."""
    work.create()
    time.sleep(SETTLE)  # until the layer knows that they are closed
    there = SmallFiles(point / Path(work.folder).name, len(work.paths), work.data)
    for phase in ("stat", "read"):
        rates[phase].append(rate(getattr(there, phase), len(there.paths)))
    rates["list"].append(rate(there.list_with_status, len(there.paths)))
    work.remove()


def compare_servers(files: int, rounds: int, data: bytes) -> None:
    """Eight processes, with a mount for each two, over one server and over four."""
    rates: dict[int, Rates] = {servers: {phase: [] for phase in PHASES} for servers in (1, 4)}
    names = count()
    with tempfile.TemporaryDirectory(prefix="forebay-") as place:
        folder = Path(place)
        with layer(folder / "one", 1) as (one, of_one), layer(folder / "four", 4) as (four, of_four):
            costs = {1: Costs(of_one), 4: Costs(of_four)}
            for _ in range(rounds):
                for servers, points in ((1, one), (4, four)):
                    works = [
                        begin(points[i % len(points)], f"work{next(names)}", files, data) for i in range(PROCESSES)
                    ]
                    operations = files * PROCESSES
                    for phase in PHASES:
                        found = costs[servers].measure(
                            phase,
                            lambda: rate(lambda: run_all(works, phase), operations),  # noqa: B023
                            operations,
                        )
                        rates[servers][phase].append(found)
    cores = len(os.sched_getaffinity(0))
    print(f"{PROCESSES} processes, {files} files of {len(data)} bytes each; {cores} cores for everything")
    for phase in PHASES:
        single, several = rates[1][phase], rates[4][phase]
        ratio = statistics.median(b / a for a, b in zip(single, several, strict=True))
        values = f"one server {statistics.median(single):7.0f}/s, four {statistics.median(several):7.0f}/s"
        allowed = f"goal {SPREAD}" if cores > PROCESSES else f"goal {SPREAD} needs more cores than {PROCESSES}"
        print(f"{phase:10} {values}, ratio {ratio:5.2f} ({allowed})")
    print("processor time of an operation in us, all processes of a kind together")
    for servers, cost in costs.items():
        for phase in PHASES:
            print(f"{servers} {phase:8} {cost.describe(phase)}")


def run_all(works: list[SmallFiles], phase: str) -> None:
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=getattr(work, phase)) for work in works]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
        assert process.exitcode == 0, phase


def begin(point: Path, name: str, files: int, data: bytes) -> SmallFiles:
    folder = point / name
    folder.mkdir()
    return SmallFiles(folder, files, data)


@contextmanager
def layer(folder: Path, servers: int) -> Iterator[tuple[list[Path], Processes]]:
    """A layer with one I/O node, and two mounts of it."""
    folder.mkdir()
    parts = Layer(folder)
    parts.servers = parts.servers[:servers]
    points = [folder / "mount0", folder / "mount1"]
    try:
        processes: Processes = {"mounts": [], "I/O node": [], "servers": []}
        for i, address in enumerate(parts.servers):
            words = ("--folder", f"{folder}/data{i}", "--listen", address, "--index", str(i), "--of", str(servers))
            processes["servers"].append(parts.forebay("server", *words).pid)
        address, node = parts.node()
        processes["I/O node"].append(node.pid)
        for point in points:
            point.mkdir()
            processes["mounts"].append(parts.forebay("mount", str(point), "--nodes", address).pid)
        yield points, processes
    finally:
        for point in points:
            subprocess.run(["fusermount3", "-u", "-q", str(point)], check=False)
        parts.close()


@contextmanager
def passthrough(folder: Path) -> Iterator[tuple[Path, int]]:
    root, point = folder / "plain", folder / "passthrough"
    root.mkdir()
    point.mkdir()
    with subprocess.Popen([sys.executable, __file__, "--passthrough", str(root), str(point)]) as process:
        try:
            deadline = time.monotonic() + 30
            while not point.is_mount():
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the passthrough does not start, so there is nothing to compare with")
                time.sleep(0.05)
            yield point, process.pid
        finally:
            subprocess.run(["fusermount3", "-u", "-q", str(point)], check=False)
            process.wait(30)


if __name__ == "__main__":
    sys.exit(main())
