"""What a burst-buffer directive adds to sbatch, in a real Slurm with a real service: one with it, one without, in turn.

    python benchmarks/slurm_speed.py [--repeats 40]

Needs root and Slurm; says so where it can't run. Goal: sbatch with the directive no more than 30 ms slower.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from bench import verdict

GOAL = 0.030
"""Seconds."""
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    with ExitStack() as stack:
        try:
            slurm = started(stack)
        except BaseException as skipped:
            if type(skipped).__name__ != "Skipped":
                raise
            print(f"sbatch with a burst buffer: not measured: {skipped}")
            return
        told(*measured(slurm, repeats))


def started(stack: ExitStack) -> Any:
    """A cluster whose jobs stay in the queue, so that none of them runs while others are submitted."""
    service, batch = import_module("support.control_processes"), import_module("support.slurm")
    batch.skip_without_slurm()
    batch.make_user()
    control = stack.enter_context(service.control_system())
    control.add_agent("n1", "directory")
    control.start()
    slurm = stack.enter_context(
        batch.own_slurm("BurstBufferType=burst_buffer/lua", "JobSubmitPlugins=lua", start=False)
    )
    argv = (sys.executable, "-m", "forebay", "slurm", "install", str(slurm.etc), "--service", control.address)
    subprocess.run(argv, check=True, capture_output=True)
    slurm.start()
    return slurm


def measured(slurm: Any, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of each sbatch: without, and with the directive."""
    scripts = [slurm.script("true"), slurm.script("true", "#BB_LUA capacity=1MB")]
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 2):
        for which in (0, 1) if repeat % 2 else (1, 0):
            begin = time.perf_counter()
            slurm.run("sbatch", "--hold", "--output", f"{tempfile.gettempdir()}/%j.out", str(scripts[which]), user=True)
            if repeat >= 2:  # the first ones find nothing in any cache
                times[which].append(time.perf_counter() - begin)
    return times


def told(without: list[float], with_one: list[float]) -> None:
    slower = [b - a for a, b in zip(without, with_one, strict=True)]
    median = statistics.median(slower)
    plain, burst = statistics.median(without), statistics.median(with_one)
    print(f"sbatch: {1e3 * plain:.1f} ms without, {1e3 * burst:.1f} ms with a burst buffer: x{burst / plain:.2f}")
    print(f"median of {len(slower)} differences: {1e3 * median:+.1f} ms")
    print(f"goal: at most {1e3 * GOAL:.0f} ms: {verdict(median <= GOAL)}")


if __name__ == "__main__":
    main()
