"""How fast jobs are scheduled, and whether waits are those of an independent implementation.

    .venv/bin/python benchmarks/schedule_speed.py [--kth FOLDER] [--many N]

Goals, on one core once compiled: the eight parts of KTH with burst buffers (13,647 jobs) with sjf-bb in under 0.5 s,
with plan and forebay in under 30 s; one decision with 1,000 waiting jobs in under 1 s; a million jobs with sjf-bb in
under 2 minutes and 2 GB. Mean waits and slowdowns of fcfs-bb, sjf-bb and filler agree with the table beside the parts
within 1 %, those of plan within 5 % on average. Times are those of the processor, as other programs may run. Drawn jobs
take the parts' place where those are absent.
"""

from __future__ import annotations

import argparse
import re
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench import SEED, verdict

from forebay.decide.registry import find, policies
from forebay.decide.schedule.memory import new_memory
from forebay.decide.schedule.view import KNOWN_JOB, MACHINE, View, new_starts
from forebay.history.jobs import read_jobs
from forebay.model.jobs import JOB, Jobs, reject_oversized
from forebay.simulate.jobs.run import JobMachine, JobRun, simulate_jobs

KTH = Path(__file__).resolve().parents[2] / "shared" / "data" / "kth"
MACHINE_OF_KTH = JobMachine(nodes=96, space=480 * 10**9)
LIMITS = {"sjf-bb": 0.5, "plan": 30.0, "forebay": 30.0}  # s
WAITING = 1000
TABLE = ("fcfs-bb", "sjf-bb", "filler", "plan:alpha=1", "plan:alpha=2")
SEEDS = range(3)


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast jobs are scheduled.")
    parser.add_argument("--kth", type=Path, default=KTH, help="the folder with the parts and their README")
    parser.add_argument("--many", type=int, default=1_000_000, help="how many jobs at scale")
    options = parser.parse_args()
    files = sorted(options.kth.glob("alloc-only-0*.csv.gz"))
    parts = [_read(file) for file in files] or [draw_jobs(1700, 96, load=0.9, seed=seed) for seed in range(8)]
    times_of_policies(parts)
    if files:
        agreement(parts, (options.kth / "README.md").read_text())
    decisions()
    at_scale(options.many)
    return 0


def _read(file: Path) -> Jobs:
    return reject_oversized(read_jobs(str(file)), MACHINE_OF_KTH.nodes, MACHINE_OF_KTH.space)


def times_of_policies(parts: Sequence[Jobs]) -> None:
    """Print what all parts take under each policy, in parts of the limit if there is one."""
    print(f"{sum(map(len, parts)):,} jobs in {len(parts)} parts:")
    for name in policies("schedule"):
        simulate_jobs(parts[0].select(np.arange(len(parts[0])) < 3), MACHINE_OF_KTH, find("schedule", name))
        begun = time.process_time()
        for part in parts:
            simulate_jobs(part, MACHINE_OF_KTH, find("schedule", name), seed=1)
        took = time.process_time() - begun
        goal = f"  limit {LIMITS[name]:g} s: {verdict(took <= LIMITS[name])}" if name in LIMITS else ""
        print(f"  {name:16} {took:8.3f} s{goal}")


def agreement(parts: Sequence[Jobs], readme: str) -> None:
    """Print mean waits and slowdowns over those of the table; plans as the mean of several seeds."""
    cells = [re.findall(r"([\d.]+) / ([\d.]+)", line) for line in readme.splitlines() if re.match(r"\| 0\d \|", line)]
    print("over the table of an independent implementation (wait, slowdown):")
    for column, name in enumerate(TABLE):
        is_plan = name.startswith("plan")
        ratios = np.array(
            [
                np.array(measure(part, simulate_jobs(part, MACHINE_OF_KTH, find("schedule", name), seed=seed)))
                / np.array([float(number) for number in row[column]])
                for part, row in zip(parts, cells, strict=True)
                for seed in (SEEDS if is_plan else [0])
            ]
        )
        wait, slowdown = ratios.mean(axis=0)
        off = np.abs(ratios.mean(axis=0) - 1).max() if is_plan else np.abs(ratios - 1).max()
        print(f"  {name:16} {wait:.3f} {slowdown:.3f}  {verdict(off <= (0.05 if is_plan else 0.01))}")


def measure(jobs: Jobs, run: JobRun) -> tuple[float, float]:
    """Return the mean waiting time and the mean bounded slowdown."""
    since = jobs.rows["submit"]
    slowdown = (run.ends - since) / np.maximum(run.ends - run.starts, 600)
    return float((run.starts - since).mean()), float(np.maximum(slowdown, 1).mean())


def decisions() -> None:
    """Print what one decision takes with many waiting jobs, and all reservations wanted."""
    print(f"one decision with {WAITING:,} waiting jobs:")
    view = busy_view()
    for name in policies("schedule"):
        policy, starts = find("schedule", name), new_starts(2 * WAITING)
        memory = new_memory(policy, seed=1, capacity=2 * WAITING)
        policy.decide(view, memory, starts)
        starts.count[0] = 0
        begun = time.process_time()
        policy.decide(view, memory, starts)
        took = time.process_time() - begun
        print(f"  {name:16} {took * 1e3:8.1f} ms  limit 1 s: {verdict(took <= 1.0)}")


def busy_view() -> View:
    """A machine with 100 running jobs, ten free nodes, and a long queue."""
    running = 100
    rows, nodes = draw_jobs(WAITING + running, 1024, load=1.0, seed=1).rows, 1024
    jobs = np.zeros(rows.size, KNOWN_JOB)
    for column in ("nodes", "walltime", "bytes"):
        jobs[column] = rows[column]
    jobs["id"], jobs["predicted"], jobs["submit"] = np.arange(rows.size), rows["walltime"], np.arange(rows.size) - 1e4
    jobs["nodes"][:running], jobs["bytes"][:running] = (nodes - 10) // running, 10**9
    jobs["end_by"] = jobs["expected_end"] = jobs["space_until"] = jobs["walltime"]
    machine = np.zeros(1, MACHINE)
    machine["nodes"], machine["free_nodes"] = nodes, nodes - jobs["nodes"][:running].sum()
    machine["bytes"] = nodes * 5 * 10**9
    machine["free_bytes"], machine["wants_plan"] = machine["bytes"] - running * 10**9, True
    queue = np.arange(running, rows.size)
    by_walltime = queue[np.argsort(jobs["walltime"][queue], kind="stable")]
    return View(machine, jobs, queue, by_walltime, np.argsort(jobs["end_by"][:running], kind="stable"))


def at_scale(count: int) -> None:
    """Print what many jobs on 1,024 nodes take."""
    jobs = draw_jobs(count, 1024, load=0.9, seed=SEED)
    begun = time.process_time()
    run = simulate_jobs(jobs, JobMachine(nodes=1024, space=1024 * 5 * 10**9), find("schedule", "sjf-bb"))
    took, peak = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    wait = (run.starts - jobs.rows["submit"]).mean()
    good = verdict(took <= 120 and peak <= 2)
    print(f"{count:,} jobs, sjf-bb: {took:.1f} s, {peak:.2f} GB, mean wait {wait:,.0f} s  limit 120 s, 2 GB: {good}")


def draw_jobs(count: int, nodes: int, *, load: float, seed: int) -> Jobs:
    """Jobs as in the logs of supercomputers: mostly small and short, with wall times up to ten times too long."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(count, JOB)
    rows["nodes"] = np.exp2(np.log2(nodes) * rng.random(count) ** 2).astype(int)
    rows["runtime"] = np.exp(rng.normal(7, 1.8, count)).clip(1, 4 * 86400).round()
    rows["walltime"] = np.maximum(300, np.ceil(rows["runtime"] * rng.choice([1, 1.2, 2, 5, 10], count) / 300) * 300)
    rows["bytes"] = np.minimum(rows["nodes"] * np.exp(rng.normal(21, 1.2, count)), nodes * 5e9).astype(int)
    seconds = float((rows["nodes"] * rows["runtime"]).sum()) / nodes / load
    rows["submit"] = np.sort(rng.random(count) * seconds).round()
    return Jobs(rows=rows, ids=[str(number) for number in range(count)])


if __name__ == "__main__":
    raise SystemExit(main())
