"""Reads Batsim's JSON workloads, with the burst buffer of Kopanski and Rzadca (2021) as `bb` in profiles."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from forebay.history.jobs.builder import JobList, Row
from forebay.history.text_files import open_bytes
from forebay.history.traces.columns import quote
from forebay.model.errors import BadInput, nearest_name
from forebay.model.jobs import Jobs

Table = Mapping[str, object]
_TIMED = {"delay": "delay", "parallel_homogeneous": "cpu", "parallel_homogeneous_total": "cpu"}
"""The profiles that state how long a job runs, and the field that does. Others depend on Batsim's platform."""


def read(path: Path, *, flops: float) -> Jobs:
    """Read jobs whose profile is a delay or a number of operations per node; communication counts as free.

    `bb` is the bytes of each node; without it a job needs no burst buffer.
    """
    with open_bytes(path) as file:
        try:
            document = json.loads(file.read())
        except ValueError as error:
            raise BadInput(str(path), f"is not valid JSON: {error}") from None
    if not (isinstance(document.get("jobs"), list) and isinstance(document.get("profiles"), dict)):
        raise BadInput(str(path), "is not a Batsim workload; it needs the list 'jobs' and the table 'profiles'")
    jobs = JobList(str(path))
    for number, job in enumerate(document["jobs"]):
        try:
            row = _parse(job, document["profiles"], flops)
        except ValueError as error:
            jobs.reject(0, f"jobs[{number}]: {error}")
        else:
            jobs.add(0, row)
    return jobs.make_jobs()


def _parse(job: object, profiles: Table, flops: float) -> Row:
    if not isinstance(job, dict):
        raise ValueError("must be a table of keys and values")
    name = str(job.get("profile", ""))
    if name not in profiles:
        near = nearest_name(name, profiles)
        raise ValueError(f"has no profile {quote(name)}" + (f"; did you mean {near!r}?" if near else ""))
    profile = profiles[name]
    if not isinstance(profile, dict):
        raise ValueError(f"profile {quote(name)} must be a table of keys and values")
    nodes = int(_number(job, "res"))
    return Row(
        id=str(job.get("id", "")),
        submit=_number(job, "subtime"),
        nodes=nodes,
        walltime=_number(job, "walltime"),
        runtime=_runtime(name, profile, nodes, flops),
        bytes=int(_number(profile, "bb")) * nodes if "bb" in profile else 0,
        names={"user": str(job["user"])} if "user" in job else {},
    )


def _runtime(name: str, profile: Table, nodes: int, flops: float) -> float:
    kind = str(profile.get("type"))
    if kind not in _TIMED:
        raise ValueError(f"profile {quote(name)} of type {quote(kind)} has no run time; use {', '.join(_TIMED)}")
    amount = _number(profile, _TIMED[kind])
    per_node = amount / max(nodes, 1) if kind.endswith("_total") else amount
    return per_node if kind == "delay" else per_node / flops


def _number(table: Table, name: str) -> float:
    value = table.get(name)
    if value is None:
        raise ValueError(f"{name} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number, not {quote(str(value))}")
    return float(value)
