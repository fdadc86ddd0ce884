"""How long the paper's whole io-nodes study takes on this machine, all cores.

    .venv/bin/python benchmarks/study_time.py [--curves FILE]

Goals: 6 allocators, 3 placements, 100 sets for each of 10 loads, 60 applications in under 3 minutes; with `forebay`
in under 12. The whole command, figures and report included; the ratio is goal over measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import verdict

PAPER = "random,static,best-bandwidth,nsys,tcpu,mckp"
GOALS = {PAPER: 180.0, f"{PAPER},forebay": 720.0}


def main() -> int:
    parser = argparse.ArgumentParser(description="How long the io-nodes study takes.")
    parser.add_argument("--curves", type=Path, help="measured curves (CSV); synthetic ones if left out")
    curves = parser.parse_args().curves
    forebay = Path(sys.executable).with_name("forebay")
    for policies, goal in GOALS.items():
        with tempfile.TemporaryDirectory() as out:
            command = [
                str(forebay),
                "study",
                "io-nodes",
                "--loads",
                "0.2:1.1:0.1",
                "--allocate",
                policies,
                "--out",
                out,
            ]
            command += ["--curves", str(curves)] if curves else []
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            taken = time.perf_counter() - begin
        print(f"{policies}: {taken:.0f} s, goal {goal:.0f} s, ratio {goal / taken:.1f}, {verdict(taken < goal)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
