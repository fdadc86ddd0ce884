"""Predicted gains of findings, compared with what undoing the problem brings in simulation.

Each case is a problem that a study's simulator can express. It is simulated as it is and with the problem undone:
striped files, crowded and slow OSTs, uneven processes and interleaved writes on the machines of the striping study
(simulate/striping), small and repeated requests in the forwarding study's layer (simulate/requests). A Darshan log of
the first run, with the simulated seconds, is diagnosed, and the gain that the finding states is compared with the ratio
of the two simulated times. The findings' model has the machine's numbers, as a calibration would find them; it knows
nothing else of the simulation. The goal: a factor below 1.5 for nine of ten.
"""

import math
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench import verdict

from forebay.history.darshan.file_records import read_file_records
from forebay.model.arrays import Floats, Ints
from forebay.model.layout import KIB, MIB, Layout
from forebay.profile.calibration.filesystem_costs import FileSystem
from forebay.profile.findings.combined_gain import predict_combined_gain
from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.rules import find_problems
from forebay.profile.findings.thresholds import LEAST_GAIN
from forebay.simulate.requests.run import Forwarding, simulate_requests
from forebay.simulate.requests.servers import flash
from forebay.simulate.requests.workload import Workload
from forebay.simulate.striping.flows import costs, finish_times, throughput
from forebay.simulate.striping.machine import CORI, LOCAL, Machine
from forebay.simulate.striping.machine import Program as Striped
from support import labelled_logs as logs
from support.labelled_logs import Program

CLOSE, GOAL = 1.5, 0.9
STRIPE = MIB
WIDE = replace(LOCAL, name="wide", targets=32, target_bandwidth=1e9, processes_per_node=4, noise=0.0)
MACHINES = (LOCAL, WIDE, CORI)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`seconds` is the simulated run as it is, for all processes or for each; `undone` the run without the problem."""

    code: str
    name: str
    fs: FileSystem
    program: Program
    seconds: float | Floats
    undone: float

    @property
    def simulated(self) -> float:
        return float(np.max(self.seconds)) / self.undone

    def predict(self, folder: Path) -> float:
        """The gain that diagnose states, of all remedies for problems that come together; 1 if it finds none."""
        self._set_times()
        records = read_file_records(self.program.write(folder / "run.darshan"))
        evidence = Evidence(records=records, fs=self.fs)
        findings = find_problems(evidence)
        if self.code == "together":
            return predict_combined_gain(evidence, findings) or 1.0
        return next((f.predicted_gain or 1.0 for f in findings if f.code == self.code), 1.0)

    def _set_times(self) -> None:
        """Give each process its simulated seconds, on its files in proportion to their bytes."""
        handles = defaultdict(list)
        for (_, rank), handle in self.program.handles.items():
            handles[rank].append(handle)
        each = np.broadcast_to(np.asarray(self.seconds, dtype=float), self.program.nprocs)
        for rank, own in handles.items():
            moved = [(h.counts["BYTES_READ"], h.counts["BYTES_WRITTEN"]) for h in own]
            every = max(sum(map(sum, moved)), 1)
            for handle, (read, written) in zip(own, moved, strict=True):
                handle.seconds.clear()
                handle.seconds |= {
                    "F_READ_TIME": each[rank] * read / every,
                    "F_WRITE_TIME": each[rank] * written / every,
                    "F_META_TIME": 1e-6,
                }


def file_system(
    machine: Machine, processes: int, *, busy: int | None = None, shared: bool = False, turns: bool = False
) -> FileSystem:
    """The machine as one of its processes sees it when all are busy, or `busy` of them, as a calibration with such runs
    would find it: a node sends one message after the other. If processes take `turns` in a file, the node sends what
    its processes write next to each other in one message and takes one lock for it; halves of these cross a stripe."""
    nodes = machine.nodes(processes)
    here = min(processes, machine.processes_per_node)
    calls = machine.call_seconds if shared else 1e-7
    waits = (2 if turns else min(busy or here, here)) * machine.client_seconds
    return FileSystem(
        call=(calls, calls),
        latency=(waits, waits),
        lock=machine.lock_seconds if nodes > 1 else 1e-9,
        neighbours=here / 2 if turns else here,
        name=1e-6,
        bandwidth=(machine.process_bandwidth, machine.process_bandwidth),
        total=(nodes * machine.node_bandwidth, nodes * machine.node_bandwidth),
        ost=machine.target_bandwidth,
        serve=(2 / here if turns else 1) * machine.rpc_seconds,
        rpc=int(machine.rpc_bytes),
        exchange=machine.call_seconds + machine.round_seconds * (1 + math.log2(processes)),
    )


def cases() -> Iterator[Case]:
    for machine in MACHINES:
        for processes in (16, 64):
            yield from striped_cases(machine, processes)
            yield from own_file_cases(machine, processes)
    yield from request_cases()


def simulate(machine: Machine, program: Striped, processes: int, count: int) -> float:
    return program.volume(processes) / throughput(
        machine, program, processes, Layout(count=count, size=STRIPE, start=0)
    )


def striped_cases(machine: Machine, processes: int) -> Iterator[Case]:
    """One file, or one for each process, on OSTs of the striping study."""
    each = 64 * MIB
    widest = min(machine.targets, processes)

    def case(
        code: str,
        before: Striped,
        after: Striped,
        write: Callable[[Program], None],
        counts: tuple[int, int],
    ) -> Case:
        program = Program(processes)
        write(program)
        for file in {file for file, _ in program.handles}:
            first = 0 if before.shared else file % machine.targets
            logs.striped(program, file, [(first + k) % machine.targets for k in range(counts[0])], STRIPE)
        _use_last_ost(program, machine)
        walls = [simulate(machine, p, processes, c) for p, c in zip((before, after), counts, strict=True)]
        name = f"{machine.name} {processes} {before.name} {counts}"
        fs = file_system(machine, processes, shared=before.shared, turns=before.shared and before.block < STRIPE)
        return Case(code=code, name=name, fs=fs, program=program, seconds=walls[0], undone=walls[1])

    blocks = Striped(name="blocks of 16 MiB", block=16 * MIB, process_bytes=each, shared=True)
    for count in (1, 2, 4):
        if 2 * count <= widest:
            yield case(
                "stripe-count", blocks, blocks, partial(logs.shared_blocks, total=each, size=16 * MIB), (count, widest)
            )
    large = Striped(name="4 MiB", block=4 * MIB, process_bytes=each, shared=True)
    for size in (4 * KIB, 16 * KIB, 64 * KIB):
        turns = Striped(name=f"turns of {size // KIB} KiB", block=size, process_bytes=2 * MIB, shared=True)
        whole = replace(large, process_bytes=2 * MIB)
        write = partial(logs.shared_turns, count=2 * MIB // size, size=size)
        for count in (1, widest):
            yield case("small-requests-shared", turns, whole, write, (count, count))
        if widest > 2:
            yield case("together", turns, whole, write, (1, widest))
    for size in (64 * KIB, 256 * KIB, MIB):
        turns = Striped(name=f"independent {size // KIB} KiB", block=size, process_bytes=8 * MIB, shared=True)
        together = replace(turns, name="collective", collective=True)

        def independent(program: Program, size: int = size) -> None:
            logs.shared_turns(program, 8 * MIB // size, size)
            logs.mpi_calls(program, "INDEP", 8 * MIB // size, size)

        yield case("no-collective", turns, together, independent, (widest, widest))
    for size in (2 * MIB + 8, 4 * MIB + 4096):
        uneven = Striped(name=f"misaligned {size}", block=size, process_bytes=20 * size, shared=True, aligned=False)
        even = replace(uneven, block=size // MIB * MIB, process_bytes=20 * (size // MIB * MIB), aligned=True)
        yield case("misaligned", uneven, even, partial(logs.shared_turns, count=20, size=size), (widest, widest))
    for size in (64 * KIB, 256 * KIB, MIB):
        jumps = Striped(name=f"random {size // KIB} KiB", block=size, process_bytes=100 * size, random=True)
        yield case(
            "random-access", jumps, replace(jumps, random=False),
            partial(logs.random_own, count=100, size=size, verb="WRITE"), (1, 1),
        )  # fmt: skip


def _use_last_ost(program: Program, machine: Machine) -> None:
    """An empty file there shows how many OSTs exist."""
    program.open(9999, 0)
    logs.striped(program, 9999, [machine.targets - 1], STRIPE)


def own_file_cases(machine: Machine, processes: int) -> Iterator[Case]:
    """A file for each process on one OST; processes share their node, and files their OST."""
    each, rank = 64 * MIB, np.arange(processes)
    spread = rank % machine.targets

    def case(code: str, name: str, sizes: Ints, osts: Ints, slow: Floats, undone: float) -> Case:
        program = Program(processes)
        logs.uneven(program, sizes.tolist(), size=16 * MIB)
        for process in range(processes):
            if sizes[process]:
                logs.striped(program, 300 + process, [int(osts[process])], STRIPE)
        _use_last_ost(program, machine)
        return Case(
            code=code,
            name=f"{machine.name} {processes} {name}",
            fs=file_system(machine, processes, busy=int((sizes > 0).sum())),
            program=program,
            seconds=end_times(machine, sizes, osts, slow),
            undone=undone,
        )

    even, usual = np.full(processes, each), np.ones(machine.targets)
    best = float(end_times(machine, even, spread, usual).max())
    for crowd in (1, 2):
        if 2 * crowd <= min(machine.targets, processes):
            yield case("few-osts", f"files on {crowd} OSTs", even, rank % crowd, usual, best)
    for factor in (4.0, 12.0):
        if machine.targets <= processes:
            slow = np.where(np.arange(machine.targets) == 1, factor, 1.0)
            yield case("slow-ost", f"an OST {factor:g} times slower", even, spread, slow, best)
    for factor in (4, 10):
        sizes = np.where(rank == 0, factor * each, each)
        level = np.full(processes, int(sizes.sum()) // processes)
        undone = float(end_times(machine, level, spread, usual).max())
        yield case("imbalance", f"one with {factor} times the bytes", sizes, spread, usual, undone)
        if min(machine.targets, processes) // 2 >= 2:
            yield case("together", f"the same, and files on 2 OSTs, {factor}", sizes, rank % 2, usual, undone)
    sizes = np.where(rank == 0, processes * each, 0)
    yield case("single-writer", "one writes all", sizes, spread, usual, best)


def end_times(machine: Machine, sizes: Ints, osts: Ints, slow: Floats) -> Floats:
    """When each process has written its file; OST t takes `slow[t]` times as long for a byte."""
    cost = costs(machine, Striped(name="own files", block=16 * MIB, process_bytes=1), sizes.size, 1, STRIPE)
    nodes = machine.targets + np.arange(sizes.size) // machine.processes_per_node
    where = np.concatenate((osts, nodes))
    work = np.concatenate((sizes * cost.target * slow[osts], sizes * cost.node))
    ends = finish_times(where, work, np.zeros(int(where.max()) + 1, dtype=np.int64)).reshape(2, -1).max(axis=0)
    return np.asarray(np.maximum(ends, cost.stream * sizes))


def request_cases() -> Iterator[Case]:
    """Requests through I/O nodes to servers with flash; clients neither read ahead nor collect writes."""
    layer = Forwarding(nodes=4, servers=4, server=flash(noise=0.0), stripe=MIB)
    wait = 2 * layer.to_client + 2 * layer.to_server + layer.reading + 80e-6

    def file_system_for(large: int) -> FileSystem:
        """Each stripe of a large request has a channel of its own."""
        bandwidth = 400e6 * min(max(large / layer.stripe, 1), 32)
        return FileSystem(
            call=(1e-7, 1e-7), latency=(wait, wait), lock=1e-9, name=1e-6, bandwidth=(bandwidth, bandwidth),
            total=(4 * 3.2e9, 4 * 3.2e9), ost=3.2e9, rpc=4 * MIB,
        )  # fmt: skip

    for processes in (16, 64):
        for size in (4 * KIB, 16 * KIB, 64 * KIB):
            for pattern in ("file-per-process", "shared-strided"):
                total = processes * 400 * size
                before, after = (
                    simulate_requests(
                        layer, Workload(processes=processes, pattern=p, operation="read", request=r, total=total)
                    ).seconds
                    for p, r in ((pattern, size), ("file-per-process", 400 * size))
                )
                program = Program(processes)
                if pattern == "shared-strided":
                    logs.shared_turns(program, 400, size, "READ")
                    code = "small-requests-shared"
                else:
                    logs.random_own(program, 400, size)
                    code = "random-access"
                name = f"forwarding {processes} {pattern} {size // KIB} KiB"
                yield Case(
                    code=code, name=name, fs=file_system_for(400 * size), program=program, seconds=before, undone=after
                )


def main() -> None:
    close, every = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            predicted = case.predict(Path(folder))
            if max(predicted, case.simulated) < LEAST_GAIN:
                continue  # no problem there, and none stated
            off = max(predicted / case.simulated, case.simulated / predicted)
            every[case.code] += 1
            close[case.code] += off < CLOSE
            gains = f"predicted {predicted:6.2f}, simulated {case.simulated:6.2f}, off {off:5.2f}"
            print(f"  {case.code:22} {case.name:50} {gains}")
    for code in sorted(every):
        print(f"{code:22} {close[code]:3} of {every[code]:3} within a factor of {CLOSE}")
    share = sum(close.values()) / sum(every.values())
    count = sum(every.values())
    print(
        f"predicted gains: {share:.0%} of {count} within a factor of {CLOSE}, goal {GOAL:.0%}, {verdict(share >= GOAL)}"
    )


if __name__ == "__main__":
    main()
