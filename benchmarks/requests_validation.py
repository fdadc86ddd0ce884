"""The simulator of requests against the forwarding layer itself, in configurations drawn at random.

    .venv/bin/python benchmarks/requests_validation.py [--layers N] [--dilation X] [--seconds S] [--seed N]

Each configuration runs on a layer of real processes, whose data servers emulate the modelled ones with dilated time,
and in the simulator. Goals: simulated over measured throughput within 20 % for nine of ten configurations, and the
same sign of gain or loss against `fifo` wherever it is above 5 %.

The constants of this machine (the time that a request spends in the layer's processes) are measured once, at the
beginning, without emulation; nothing is fitted to the configurations. Other work on the machine only slows a run down,
so the best round of a contender counts; `noise` is the difference between its best and its worst. On a busy machine,
use a larger dilation and more rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
from bench import verdict

from forebay.act.forward.bench.client_processes import LayerAccess, Task, run_task
from forebay.act.forward.bench.layer import Shape, temporary_layer
from forebay.act.forward.bench.rounds import job_folder, order_turns, prepare, round_task
from forebay.act.forward.bench.workload import PATTERNS, Workload
from forebay.model.layout import KIB, Layout
from forebay.model.process_mapping import MAPPINGS
from forebay.model.situation import OPERATIONS
from forebay.simulate.requests import workload as simulated
from forebay.simulate.requests.run import Forwarding, simulate_requests
from forebay.simulate.requests.workload import PAPER_WINDOWS

STRIPE = 64 * KIB
FIFO = "fifo"
NEAR, SHARE, NOTABLE = 0.20, 0.9, 0.05
EACH = 4
SEEDS = range(5)
"""Simulated runs of a configuration: where the first window begins is chance."""


class LayerShape(NamedTuple):
    """One layer, which several configurations share, as its processes take seconds to start."""

    servers: int
    nodes: int
    schedulers: tuple[tuple[str, int], ...]
    """Names, with windows in nanoseconds; 0 for those without."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One point of the validation; `window` in nanoseconds, 0 for schedulers without windows."""

    pattern: str
    operation: str
    processes: int
    nodes: int
    servers: int
    request: int
    scheduler: str
    window: int
    mapping: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a request costs in the layer's processes, in seconds: on its way alone, and of an I/O node's time."""

    way: float
    node: float


def draw(rng: np.random.Generator) -> tuple[LayerShape, list[Configuration]]:
    """Draw a layer and CONFIGURATIONS for it."""

    def choose(values: Sequence[Any]) -> Any:
        return values[int(rng.integers(len(values)))]

    schedulers = []
    for kinds in (("twins", "twins-work-conserving"), ("twins", "twins-work-conserving", "hbrr", "sjf", "mlf")):
        name = choose(kinds)
        schedulers.append((name, choose(PAPER_WINDOWS) if name.startswith("twins") else 0))
    shape = LayerShape(servers=choose((1, 2, 3, 4)), nodes=choose((1, 2, 4)), schedulers=tuple(schedulers))
    return shape, [
        Configuration(
            pattern=choose(PATTERNS),
            operation=choose(OPERATIONS),
            processes=choose((4, 8, 16, 24, 32, 48)),
            nodes=shape.nodes,
            servers=shape.servers,
            request=choose((4 * KIB, 32 * KIB, 100_000, 256 * KIB)),
            scheduler=shape.schedulers[number % 2][0],
            window=shape.schedulers[number % 2][1],
            mapping=choose(MAPPINGS),
        )
        for number in range(EACH)
    ]


def measure_machine() -> Machine:
    """Measure requests without emulation: one process alone, and as many as an I/O node can serve."""
    layout = Layout(count=1, size=STRIPE)
    with temporary_layer(Shape(servers=1, nodes=1, layout=layout)) as layer:
        access = layer.add_nodes("machine", FIFO)
        layer.wait_until_ready()

        def seconds(processes: int, requests: int) -> float:
            total = processes * requests * 4 * KIB
            load = Workload(processes=processes, pattern="file-per-process", request=4 * KIB, total=total)
            task = Task(workload=load, doings=("read",))
            with job_folder(task, access) as place:
                prepare(task, place)
                return median(run_task(task, place)[0].seconds for _ in range(5)) / (processes * requests)

        return Machine(way=seconds(1, 1000), node=seconds(4, 500))


def build_simulated(c: Configuration, machine: Machine, dilation: float, scheduler: str) -> Forwarding:
    """The layer as the simulator has it: what the machine costs is small beside dilated times."""
    hop = max(machine.way - machine.node, 0.0) / 4 / dilation
    return Forwarding(
        nodes=c.nodes,
        servers=c.servers,
        stripe=STRIPE,
        scheduler=scheduler,
        window=c.window or None if scheduler != FIFO else None,
        in_flight=None,
        mapping=c.mapping,
        to_client=hop,
        to_server=hop,
        reading=machine.node / dilation,
        writing=machine.node / dilation,
    )


def build_load(c: Configuration, total: int, first_servers: tuple[int, ...] = ()) -> simulated.Workload:
    return simulated.Workload(
        processes=c.processes,
        pattern=c.pattern,
        operation=c.operation,
        request=c.request,
        total=total,
        first_servers=first_servers,
    )


def choose_total(c: Configuration, machine: Machine, dilation: float, seconds: float) -> int:
    """The bytes that fifo moves in about this many (dilated) seconds, by simulation; whole requests of each process."""
    each = c.processes * c.request
    load, layer = build_load(c, 16 * each), build_simulated(c, machine, dilation, FIFO)
    took = simulate_requests(layer, load).seconds * dilation / 16
    return max(round(seconds / took), 4) * each


def simulate(c: Configuration, machine: Machine, dilation: float, load: simulated.Workload) -> dict[str, float]:
    return {
        name: mean(
            simulate_requests(build_simulated(c, machine, dilation, name), load, seed=seed).bandwidth for seed in SEEDS
        )
        for name in (FIFO, c.scheduler)
    }


@contextmanager
def start_layer(shape: LayerShape, dilation: float) -> Iterator[dict[tuple[str, int], LayerAccess]]:
    """Give access to the layer's I/O nodes with fifo and with each of its schedulers."""
    layout = Layout(count=shape.servers, size=STRIPE)
    with temporary_layer(Shape(servers=shape.servers, nodes=shape.nodes, layout=layout, dilation=dilation)) as layer:
        accesses = {(FIFO, 0): layer.add_nodes("fifo", FIFO)}
        for number, (name, window) in enumerate(shape.schedulers):
            option = f":window={round(window * dilation)}" if window else ""
            accesses[name, window] = layer.add_nodes(f"other-{number}", name + option)
        layer.wait_until_ready()
        yield accesses


def measure(
    c: Configuration, by_scheduler: dict[tuple[str, int], LayerAccess], dilation: float, total: int, rounds: int
) -> tuple[dict[str, list[float]], tuple[int, ...]]:
    """Bytes per second in emulated time, by scheduler and round, and the first server of each file."""
    load = Workload(processes=c.processes, pattern=c.pattern, request=c.request, total=total)  # type: ignore[arg-type]
    task = Task(workload=load, doings=(c.operation,))  # type: ignore[arg-type]
    results: dict[str, list[float]] = {FIFO: [], c.scheduler: []}
    with job_folder(task, replace(by_scheduler[FIFO, 0], mapping=c.mapping)) as place:
        # Both read the same files, so that these begin at the same servers.
        other = replace(place, nodes=by_scheduler[c.scheduler, c.window].nodes)
        accesses = {FIFO: place, c.scheduler: other}
        _connect(task, other)
        if c.operation == "read":
            prepare(task, place)
        for number, names in enumerate(order_turns(tuple(accesses), rounds)):
            for name in names:
                [measured] = run_task(round_task(task, number), accesses[name])
                results[name].append(measured.bandwidth * dilation)
        with place.client() as client:
            files = [f"{place.folder}/{task.name}.{number}" for number in range(load.files)]
            first_servers = tuple(client.layout(file).start for file in files)
    return results, first_servers


def _connect(task: Task, access: LayerAccess) -> None:
    load = task.workload
    few = replace(load, total=load.processes * load.request)
    run_task(Task(workload=few, doings=("write",), name="first", seed=0), access)


def compare(
    c: Configuration, accesses: dict[tuple[str, int], LayerAccess], machine: Machine, arguments: argparse.Namespace
) -> dict[str, Any]:
    dilation: float = arguments.dilation
    total = choose_total(c, machine, dilation, arguments.seconds)
    theirs, first_servers = measure(c, accesses, dilation, total, arguments.rounds)
    ours = simulate(c, machine, dilation, build_load(c, total, first_servers))
    row: dict[str, Any] = asdict(c) | {"total": total}
    for name, label in ((FIFO, "fifo"), (c.scheduler, "other")):
        least, *_, best = sorted(theirs[name])
        row[f"{label}_measured"], row[f"{label}_simulated"] = best, ours[name]
        row[f"{label}_ratio"], row[f"{label}_noise"] = ours[name] / best, best / least - 1
    row["gain_measured"] = row["other_measured"] / row["fifo_measured"] - 1
    row["gain_simulated"] = row["other_simulated"] / row["fifo_simulated"] - 1
    return row


def rows_of(arguments: argparse.Namespace, machine: Machine) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(arguments.seed)
    for number in range(arguments.layers):
        shape, configurations = draw(rng)
        if number % arguments.parts != arguments.part:
            continue
        with start_layer(shape, arguments.dilation) as accesses:
            for at, c in enumerate(configurations):
                row = compare(c, accesses, machine, arguments)
                print(format_row(number * EACH + at, row), flush=True)
                yield row


def format_row(number: int, row: dict[str, Any]) -> str:
    window = f"{row['window'] / 1e6:g} ms" if row["window"] else ""
    fifo, other = ({name: row[f"{who}_{name}"] for name in ("measured", "ratio", "noise")} for who in ("fifo", "other"))
    what = f"{row['pattern'][:10]:10} {row['operation']:5} {row['processes']:2}p {row['nodes']}n {row['servers']}s"
    return (
        f"{number:2} {what} {row['request'] // KIB:3}K {row['mapping'][:5]:5} {row['scheduler'][:9]:9} {window:8} "
        f"fifo {fifo['measured'] / 1e6:6.1f} x{fifo['ratio']:.2f} (noise {100 * fifo['noise']:2.0f} %)  "
        f"other {other['measured'] / 1e6:6.1f} x{other['ratio']:.2f} (noise {100 * other['noise']:2.0f} %)  "
        f"gain {100 * row['gain_measured']:+4.0f} % simulated {100 * row['gain_simulated']:+4.0f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=10, help=f"each with {EACH} configurations")
    parser.add_argument("--dilation", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a run of fifo")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", type=int, default=1, help="divide the layers among this many calls")
    parser.add_argument("--part", type=int, default=0, help="the number of this call")
    parser.add_argument("--json", help="file for the rows")
    arguments = parser.parse_args()
    began = time.monotonic()
    machine = measure_machine()
    print(f"a request alone takes {1e6 * machine.way:.0f} us; an I/O node needs {1e6 * machine.node:.0f} us of each")
    rows = list(rows_of(arguments, machine))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows), encoding="utf-8")
    report(rows)
    print(f"{len(rows)} configurations in {time.monotonic() - began:.0f} s")


def report(rows: Sequence[dict[str, Any]]) -> None:
    near = [abs(row[f"{label}_ratio"] - 1) <= NEAR for row in rows for label in ("fifo", "other")]
    both = [near[2 * i] and near[2 * i + 1] for i in range(len(rows))]
    notable = [row for row in rows if min(abs(row["gain_measured"]), abs(row["gain_simulated"])) > NOTABLE]
    same = [row["gain_measured"] * row["gain_simulated"] > 0 for row in notable]
    # A gain that only one of them has, and that is larger than what runs of the same contender differ by.
    alone = [
        row
        for row in rows
        if max(abs(row["gain_measured"]), abs(row["gain_simulated"])) > NOTABLE + row["fifo_noise"] + row["other_noise"]
        and row not in notable
    ]
    print(
        f"within {NEAR:.0%}: {sum(near)} of {len(near)} runs; both of a configuration: {sum(both)} of {len(both)}: "
        f"{verdict(sum(both) >= SHARE * len(both))}"
    )
    print(
        f"gains and losses above {NOTABLE:.0%}: {sum(same)} of {len(same)} with the same sign: {verdict(all(same))}; "
        f"only measured or only simulated, and above the noise: {len(alone)}"
    )


if __name__ == "__main__":
    main()
