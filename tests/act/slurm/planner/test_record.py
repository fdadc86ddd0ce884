"""The record: what it says of jobs, and what `forebay replay` reads of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.act.slurm.planner.planning import Planner
from forebay.act.slurm.planner.record import Record
from forebay.act.slurm.planner.settings import Excluded
from forebay.decide.registry import find
from forebay.history.jobs.planner_record import is_record, read_record
from forebay.model.errors import BadInput
from forebay.simulate.jobs.record_replay import replay_record
from support.slurm_planner import GB, NOW, cluster, job, plan_of, running, settings

ABOUT = {"mode": "shadow", "policy": "sjf-bb", "interval": 10.0}


def observe(path: Path, *, restarts: bool = False) -> None:
    """A node is busy; a long job came before a short one, and Slurm starts them in order of submission.

    A planner that `restarts` does so before every plan.
    """
    rules = settings()
    planner, record = Planner(rules, find("schedule", "sjf-bb")), Record(path)
    long, short = job(2, submit=NOW - 5, limit=600.0), job(3, submit=NOW - 4, limit=60.0)
    busy = running(1, limit=60.0, submit=NOW - 30, start=NOW - 30)

    def see(at: float, *jobs: object) -> None:
        now = replace(cluster(*jobs, nodes=1), at=at)  # type: ignore[arg-type]
        states = {each.number: (each.state, each.start, each.end) for each in now.jobs}
        (Record(path) if restarts else record).write(planner.plan(now, {}), states, ABOUT)

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


def test_a_planner_that_starts_again_loses_no_job(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    observe(path, restarts=True)
    record = read_record(path)
    assert record.was_running.tolist() == [True, False, False] and record.starts.tolist()[1:] == [NOW + 10, NOW + 310]
    assert record.jobs.rows["submit"].tolist()[1:] == [NOW - 5, NOW - 4]


def test_jobs_that_start_and_end_between_two_plans_are_recorded(tmp_path: Path) -> None:
    record, rules = Record(tmp_path / "record.jsonl"), settings()
    short = job(2, submit=NOW + 1, state="COMPLETED", start=NOW + 4, end=NOW + 6, space=5.0 * GB)
    for at, jobs in ((NOW, ()), (NOW + 10, (short, replace(short, number="3", user="eve")))):
        now = replace(cluster(*jobs), at=at)
        states = {each.number: (each.state, each.start, each.end) for each in now.jobs}
        record.write(plan_of(now, settings(exclude=Excluded(users=["eve"]))), states, ABOUT)
    seen = read_record(tmp_path / "record.jsonl")
    assert (list(seen.jobs.ids), seen.was_running.tolist(), seen.starts.tolist()) == (["2"], [False], [NOW + 4])
    assert seen.jobs.rows["bytes"].tolist() == [5 * GB]
    assert replay_record(seen, find("schedule", rules.schedule.policy)).then.mean == 3.0


def test_a_line_that_a_killed_planner_did_not_finish_costs_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text('{"event": "machine", "at"')
    observe(path)
    record = read_record(path)
    assert ([row.line for row in record.jobs.rejected], len(record.jobs)) == ([1], 3)


def test_a_new_file_says_again_what_its_reader_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.jsonl"
    monkeypatch.setattr("forebay.act.slurm.planner.record.MOST_BYTES", 900)
    observe(path)
    assert (tmp_path / "record.jsonl.1").exists() and is_record(path) and len(read_record(path).jobs) == 3


@pytest.mark.parametrize(
    "line",
    ["5", "[]", '{"event": 7}', '{"event": "plans", "job": "3", "at": 1}', '{"event": "ends", "job": "3", "end": null}',
     '{"event": "starts", "job": 3, "start": 5}', '{"event": "ends", "job": "3", "end": -4}',
     '{"event": "waits", "job": "3", "submit": 1, "nodes": 1, "walltime": NaN, "bytes": 0}',
     '{"event": "machine", "at": 5, "nodes": 4, "space": 7}'],
)  # fmt: skip
def test_a_line_without_what_it_needs_is_listed(line: str, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    observe(path)
    path.write_text(path.read_text() + line + "\n")
    record = read_record(path)
    assert (len(record.jobs), len(record.jobs.rejected)) == (3, 1)


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
