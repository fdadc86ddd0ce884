"""Reads the record of `forebay schedule`: jobs of a real Slurm, when they started, and what the planner decided."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.text_files import open_text
from forebay.model.errors import BadInput
from forebay.model.jobs import JOB, BadRow, Jobs

_EVENTS = ("machine", "waits", "runs", "plans", "starts", "ends")
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
    facts: dict[str, dict[str, Any]] = {}
    for line in _read_lines(path, rejected):
        if line["event"] == "machine":
            machine = line
            nodes, space = max(nodes, int(line["nodes"])), max(space, int(line["space"]))
            continue
        known = facts.setdefault(str(line["job"]), {})
        match line["event"]:
            case "waits" | "runs":
                known.update(line)
            case "plans" if line["start"] <= line["at"]:
                known.setdefault("due", line["start"])
            case "starts":
                known.update(started=float(line["start"]), as_planned=line["as_planned"])
            case "ends":
                known["end"] = float(line["end"])
    if not machine:
        raise BadInput(str(path), "is not a record of `forebay schedule`; name the record.jsonl of its folder")
    ended = sorted((row for row in map(_complete, facts.values()) if row), key=lambda row: row["submit"])
    judged = [row["as_planned"] for row in ended if row.get("as_planned") is not None]
    return PlannerRecord(
        jobs=_make_jobs(ended, path, rejected),
        starts=np.array([row["started"] for row in ended]),
        due=np.array([row.get("due", math.nan) for row in ended]),
        was_running=np.array([row["event"] == "runs" for row in ended], np.bool_),
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
                if line["event"] not in _EVENTS:
                    raise ValueError(f"unknown event {line['event']!r}")
                if line["event"] != "machine":
                    line["job"]
                yield line
            except (ValueError, KeyError, TypeError) as error:
                rejected.append(BadRow(str(path), number, f"is not a line of the record: {error}"))


def _complete(known: Row) -> dict[str, Any] | None:
    """Return what is known of a job that has ended; None if something is missing, such as a job that still runs."""
    if not {"submit", "nodes", "walltime", "bytes", "end"} <= known.keys():
        return None
    row = dict(known)
    if row["event"] == "runs":
        row["started"] = row["submit"] = row["start"]
    return row if "started" in row and row["end"] >= row["started"] >= 0 else None


def _make_jobs(rows: list[dict[str, Any]], path: Path, rejected: list[BadRow]) -> Jobs:
    table = np.zeros(len(rows), JOB)
    users = list(dict.fromkeys(str(row["user"]) for row in rows))
    for record, row in zip(table, rows, strict=True):
        runtime = row["end"] - row["started"]
        record["submit"], record["nodes"], record["runtime"] = row["submit"], row["nodes"], max(runtime, 1.0)
        record["walltime"], record["bytes"] = max(row["walltime"], runtime, 1.0), row["bytes"]
        record["user"] = users.index(str(row["user"]))
    for column in ("project", "tier", "application"):
        table[column] = -1
    return Jobs(
        rows=table, ids=[row["job"] for row in rows], users=tuple(users), rejected=tuple(rejected), name=path.name,
        file=str(path),
    )  # fmt: skip
