"""How soon `forebay --help` answers, and whether a second start compiles anything.

    .venv/bin/python benchmarks/startup.py

Goal: under 0.4 s. The peer is a Python that imports typer and does nothing: what is above that is
Forebay's own. Medians of 9, in turns, each in a new process. Then the same simulation twice with an empty cache of
compiled kernels: the second start must leave the cache as the first one left it. Exits 1 if that or a command fails.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import verdict

GOAL = 0.4
REPEATS = 9


def main() -> int:
    forebay = Path(sys.executable).with_name("forebay")
    if not forebay.exists():
        print(f"startup: no {forebay}; install the project into this environment first", file=sys.stderr)
        return 2
    commands = {
        "forebay --help": [str(forebay), "--help"],
        "import typer": [sys.executable, "-c", "import typer"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPEATS):
        for name, command in commands.items():
            begin = time.perf_counter()
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            times[name].append(time.perf_counter() - begin)
            if ran.returncode != 0:
                print(f"startup: {name} failed: {ran.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                return 1
    own, peer = (statistics.median(found) for found in times.values())
    for name, found in times.items():
        print(f"{name:20} {statistics.median(found):.3f} s")
    print(f"ratio {own / peer:.2f}; goal under {GOAL} s {verdict(own < GOAL)}")
    return 0 if second_start_compiles_nothing(forebay) else 1


def second_start_compiles_nothing(forebay: Path) -> bool:
    example = Path(__file__).parents[1] / "examples/machine.toml"
    with tempfile.TemporaryDirectory() as cache:
        kept, times = [], []
        for _ in range(2):
            begin = time.perf_counter()
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            command = [str(forebay), "simulate", str(example), "--allocate", "all", "--json"]
            subprocess.run(command, env=environment, check=True, capture_output=True)
            times.append(time.perf_counter() - begin)
            kept.append({path: path.stat().st_mtime_ns for path in Path(cache).rglob("*") if path.is_file()})
    same = kept[0] == kept[1] and len(kept[0]) > 0
    print(f"{len(kept[0])} cache files; first start {times[0]:.1f} s, second {times[1]:.1f} s, ", end="")
    print("which compiled nothing" if same else "which COMPILED again")
    return same


if __name__ == "__main__":
    sys.exit(main())
