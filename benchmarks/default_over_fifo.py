"""The forwarding layer as `examples/forward.toml` sets it up, with its council, over `fifo`: learning costs little.

    .venv/bin/python benchmarks/default_over_fifo.py [--only simulated|live] [--steps N] [--runs N] [--every N]

Goal: never more than 3 % less throughput than `fifo`, over the whole time, in which the council learns from nothing.
Simulated: the paper's 144 situations (every N-th), `--steps` decisions in each, detection perfect. Live: patterns,
operations and numbers of processes on this machine, without emulation and on emulated servers, `--runs` runs of about
half a second of each contender in turns; the council decides every second meanwhile. On a busy machine, single runs
differ by more than the goal, so `fifo` also runs against itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from bench import verdict

from forebay.act.forward.bench.client_processes import LayerAccess, Task, run_task
from forebay.act.forward.bench.layer import Shape, temporary_layer
from forebay.act.forward.bench.rounds import job_folder, order_turns, prepare, round_task
from forebay.act.forward.bench.workload import Direction, Pattern, Workload
from forebay.act.forward.council.parameters import DEFAULT_WINDOWS
from forebay.decide.tune.council import Council, Report, decide, new_council
from forebay.model.layout import KIB, Layout
from forebay.model.random_numbers import seed_state
from forebay.model.units import parse_duration
from forebay.profile.request_watch import make_observation
from forebay.simulate.requests.learning import situation_of
from forebay.simulate.requests.run import NANO, Simulation, build_layer
from forebay.simulate.requests.workload import Experiment, paper_experiments

MOST_LOSS = 0.03
SCHEDULER = "twins-work-conserving"
PERIOD = 0.25
"""Seconds of a simulated period: as in the study, shorter than those of a live council."""
_ENDLESS = 1 << 44


class Outcome(NamedTuple):
    """The bytes that went through the layer, over those with fifo in the same time: in all, and in the last quarter."""

    name: str
    whole: float
    late: float


def simulate(experiment: Experiment, steps: int, seed: int) -> Outcome:
    """Let a council decide after every period of a run, and compare with a run of fifo."""
    experiment = experiment._replace(workload=replace(experiment.workload, total=_ENDLESS))
    windows = [round(parse_duration(text) * NANO) for text in DEFAULT_WINDOWS]
    default = run(experiment, SCHEDULER, steps, seed, new_council("window", windows))
    fifo = run(experiment, "fifo", steps, seed, None)
    late = slice(3 * steps // 4, None)
    return Outcome(experiment.name, default.sum() / fifo.sum(), default[late].sum() / fifo[late].sum())


def run(experiment: Experiment, scheduler: str, steps: int, seed: int, council: Council | None) -> np.ndarray:
    """Return the bytes of each period."""
    layer = replace(build_layer(experiment, scheduler), window=0, in_flight=None)
    simulation = Simulation(layer, [experiment.workload], seed=seed, period=PERIOD, periods=steps)
    chance, situation, moved = seed_state(seed), situation_of(experiment), []
    each = experiment.workload.processes // experiment.nodes
    value: int | None = None
    for step in range(1, steps + 1):
        simulation.advance(round(step * PERIOD * NANO))
        observed = [make_observation(row, PERIOD, processes=each) for row in simulation.rows[step - 1]]
        moved.append(sum(o.bytes_read + o.bytes_written for o in observed))
        if council is not None:
            reports = [
                Report(node=str(n), observed=o, value=value or 0, held=PERIOD, situation=situation)
                for n, o in enumerate(observed)
            ]
            council, decided = decide(council, reports, chance)
            if decided.value != value:
                value = int(decided.value or 0)
                simulation.set_window(value)
    return np.array(moved, dtype=float)


def simulate_all(every: int, steps: int) -> Iterator[Outcome]:
    for experiment in paper_experiments()[::every]:
        yield simulate(experiment, steps, seed=1)


class Live(NamedTuple):
    """One comparison on this machine; a `dilation` above 0 emulates the modelled servers."""

    pattern: Pattern
    doing: Direction
    processes: int
    request: int
    nodes: int
    dilation: float = 0.0


LIVE = (
    Live("file-per-process", "read", 1, 4 * KIB, 1),
    Live("file-per-process", "write", 1, 4 * KIB, 1),
    Live("shared-contiguous", "read", 1, 256 * KIB, 2),
    Live("shared-strided", "read", 16, 4 * KIB, 2),
    Live("shared-strided", "write", 16, 32 * KIB, 2),
    Live("file-per-process", "read", 24, 32 * KIB, 2),
    Live("shared-strided", "read", 32, 32 * KIB, 4, 10.0),
    Live("shared-contiguous", "write", 32, 32 * KIB, 2, 10.0),
)
_RUN = 0.5
"""Seconds of a run."""


class Ratios(NamedTuple):
    """Throughput over fifo's: of all runs together, of the last quarter, and median and quartiles of single runs."""

    whole: float
    late: float
    median: float
    low: float
    high: float


class Measured(NamedTuple):
    name: str
    default: Ratios
    noise: Ratios


def measure(live: Live, runs: int) -> Measured:
    """Compare the default with fifo in turns, and fifo with itself."""
    shape = Shape(servers=4, nodes=live.nodes, layout=Layout(count=4, size=64 * KIB), dilation=live.dilation)
    with temporary_layer(shape) as layer, ExitStack() as stack:
        accesses = {
            "default": layer.add_nodes("default", f"{SCHEDULER}:window=0", council=()),
            "fifo": layer.add_nodes("fifo", "fifo"),
            "fifo again": layer.add_nodes("again", "fifo"),
        }
        layer.wait_until_ready()
        task = task_of(live, accesses["fifo"])
        accesses = {name: stack.enter_context(job_folder(task, access)) for name, access in accesses.items()}
        for access in accesses.values():
            prepare(task, access)
        seconds: dict[str, list[float]] = {name: [] for name in accesses}
        for number, names in enumerate(order_turns(tuple(accesses), runs)):
            for name in names:
                seconds[name].append(run_task(round_task(task, number), accesses[name])[0].seconds)
    default, fifo, again = (np.array(seconds[name]) for name in ("default", "fifo", "fifo again"))
    late = slice(3 * runs // 4, None)
    servers = f"emulated {live.dilation:g}x slower" if live.dilation else "as fast as they are"
    what = f"{live.pattern} {live.doing} {live.request // KIB} KiB"
    return Measured(
        name=f"{what}, {live.processes} clients, {live.nodes} nodes, {servers}",
        default=ratios(fifo, default, late),
        noise=ratios(fifo, again, late),
    )


def ratios(fifo: np.ndarray, other: np.ndarray, late: slice) -> Ratios:
    """Return fifo's time over another's, as the throughput of the other: of all runs, of the late ones, and medians."""
    low, middle, high = (float(value) for value in np.quantile(fifo / other, (0.25, 0.5, 0.75)))
    return Ratios(float(fifo.sum() / other.sum()), float(fifo[late].sum() / other[late].sum()), middle, low, high)


def task_of(live: Live, access: LayerAccess) -> Task:
    """A task that takes about _RUN seconds."""
    few = 64 * live.processes * live.request
    load = Workload(processes=live.processes, pattern=live.pattern, request=live.request, total=few)
    task = Task(workload=load, doings=(live.doing,))
    with job_folder(task, access) as place:
        prepare(task, place)
        took = run_task(task, place)[0].seconds
    return replace(task, workload=replace(load, total=round(64 * _RUN / took) * live.processes * live.request))


def report(outcomes: Iterable[Outcome]) -> None:
    every = list(outcomes)
    whole, late = np.array([o.whole for o in every]), np.array([o.late for o in every])
    print(f"{whole.size} situations: least {whole.min():.3f}, median {np.median(whole):.3f}, mean {whole.mean():.3f}, "
          f"most {whole.max():.3f} of fifo; in the last quarter of the time {late.min():.3f} to {late.max():.3f}, "
          f"mean {late.mean():.3f}: {verdict(whole.min() >= 1 - MOST_LOSS)}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("simulated", "live"))
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--every", type=int, default=1, help="simulate only every N-th situation")
    parser.add_argument("--runs", type=int, default=60)
    arguments = parser.parse_args()
    if arguments.only != "live":
        report(list(simulate_all(arguments.every, arguments.steps)))
    if arguments.only != "simulated":
        for live in LIVE:
            measured = measure(live, arguments.runs)
            print(measured.name)
            for label, r in (("default", measured.default), ("fifo, again", measured.noise)):
                single = f"single runs {r.median:.3f} ({r.low:.2f} to {r.high:.2f})"
                print(f"    {label:12} {r.whole:.3f} of fifo; late {r.late:.3f}; {single}", flush=True)


if __name__ == "__main__":
    main()
