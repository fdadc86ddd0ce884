"""The record: what it says of jobs, and what `forebay replay` reads of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.act.slurm.planner.planning import Planner
from forebay.act.slurm.planner.record import Record
from forebay.decide.registry import find
from forebay.history.jobs.planner import is_record, read_record
from forebay.model.errors import BadInput
from forebay.simulate.jobs.record_replay import replay_record
from support.slurm_planner import GB, NOW, cluster, job, running, settings

ABOUT = {"mode": "shadow", "policy": "sjf-bb", "interval": 10.0}


def observe(path: Path) -> None:
    """A node is busy; a long job came before a short one, and Slurm starts them in order of submission."""
    rules = settings()
    planner, record = Planner(rules, find("schedule", "sjf-bb")), Record(path)
    long, short = job(2, submit=NOW - 5, limit=600.0), job(3, submit=NOW - 4, limit=60.0)
    busy = running(1, limit=60.0, submit=NOW - 30, start=NOW - 30)

    def see(at: float, *jobs: object) -> None:
        now = replace(cluster(*jobs, nodes=1), at=at)  # type: ignore[arg-type]
        states = {each.number: (each.state, each.start, each.end) for each in now.jobs}
        record.write(planner.plan(now, {}), states, ABOUT)

    see(NOW, busy, long, short)
    over = replace(busy, state="COMPLETED", end=NOW + 10)
    runs = replace(long, state="RUNNING", start=NOW + 10)
    see(NOW + 20, over, runs, short)
    ended = replace(runs, state="COMPLETED", end=NOW + 310)
    see(NOW + 320, over, ended, replace(short, state="RUNNING", start=NOW + 310))
    see(NOW + 330, over, ended, replace(short, state="COMPLETED", start=NOW + 310, end=NOW + 325))


def test_a_record_has_what_happened_and_what_the_plan_wanted(tmp_path: Path) -> None:
    observe(tmp_path / "record.jsonl")
    record = read_record(tmp_path / "record.jsonl")
    assert is_record(tmp_path / "record.jsonl")
    assert (list(record.jobs.ids), record.was_running.tolist()) == (["1", "2", "3"], [True, False, False])
    assert record.starts.tolist() == [NOW - 30, NOW + 10, NOW + 310]
    assert record.jobs.rows["runtime"].tolist() == [40.0, 300.0, 15.0]
    assert (record.as_planned, record.planned, record.nodes, record.space) == (1, 2, 1, 100 * GB)


def test_the_replay_says_how_long_the_same_jobs_would_have_waited(tmp_path: Path) -> None:
    observe(tmp_path / "record.jsonl")
    comparison = replay_record(read_record(tmp_path / "record.jsonl"), find("schedule", "sjf-bb"))
    assert (comparison.jobs, comparison.then.mean) == (2, ((10 + 5) + (310 + 4)) / 2)
    assert comparison.now.mean == ((10 + 4) + (25 + 5)) / 2


def test_lines_that_are_damaged_are_listed_and_the_rest_counts(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    observe(path)
    path.write_text(path.read_text() + '{"event": "bogus"}\n{"event": "ends", "at": 1')
    record = read_record(path)
    assert [row.line for row in record.jobs.rejected] == [len(path.read_text().splitlines()) - 1 + k for k in (0, 1)]
    assert len(record.jobs) == 3


def test_a_record_without_an_ended_job_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    observe(path)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if json.loads(line)["event"] != "ends"))
    with pytest.raises(BadInput, match="no job that has ended yet"):
        replay_record(read_record(path), find("schedule", "sjf-bb"))
