"""Reads the record of `forebay schedule`: jobs of a real Slurm, when they started, and what the planner decided."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.jobs.job_list import LONGEST, require
from forebay.history.text_files import open_text
from forebay.model.errors import BadInput
from forebay.model.jobs import JOB, BadRow, Jobs
from forebay.model.system import MOST_BYTES

_OF_JOB = ("submit", "nodes", "walltime", "bytes")
_NUMBERS = {
    "machine": ("at", "nodes", "space"), "waits": _OF_JOB, "runs": (*_OF_JOB, "start"), "plans": ("at", "start"),
    "starts": ("start",), "ends": ("end",),
}  # fmt: skip
"""What each kind of line must have."""
_TEXTS = {"machine": ("unit", "mode", "policy")}
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerRecord:
    """Jobs that have ended, when each really started, and when the planner first wanted to start it (nan: never).

    `was_running` marks jobs that ran when the record began. `as_planned` counts the starts in the plan's order, of all
    `planned` starts.
    """

    jobs: Jobs
    starts: NDArray[np.float64]
    due: NDArray[np.float64]
    was_running: NDArray[np.bool_]
    nodes: int
    space: int
    unit: str
    mode: str
    policy: str
    as_planned: int
    planned: int


def is_record(path: Path) -> bool:
    """Whether the file begins as the planner's record does."""
    try:
        with open_text(path) as file:
            return '"event": "machine"' in file.readline(4096)
    except BadInput:
        return False


def read_record(path: Path) -> PlannerRecord:
    """Read a record. Lines that are not valid are listed in `jobs.rejected`; the last one may be incomplete."""
    rejected: list[BadRow] = []
    machine: Row = {}
    nodes = space = 0
    begin = math.inf
    facts: dict[str, dict[str, Any]] = {}
    for line in _read_lines(path, rejected):
        if line["event"] == "machine":
            machine, begin = line, min(begin, line["at"])
            nodes, space = max(nodes, int(line["nodes"])), max(space, int(line["space"]))
            continue
        known = facts.setdefault(str(line["job"]), {})
        match line["event"]:
            case "waits":
                known.update(line)
            case "runs":  # a planner that starts again knows nothing of what it saw before
                known.update({**line, **known})
                known.setdefault("started", line["start"])
            case "plans" if line["start"] <= line["at"]:
                known.setdefault("due", line["start"])
            case "starts":
                known.update(started=float(line["start"]), as_planned=line.get("as_planned"))
            case "ends":
                known["end"] = float(line["end"])
    if not machine:
        raise BadInput(str(path), "is not a record of `forebay schedule`; name the record.jsonl of its folder")
    complete = filter(None, (_complete(known, begin) for known in facts.values()))
    ended = sorted(complete, key=lambda row: row["submit"])
    judged = [row["as_planned"] for row in ended if row.get("as_planned") is not None]
    return PlannerRecord(
        jobs=_make_jobs(ended, path, rejected),
        starts=np.array([row["started"] for row in ended]),
        due=np.array([row.get("due", math.nan) for row in ended]),
        was_running=np.array([row["started"] < begin for row in ended], np.bool_),
        nodes=nodes,
        space=space,
        unit=str(machine["unit"]),
        mode=str(machine["mode"]),
        policy=str(machine["policy"]),
        as_planned=sum(judged),
        planned=len(judged),
    )


def _read_lines(path: Path, rejected: list[BadRow]) -> Iterator[Row]:
    with open_text(path) as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
                _check_line(line)
            except ValueError as error:
                rejected.append(BadRow(str(path), number, f"is not a line of the record: {error}"))
            else:
                yield line


def _check_line(line: object) -> None:
    """Raise ValueError with the reason if the line is not one of the record."""
    if not isinstance(line, dict):
        raise ValueError("must be a table of keys and values")
    event = line.get("event")
    if not isinstance(event, str) or event not in _NUMBERS:
        raise ValueError(f"unknown event {event!r}")
    for name in _NUMBERS[event]:
        value = line.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number, not {value!r}")
        require(name, value, 0, LONGEST if name in ("at", "submit", "walltime", "start", "end") else MOST_BYTES)
    for name in _TEXTS.get(event, ("job",)):
        if not isinstance(line.get(name), str):
            raise ValueError(f"{name} must be a text, not {line.get(name)!r}")


def _complete(known: Row, begin: float) -> dict[str, Any] | None:
    """Return what is known of a job that has ended; None if something is missing, such as a job that still runs.

    Jobs that started before the record's begin count from their start on.
    """
    if not {"submit", "nodes", "walltime", "bytes", "started", "end"} <= known.keys():
        return None
    row = dict(known)
    if row["started"] < begin:
        row["submit"] = row["started"]
    return row if row["end"] >= row["started"] >= 0 else None


def _make_jobs(rows: list[dict[str, Any]], path: Path, rejected: list[BadRow]) -> Jobs:
    table = np.zeros(len(rows), JOB)
    users = list(dict.fromkeys(str(row.get("user", "")) for row in rows))
    for record, row in zip(table, rows, strict=True):
        runtime = row["end"] - row["started"]
        record["submit"], record["nodes"], record["runtime"] = row["submit"], row["nodes"], max(runtime, 1.0)
        record["walltime"], record["bytes"] = max(row["walltime"], runtime, 1.0), row["bytes"]
        record["user"] = users.index(str(row.get("user", "")))
    for column in ("project", "tier", "application"):
        table[column] = -1
    return Jobs(
        rows=table, ids=[row["job"] for row in rows], users=tuple(users), rejected=tuple(rejected), name=path.name,
        file=str(path),
    )  # fmt: skip
