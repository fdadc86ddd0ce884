"""Reads measured I/O times from the YAML files of the Fives simulator: jobs of Theta, with Darshan's seconds."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from forebay.history.run_fields import LARGEST, LATEST, MEASURED, MOST_PROCESSES, Measured
from forebay.history.text_files import open_bytes
from forebay.history.traces.columns import parse_time, quote
from forebay.history.yaml_events import load_yaml
from forebay.model.errors import BadInput

_LONGEST = 1e12  # seconds of all processes


def read(path: Path) -> Measured:
    """The jobs of a file, in its order. Requests are unknown."""
    with open_bytes(path) as file:
        document = load_yaml(path, file.read())
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise BadInput(str(path), "must be a table with the list 'jobs'")
    measured = np.zeros(len(jobs), dtype=MEASURED)
    for number, job in enumerate(jobs):
        try:
            _fill(measured[number], job)
        except ValueError as error:
            raise BadInput(f"{path}: jobs[{number}]", str(error)) from None
    return measured


def _fill(row: Any, job: object) -> None:
    if not isinstance(job, dict):
        raise ValueError("must be a table of keys and values")
    row["start"] = parse_time(str(job.get("startTime")))
    row["processes"] = _count_processes(job)
    row["bytes"] = [int(_number(job, key, LARGEST)) for key in ("readBytes", "writtenBytes")]
    row["seconds"] = [_number(job, key, _LONGEST) for key in ("readTimeSeconds", "writeTimeSeconds")]
    row["meta_seconds"] = _number(job, "metaTimeSeconds", _LONGEST)
    if not 0 <= row["start"] <= LATEST:
        raise ValueError(f"startTime must be after 1970, not {quote(str(job['startTime']))}")


def _count_processes(job: dict[Any, Any]) -> int:
    """The processes of all runs of a job: each process of each run reads and writes."""
    runs = job.get("runs")
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise ValueError("needs the list 'runs'")
    count = sum(int(_number(run, "nprocs", MOST_PROCESSES)) for run in runs)
    if count < 1:
        raise ValueError("nprocs must be at least 1")
    return count


def _number(table: dict[Any, Any], key: str, most: float) -> float:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} must be a number, not {quote(str(value))}")
    if not 0 <= value <= most:
        raise ValueError(f"{key} must be from 0 to {most:g}, not {value:g}")
    return value
