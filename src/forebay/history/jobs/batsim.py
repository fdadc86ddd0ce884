"""Reads Batsim's JSON workloads, with the burst buffer of Kopanski and Rzadca (2021) as `bb` in profiles."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from forebay.history.jobs.job_list import JobList, Row
from forebay.history.text_files import open_bytes
from forebay.history.traces.columns import quote
from forebay.model.errors import BadInput, nearest_name
from forebay.model.jobs import Jobs

Table = Mapping[str, object]
_DELAY = frozenset({"delay", "DelayProfile"})
_EACH_NODE = frozenset({"parallel", "ptask", "ParallelTaskProfile"})
_EQUAL = frozenset(
    {"parallel_homogeneous", "parallel_homogeneous_total", "ptask_homogeneous", "ParallelTaskHomogeneousProfile"}
)
_SEQUENCE = frozenset({"composed", "SequentialCompositionProfile"})
"""The profiles that state how long a job runs, by the names of Batsim 2 to 5. Others depend on Batsim's platform."""


def read(path: Path, *, flops: float) -> Jobs:
    """Read jobs whose profile states a time or a number of operations; communication counts as free.

    `bb` is the bytes of each node; without it a job needs no burst buffer.
    """
    with open_bytes(path) as file:
        try:
            document = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise BadInput(str(path), f"is not valid JSON: {reason}") from None
    if not (isinstance(document.get("jobs"), list) and isinstance(document.get("profiles"), dict)):
        raise BadInput(str(path), "is not a Batsim workload; it needs the list 'jobs' and the table 'profiles'")
    jobs = JobList(str(path))
    for number, job in enumerate(document["jobs"]):
        try:
            row = _parse(job, document["profiles"], flops)
        except (ValueError, RecursionError) as error:
            reason = "its profile is nested too deeply" if isinstance(error, RecursionError) else error
            jobs.reject(0, f"jobs[{number}]: {reason}")
        else:
            jobs.add(0, row)
    return jobs.make_jobs()


def _parse(job: object, profiles: Table, flops: float) -> Row:
    if not isinstance(job, dict):
        raise ValueError("must be a table of keys and values")
    name = str(job.get("profile", ""))
    profile = _find_profile(profiles, name)
    nodes = _number(job, "res")
    if not nodes.is_integer():
        raise ValueError(f"res must be a whole number, not {nodes:.15g}")
    return Row(
        id=str(job.get("id", "")),
        submit=_number(job, "subtime"),
        nodes=int(nodes),
        walltime=_number(job, "walltime"),
        runtime=_runtime(profiles, name, int(nodes), flops, {}),
        bytes=int(_number(profile, "bb")) * int(nodes) if "bb" in profile else 0,
        names={"user": str(job["user"])} if "user" in job else {},
    )


def _find_profile(profiles: Table, name: str) -> Table:
    if name not in profiles:
        near = nearest_name(name, profiles)
        raise ValueError(f"has no profile {quote(name)}" + (f"; did you mean {near!r}?" if near else ""))
    profile = profiles[name]
    if not isinstance(profile, dict):
        raise ValueError(f"profile {quote(name)} must be a table of keys and values")
    return profile


def _runtime(profiles: Table, name: str, nodes: int, flops: float, known: dict[str, float]) -> float:
    """Return how long a job with this profile runs, in seconds. `known` are the times of profiles, nan until known."""
    if name not in known:
        known[name] = math.nan
        profile = _find_profile(profiles, name)
        try:
            known[name] = _measure(profiles, profile, nodes, flops, known)
        except ValueError as error:
            raise ValueError(f"profile {quote(name)}: {error}") from None
    if math.isnan(known[name]):
        raise ValueError("is a sequence that contains itself")
    return known[name]


def _measure(profiles: Table, profile: Table, nodes: int, flops: float, known: dict[str, float]) -> float:
    kind = str(profile.get("type"))
    if kind in _DELAY:
        return _number(profile, "delay")
    if kind in _EACH_NODE:
        return max((_number({"cpu": value}, "cpu") for value in _list(profile, "cpu")), default=0.0) / flops
    if kind in _EQUAL:
        is_total = kind.endswith("_total") or profile.get("generation_strategy") == "DefinedAmountsSpreadUniformly"
        return _number(profile, "cpu") / flops / (max(nodes, 1) if is_total else 1)
    if kind in _SEQUENCE:
        once = sum(_runtime(profiles, str(part), nodes, flops, known) for part in _list(profile, "seq"))
        return once * (_number(profile, "repeat") if "repeat" in profile else 1.0)
    names = "delay, parallel, parallel_homogeneous, parallel_homogeneous_total or composed"
    raise ValueError(f"type {quote(kind)} has no run time of its own; use {names}")


def _list(table: Table, name: str) -> list[object]:
    values = table.get(name, [])
    if not isinstance(values, list):
        raise ValueError(f"{name} must be a list, not {quote(str(values)[:100])}")
    return values


def _number(table: Table, name: str) -> float:
    value = table.get(name)
    if value is None:
        raise ValueError(f"{name} is missing")
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a number, not {quote(str(value)[:100])}")
    return number
