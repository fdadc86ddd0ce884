"""What the planner leaves on disk: the plan as it is now, and a record of what happened and what it decided.

The record is for `forebay replay`: one JSON document a line, the kind of line under `event`.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from forebay.act.files import write_file
from forebay.act.slurm.output import OVER
from forebay.act.slurm.planner.plan import Plan, PlannedJob, RunningJob
from forebay.act.slurm.planner.steering import Book

Line = Mapping[str, object]
_MOST_OTHERS = 1000  # jobs that are not planned, in the plan's file
MOST_BYTES = 256 << 20
"""The size at which a new file begins; the one before is kept."""
States = Mapping[str, tuple[str, float, float]]
"""Slurm's state, start and end of each job, by number."""


class Record:
    """Appends to the record, and remembers what it has: `known` jobs by number, with what was written of them last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, tuple[str, float]] = {}
        self._machine: Line = {}
        self._order: list[tuple[str, bool]] = []  # the jobs of the last plan in its order, and whether they were due

    def write(self, plan: Plan, states: States, settings: Line) -> None:
        """Append what is new: jobs that wait, their first plan, starts and ends; `settings` are the planner's."""
        if self._path.exists() and self._path.stat().st_size > MOST_BYTES:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._known, self._machine = {}, {}  # each file can be read without the one before
        lines = [
            *self._about_machine(plan, settings),
            *self._about_running(plan),
            *self._about_waiting(plan),
            *self._about_ends(plan, states),
        ]
        if lines:
            _append(self._path, lines)
        self._order = [(planned.job.number, planned.start <= plan.at) for planned in plan.planned]

    def _about_machine(self, plan: Plan, settings: Line) -> Iterable[Line]:
        machine = plan.machine
        about = {**settings, "unit": machine.unit, "nodes": machine.nodes, "pool": machine.pool, "space": machine.space}
        if about != self._machine:
            self._machine = about
            yield {"event": "machine", "at": plan.at, **about}

    def _about_running(self, plan: Plan) -> Iterable[Line]:
        """Jobs that started before the planner saw them wait; short ones may have ended, too."""
        for holder in (*plan.running, *plan.ended):
            if holder.job.number not in self._known and holder.amount:
                yield {"event": "runs", "at": plan.at, "start": holder.start, **_describe(holder)}
                self._known[holder.job.number] = ("runs", holder.start)

    def _about_waiting(self, plan: Plan) -> Iterable[Line]:
        for planned in plan.planned:
            number = planned.job.number
            state, start = self._known.get(number, ("", 0.0))
            if not state:
                yield {"event": "waits", "at": plan.at, **_describe(planned)}
            now = planned.start <= plan.at
            if not state or (now and state == "waits"):
                if math.isfinite(planned.start):
                    yield {"event": "plans", "at": plan.at, "job": number, "start": max(planned.start, plan.at),
                           "because": planned.because.value}  # fmt: skip
                self._known[number] = ("due" if now else "waits", start)

    def _about_ends(self, plan: Plan, jobs: States) -> Iterable[Line]:
        for number in [number for number in self._known if number not in jobs]:
            del self._known[number]  # Slurm has forgotten it
        for number, (state, start, end) in jobs.items():
            known = self._known.get(number)
            if known is None:
                continue
            if known[0] in ("waits", "due") and state != "PENDING" and not math.isnan(start) and start <= plan.at:
                yield {"event": "starts", "at": plan.at, "job": number, "start": start,
                       "as_planned": self._is_as_planned(number, jobs)}  # fmt: skip
                known = self._known[number] = ("runs", start)
            if known[0] == "runs" and state.split()[0] in OVER and not math.isnan(end):
                yield {"event": "ends", "at": plan.at, "job": number, "end": end, "state": state}
                self._known[number] = ("over", start)

    def _is_as_planned(self, number: str, jobs: States) -> bool | None:
        """Whether a job that has started was due in the last plan, or first there; None if it was not in it."""
        for ahead, (job, was_due) in enumerate(self._order):
            if job == number:
                still_waiting = (
                    other for other, _ in self._order[:ahead] if jobs.get(other, ("", 0, 0))[0] == "PENDING"
                )
                return was_due or next(still_waiting, None) is None
        return None


def _describe(known: PlannedJob | RunningJob) -> Line:
    job = known.job
    return {
        "job": job.number, "submit": job.submit, "nodes": known.amount, "walltime": job.limit, "bytes": known.space,
        "user": job.user, "account": job.account, "partition": job.partition,
    }  # fmt: skip


def _append(path: Path, lines: Iterable[Line]) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":  # an earlier planner was killed while it wrote
                file.write(b"\n")
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())


def write_plan(path: Path, plan: Plan, book: Book, settings: Line) -> None:
    """Write the plan as it is now, for the page."""
    write_file(path, json.dumps(plan_document(plan, book, settings), separators=(",", ":")) + "\n", 0o644)


def plan_document(plan: Plan, book: Book, settings: Line) -> dict[str, object]:
    """Return the plan as JSON: seconds since 1970, bytes; null for what is unknown."""
    return {
        "at": plan.at,
        "written": time.time(),
        **settings,
        "machine": asdict(plan.machine),
        "running": [_describe_running(holder) for holder in plan.running],
        "planned": [_describe_planned(planned, plan.at, book) for planned in plan.planned],
        "others": [_describe_planned(planned, plan.at, book) for planned in plan.others[:_MOST_OTHERS]],
        "counts": {
            "running": len(plan.running), "planned": len(plan.planned), "others": len(plan.others),
            "deep": len(plan.deep),
        },
    }  # fmt: skip


def _describe_running(holder: RunningJob) -> dict[str, object]:
    job = holder.job
    return {
        "job": job.name, "user": job.user, "partition": job.partition, "state": job.state, "nodes": holder.amount,
        "space": holder.space, "start": holder.start, "end_by": holder.end_by, "expected_end": holder.expected_end,
    }  # fmt: skip


def _describe_planned(planned: PlannedJob, now: float, book: Book) -> dict[str, object]:
    job, change = planned.job, book.get(planned.job.number)
    return {
        "job": job.name, "user": job.user, "partition": job.partition, "nodes": planned.amount, "space": planned.space,
        "walltime": job.limit, "waited": max(now - job.submit, 0.0), "holds": planned.holds,
        "start": planned.start if math.isfinite(planned.start) else None,
        "because": planned.because.value, "sentence": planned.sentence, "overdue": planned.is_overdue,
        "raised": change.raised_by if change else 0, "kept_until": change.kept if change and change.kept else None,
    }  # fmt: skip
