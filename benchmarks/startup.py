"""How soon `forebay --help` answers.

    .venv/bin/python benchmarks/startup.py

Goal: under 0.4 s. The peer is a Python that imports typer and rich and does nothing: what is above that is
Forebay's own. Medians of 9, in turns, each in a new process. Exits 1 if the command fails.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

GOAL = 0.4
REPEATS = 9


def main() -> int:
    forebay = Path(sys.executable).with_name("forebay")
    if not forebay.exists():
        print(f"startup: no {forebay}; install the project into this environment first", file=sys.stderr)
        return 2
    commands = {
        "forebay --help": [str(forebay), "--help"],
        "import typer, rich": [sys.executable, "-c", "import typer, rich"],
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
    print(f"ratio {own / peer:.2f}; goal under {GOAL} s {'reached' if own < GOAL else 'NOT reached'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
