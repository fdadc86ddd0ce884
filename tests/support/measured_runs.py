"""Runs with I/O times that a known file system would give them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from forebay.history.run_fields import MEASURED, Measured
from forebay.profile.calibration.filesystem_costs import Parameters
from forebay.profile.calibration.prediction import predict_seconds


def draw_runs(
    count: int, parameters: Parameters, *, noise: float = 0.2, requests: bool = True, seed: int = 1
) -> Measured:
    """Runs of 1 to 4,096 processes that read and write 1 MB to 1 TB in requests of 4 KiB to 16 MiB."""
    rng = np.random.default_rng(seed)
    runs = np.zeros(count, dtype=MEASURED)
    runs["start"] = 1.6e9 + 3600 * np.arange(count)
    runs["processes"] = 2 ** rng.integers(0, 13, count)
    runs["bytes"] = 10 ** rng.uniform(6, 12, (count, 2))
    if requests:
        runs["requests"] = np.maximum(runs["bytes"] // 2.0 ** rng.integers(12, 25, (count, 2)), 1)
        runs["contiguous"] = runs["requests"] * rng.choice([0.0, 0.5, 1.0], (count, 2))
        runs["shared"] = rng.random((count, 2)) < 0.5
    runs["opens"] = runs["processes"]
    runs["meta_seconds"] = runs["opens"] * parameters.fs.name * np.exp(noise * rng.standard_normal(count))
    for side in (0, 1):
        runs["seconds"][:, side] = predict_seconds(runs, side, parameters)
    runs["seconds"] *= np.exp(noise * rng.standard_normal((count, 2)))
    return runs


def write_fives(path: Path, runs: Measured) -> Path:
    """The runs as a file of the Fives simulator (JSON is YAML)."""
    jobs = [
        {
            "id": number,
            "startTime": f"{datetime.fromtimestamp(float(run['start']), UTC):%Y-%m-%d %H:%M:%S}",
            "metaTimeSeconds": float(run["meta_seconds"]),
            "runs": [{"nprocs": int(run["processes"])}],
            **dict(zip(("readBytes", "writtenBytes"), run["bytes"].tolist(), strict=True)),
            **dict(zip(("readTimeSeconds", "writeTimeSeconds"), run["seconds"].tolist(), strict=True)),
        }
        for number, run in enumerate(runs)
    ]
    path.write_text(json.dumps({"jobs": jobs}))
    return path
