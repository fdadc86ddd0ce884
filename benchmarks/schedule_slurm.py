"""Two Slurms on this machine get the same jobs with burst buffers at the same time: one alone, one steered.

    python benchmarks/schedule_slurm.py [--jobs 100] [--policy sjf-bb] [--kills 3] [--stretch 1]

Needs root and Slurm; says so where it can't run. Goals: steering makes the mean waiting time at least 15 % shorter,
jobs start in the order of the plan, and a planner that is killed leaves no job held. Takes about four minutes, and
`--stretch` times as long if jobs come and run that much slower, while plans are made once a second as before.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bench import verdict

GOAL = 0.85
"""The largest mean waiting time with steering, in that of Slurm alone."""
NODES, SPACE = 4, 100  # GB
LONGEST = 600.0  # seconds until all jobs must have ended, times the stretch
LEASE = 15
_HOOKS = """
function slurm_bb_job_process(...) return slurm.SUCCESS end
function slurm_bb_pools() return slurm.SUCCESS, '{"pools":[{"id":"nvme","quantity":%d,"granularity":1000000000}]}' end
function slurm_bb_setup(...) return slurm.SUCCESS end
function slurm_bb_data_in(...) os.execute("sleep 0.2") return slurm.SUCCESS end
function slurm_bb_real_size(...) return slurm.SUCCESS end
function slurm_bb_paths(...) return slurm.SUCCESS end
function slurm_bb_pre_run(...) return slurm.SUCCESS end
function slurm_bb_post_run(...) return slurm.SUCCESS end
function slurm_bb_data_out(...) return slurm.SUCCESS end
function slurm_bb_job_teardown(...) return slurm.SUCCESS end
function slurm_bb_get_status(...) return slurm.SUCCESS, "" end
"""
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


@dataclass(frozen=True)
class Wish:
    """A job to submit: seconds after the begin, its size, and its time limit in minutes."""

    at: float
    nodes: int
    gigabytes: int
    seconds: float
    minutes: int


@dataclass(frozen=True)
class Outcome:
    waits: dict[str, float]
    calls: int
    call_seconds: float
    scheduling_seconds: float


def draw_wishes(count: int, seed: int, stretch: float = 1.0) -> list[Wish]:
    """Jobs that come faster than they can run; space is as scarce as nodes. Time limits are one to three times long."""
    rng = random.Random(seed)
    wishes, at = [], 0.0
    for _ in range(count):
        at += rng.expovariate(2.0)
        seconds = min(12.0, max(0.5, rng.lognormvariate(0.7, 0.8)))
        gigabytes = rng.choice((0, 5, 10, 15, 20, 30, 40, 60, 80))
        minutes = max(1, round(seconds * rng.uniform(1, 3)))
        nodes = rng.choice((1, 1, 1, 2, 2, 3))
        wishes.append(Wish(stretch * at, nodes, gigabytes, round(stretch * seconds, 1), minutes))
    return wishes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--policy", default="sjf-bb")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stretch", type=float, default=1.0)
    parser.add_argument("--strict", action="store_true", help="also keep back jobs without burst buffer")
    options = parser.parse_args()
    with ExitStack() as stack:
        try:
            alone, steered = (start_slurm(stack) for _ in range(2))
        except BaseException as skipped:
            if type(skipped).__name__ != "Skipped":
                raise
            print(f"steering of Slurm: not measured: {skipped}")
            return
        config = write_config(steered, options.policy, options.most, strict=options.strict)
        with running_planner(steered, config):
            wishes = draw_wishes(options.jobs, options.seed, options.stretch)
            first, second = run_both(alone, steered, wishes, LONGEST * options.stretch)
        report(first, second, steered.folder / "schedule" / "record.jsonl")
        if options.kills:
            report_kills(steered, config, draw_wishes(options.jobs // 3, options.seed + 1), options.kills)


def start_slurm(stack: ExitStack) -> Any:
    batch = import_module("support.slurm")
    files = {"burst_buffer.lua": _HOOKS % SPACE, "burst_buffer.conf": "Directive=BB_LUA\n"}
    return stack.enter_context(batch.own_slurm("BurstBufferType=burst_buffer/lua", nodes=NODES, files=files))


def write_config(slurm: Any, policy: str, most: int, *, strict: bool) -> Path:
    path: Path = slurm.folder / "schedule.toml"
    path.write_text(
        f'[schedule]\nmode = "steer"\npolicy = "{policy}"\ninterval = "1 s"\nfolder = "schedule"\n'
        f'[steering]\nahead = "5 s"\nlease = "{LEASE} s"\nmost = {most}\n'
        f'strict = {str(strict).lower()}\n[slurm]\nconf = "{slurm.conf}"\n'
    )
    return path


@contextmanager
def running_planner(slurm: Any, config: Path) -> Iterator[subprocess.Popen[str]]:
    argv = (sys.executable, "-m", "forebay", "schedule", "--config", str(config))
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=slurm.environment)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def run_both(alone: Any, steered: Any, wishes: Sequence[Wish], longest: float) -> tuple[Outcome, Outcome]:
    for slurm in (alone, steered):
        slurm.run("sdiag", "--reset")
    begin = time.monotonic()
    for wish in wishes:
        time.sleep(max(0.0, begin + wish.at - time.monotonic()))
        for slurm in (alone, steered):
            submit(slurm, wish)
    deadline = begin + longest
    for slurm in (alone, steered):
        wait_for_end(slurm, deadline)
    return measure(alone), measure(steered)


def submit(slurm: Any, wish: Wish) -> None:
    directives = (f"#BB_LUA pool=nvme capacity={wish.gigabytes}GB",) if wish.gigabytes else ()
    words = (f"--nodes={wish.nodes}", "--exclusive", f"--time={wish.minutes}")
    slurm.submit(f"sleep {wish.seconds}", *directives, options=words)


def wait_for_end(slurm: Any, deadline: float) -> None:
    while slurm.run("squeue", "--noheader"):
        if time.monotonic() > deadline:
            raise SystemExit(f"jobs still wait after {LONGEST:g} s: {slurm.run('squeue')}")
        time.sleep(1)


def measure(slurm: Any) -> Outcome:
    jobs = slurm.completed()
    diagnosis = slurm.run("sdiag")
    by_type = diagnosis.partition("statistics by user")[0]
    calls = re.findall(r"\( ?\d+\) count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", by_type)
    cycles = re.findall(r"Mean cycle:\s+(\d+)", diagnosis), re.findall(r"Total cycles:\s+(\d+)", diagnosis)
    scheduling = sum(int(mean) * int(count) for mean, count in zip(*cycles, strict=True)) / 1e6
    waits = {job: _seconds(row["StartTime"]) - _seconds(row["SubmitTime"]) for job, row in jobs.items()}
    return Outcome(waits, sum(int(n) for n, _ in calls), sum(int(total) for _, total in calls) / 1e6, scheduling)


def _seconds(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def report(alone: Outcome, steered: Outcome, record: Path) -> None:
    means = [statistics.mean(outcome.waits.values()) for outcome in (alone, steered)]
    longest = [max(outcome.waits.values()) for outcome in (alone, steered)]
    ratio = means[1] / means[0]
    print(f"{len(alone.waits)} and {len(steered.waits)} jobs: mean wait {means[0]:.1f} s alone, {means[1]:.1f} steered")
    print(f"longest wait {longest[0]:.0f} s alone, {longest[1]:.0f} s steered")
    print(f"mean wait x{ratio:.2f}; goal: at most x{GOAL}: {verdict(ratio <= GOAL)}")
    agreeing, known, small = count_planned(record)
    share = f"{100 * agreeing / max(known, 1):.0f} %"
    print(f"order: {agreeing} of {known} jobs started as planned ({share}); {small} of the others have no burst buffer")
    for name, outcome in (("alone", alone), ("steered", steered)):
        scheduling = f"{outcome.scheduling_seconds:.2f} s of scheduling"
        print(f"slurmctld {name}: {outcome.calls} calls in {outcome.call_seconds:.2f} s, {scheduling}")


def count_planned(record: Path) -> tuple[int, int, int]:
    """Return how many jobs started when the plan had them first, how many had been planned, and how many of the others
    have no burst buffer."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    needs = {line["job"]: line["bytes"] for line in lines if line["event"] == "waits"}
    known = {line["job"]: line["as_planned"] for line in lines if line["event"] == "starts"}
    known = {job: as_planned for job, as_planned in known.items() if as_planned is not None}
    return sum(known.values()), len(known), sum(not known[job] and not needs[job] for job in known)


def report_kills(slurm: Any, config: Path, wishes: Sequence[Wish], kills: int) -> None:
    """Kill the planner at random moments while jobs wait; in the end nobody plans, and all jobs must run."""
    rng = random.Random(7)
    for wish in wishes:
        submit(slurm, wish)
    held = 0
    for _ in range(kills):
        with running_planner(slurm, config) as planner:
            time.sleep(rng.uniform(0.5, 4))
            planner.kill()
            planner.wait(60)
        rows = [row.split("|") for row in slurm.run("squeue", "-h", "-o", "%i|%Q|%r").splitlines()]
        held += sum(priority == "0" or "Held" in reason for _, priority, reason in rows)
    begin = time.monotonic()
    time.sleep(LEASE + 2)
    kept = slurm.run("squeue", "-h", "-o", "%r").split().count("BeginTime")
    wait_for_end(slurm, begin + LONGEST)
    print(f"{kills} kills: {held} jobs held, {kept} kept back {LEASE + 2} s later, all {len(wishes)} jobs ran")


if __name__ == "__main__":
    main()
