"""How long it takes to read a year of requests: the first time, and the second.

    .venv/bin/python benchmarks/trace_reading.py [--trace FILE]

Goals: 24,001 jobs of StorAlloc's YAML cost no more than libyaml itself the first time, the peer being PyYAML's
CSafeLoader in the same process, and under 0.2 s the second time.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import yaml
from bench import SEED, verdict

from forebay.history.traces import read_requests
from forebay.profile.synthetic_theta_2020 import theta_2020


def main() -> int:
    parser = argparse.ArgumentParser(description="How long it takes to read a year of requests.")
    parser.add_argument("--trace", type=Path, help="an IOJobs.yml.gz; a drawn one if left out")
    trace = parser.parse_args().trace
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        trace = trace or _drawn(Path(folder) / "IOJobs.yml.gz")
        begin = time.perf_counter()
        first = read_requests([trace])
        at_first = time.perf_counter() - begin
        begin = time.perf_counter()
        read_requests([trace])
        again = time.perf_counter() - begin
        begin = time.perf_counter()
        with gzip.open(trace) as file:
            yaml.load(file, yaml.CSafeLoader)
        peer = time.perf_counter() - begin
    print(
        f"first: {first.origin}, {at_first:.2f} s; CSafeLoader {peer:.2f} s, ratio {peer / at_first:.1f}, goal 1",
        end=", ",
    )
    print(verdict(at_first <= peer))
    print(f"again: {again:.3f} s, goal 0.2, {verdict(again < 0.2)}")
    return 0


def _drawn(path: Path) -> Path:
    requests = theta_2020(np.random.default_rng(SEED))
    jobs = [
        {
            "id": int(i),
            "submissionTime": _time(submitted),
            "startTime": _time(start),
            "endTime": _time(start + duration),
            "readBytes": int(size) // 2,
            "writtenBytes": int(size),
            "runTime": int(duration),
        }
        for i, submitted, start, duration, size in zip(
            requests.ids, requests.submitted, requests.start, requests.duration, requests.bytes, strict=True
        )
    ]
    with gzip.open(path, "wt") as file:
        yaml.dump({"jobs": jobs}, file, yaml.CSafeDumper)
    return path


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S")


if __name__ == "__main__":
    sys.exit(main())
