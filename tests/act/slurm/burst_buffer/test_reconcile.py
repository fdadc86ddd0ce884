"""Grants and jobs made to agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.command import CommandFailed
from forebay.act.control.documents import GrantDocument
from forebay.act.slurm.burst_buffer import reconcile
from forebay.act.slurm.burst_buffer.queued_jobs import QueuedJob, parse_jobs
from forebay.act.slurm.burst_buffer.reconcile import Terms, find_corrections
from forebay.act.slurm.burst_buffer.staging import KEPT
from forebay.act.slurm.output import parse_time_limit
from forebay.model.errors import BadInput

TERMS = Terms(time=1000.0, margin=10.0, queue=100.0, grace=60.0)
NOW = 5000.0


def grant(
    job: str, *, key: str | None = None, state: str = "ready", created: float = 0.0, start: float = 0.0,
    until: float = 1e9, path: str = "",
) -> GrantDocument:  # fmt: skip
    return {
        "id": f"g{job}", "key": f"slurm-c-{job}" if key is None else key, "state": state, "created": created,
        "changed": created, "start": start, "until": until, "path": path, "paths": [path] if path else [],
        "volumes": [], "size": 1, "seconds": 1.0, "uid": 1, "gid": 1, "user": "", "job": job, "tier": "", "because": "",
        "reason": "", "policy": "", "position": 0, "tried": 0, "expected": 0.0, "marks": [], "fields": {},
        "staging": None, "type": "volumes", "servers": 0, "equal": False, "expose": "",
    }  # fmt: skip


def job(number: str, state: str, limit: float | None = 600.0, **more: Any) -> dict[str, QueuedJob]:
    return {number: QueuedJob(number=number, name=number, state=state, limit=limit, **more)}


def found(grants: list[GrantDocument], jobs: dict[str, QueuedJob], *buffers: str) -> list[tuple[str, str]]:
    done = find_corrections(grants, jobs, frozenset(buffers), cluster="c", terms=TERMS, now=NOW)
    return [(one.grant, one.what) for one in done]


def test_a_grant_whose_job_is_gone_or_over_is_given_back() -> None:
    assert found([grant("1"), grant("2.3")], {}) == [("g1", "release"), ("g2.3", "release")]
    assert found([grant("1")], job("1", "COMPLETED")) == [("g1", "release")]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "STAGE_OUT", "SUSPENDED", "REQUEUED"])
def test_a_grant_whose_job_lives_or_stages_out_is_left_alone(state: str) -> None:
    assert found([grant("1")], job("1", state)) == []


def test_a_grant_for_which_slurm_has_a_burst_buffer_is_left_alone() -> None:
    assert found([grant("1")], job("1", "COMPLETED"), "1") == []
    assert found([grant("1")], {}, "1") == []
    assert found([grant("1")], job("1", "CANCELLED", buffer="staging-out"), "1") == []
    assert found([grant("1")], job("1", "RUNNING", buffer="teardown"), "1") == []


def test_a_grant_whose_buffer_slurm_tears_down_is_given_back_though_slurm_still_has_it() -> None:
    for state in ("CANCELLED", "PENDING"):
        assert found([grant("1")], job("1", state, buffer="teardown"), "1") == [("g1", "release")]


@pytest.mark.parametrize("buffer", ["pending", "complete"])
def test_a_job_that_waits_without_a_burst_buffer_keeps_no_space(buffer: str) -> None:
    waits = job("1", "PENDING", buffer=buffer)
    assert found([grant("1")], waits) == [("g1", "release")]
    assert found([grant("1")], waits, "1") == []
    assert found([grant("1", created=NOW - 59)], waits) == []
    assert found([grant("1")], job("1", "PENDING", buffer="staged-in")) == []


def test_a_new_grant_is_left_alone_for_a_while() -> None:
    assert found([grant("1", created=NOW - 59)], {}) == []
    assert found([grant("1", created=NOW - 60)], {}) == [("g1", "release")]


def test_grants_of_others_are_left_alone() -> None:
    others = [grant("1", key=key) for key in ("slurm-d-1", "slurm-c2-1", "mine", "slurm-c-x", "slurm-c-1.", "")]
    assert found(others, {}) == []


def test_a_job_that_still_waits_keeps_its_space() -> None:
    late = grant("1", until=NOW + 609)
    assert found([late], job("1", "PENDING")) == [("g1", "extend")]
    assert found([late | {"until": NOW + 610}], job("1", "PENDING")) == []
    assert found([late], job("1", "RUNNING")) == []
    assert until(late, job("1", "PENDING", None)) == NOW + 1000 + 10 + 100
    assert until(late, job("1", "PENDING"), times={"1": 2000.0}) == NOW + 2000 + 10 + 100


def until(held: GrantDocument, jobs: dict[str, QueuedJob], **more: Any) -> float | None:
    """Until when its only grant is to last; None if it is left alone."""
    done = find_corrections([held], jobs, frozenset(), cluster="c", terms=TERMS, now=NOW, **more)
    return done[0].until if done else None


def test_a_job_that_runs_longer_than_was_thought_keeps_its_space() -> None:
    soon = grant("1", state="in-use", until=NOW + 300)
    assert until(soon, job("1", "RUNNING", 7200.0, left=5000.0)) == NOW + 5000 + 10
    assert until(soon, job("1", "RUNNING", 7200.0, left=200.0)) is None
    assert until(soon, job("1", "RUNNING", 7200.0, left=300.0)) is None  # by some seconds
    assert until(soon, job("1", "RUNNING", 7200.0, left=5000.0), times={"1": 300.0}) is None


def test_a_job_without_a_limit_keeps_its_space_while_it_runs() -> None:
    assert until(grant("1", until=NOW + 9), job("1", "RUNNING", None)) == NOW + 1000 + 10
    assert until(grant("1", until=NOW + 10), job("1", "RUNNING", None)) is None


def test_no_space_is_to_last_longer_than_it_may() -> None:
    late = grant("1", start=NOW - 500, until=NOW)
    assert until(late, job("1", "PENDING"), longest=800.0) == NOW + 300
    assert until(late | {"until": NOW + 300}, job("1", "PENDING"), longest=800.0) is None


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from(["RUNNING", "PENDING", "COMPLETED", "CANCELLED"])), max_size=5
    ),
    held=st.lists(st.integers(1, 8), max_size=8, unique=True),
    buffered=st.sets(st.integers(1, 8)),
)
def test_exactly_those_that_neither_the_queue_nor_a_buffer_needs_are_released(
    rows: list[tuple[int, str]], held: list[int], buffered: set[int]
) -> None:
    jobs: dict[str, QueuedJob] = {}
    for number, state in rows:
        jobs |= job(str(number), state)
    needed = {number for number, job in jobs.items() if job.state in ("RUNNING", "PENDING")} | set(map(str, buffered))
    done = find_corrections(
        [grant(str(n)) for n in held], jobs, frozenset(map(str, buffered)), cluster="c", terms=TERMS, now=NOW
    )
    assert {one.job for one in done if one.what == "release"} == set(map(str, held)) - needed


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_limit_is_read_as_squeue_prints_it(days: int, hours: int, minutes: int, seconds: int) -> None:
    short = f"{hours:02}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    text = f"{days}-{hours:02}:{minutes:02}:{seconds:02}" if days else short
    assert parse_time_limit(text) == ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@pytest.mark.parametrize("text", ["UNLIMITED", "INVALID", "NOT_SET", "", "1:2:3:4", "-5", "x-1:00"])
def test_what_is_no_limit_is_none(text: str) -> None:
    assert parse_time_limit(text) is None


ROW = "{:24}{:40}{:24}{:24}{:24}{:24}{:24}{:4}{:4}{:24}{:330}\n"


def test_the_queue_is_read_as_slurm_prints_it() -> None:
    text = ROW.format("9", "5_2", "PENDING", "10:00", "9:56", "complete", "0", "1", "0", "N/A", "burst_buffer/lua: x y")
    text += ROW.format("4", "4", "RUNNING", "365-00:00:00", "364-23:59:00", "(null)", "77", "0", "1", "N/A", "None")
    assert parse_jobs(text) == {
        "9": QueuedJob(number="9", name="5_2", state="PENDING", limit=600.0, left=596.0, buffer="complete",
                       is_held=True, requeues=False, reason="burst_buffer/lua: x y"),
        "4": QueuedJob(number="4", name="4", state="RUNNING", limit=None, may_requeue=False, reason="None"),
    }  # fmt: skip


class Calls:
    """A service that notes what it is told."""

    def __init__(self, *grants: GrantDocument) -> None:
        self.grants, self.done = grants, list[tuple[str, str]]()
        self.now = dict[str, dict[str, Any]]()

    def rules(self) -> dict[str, float]:
        return {"longest": 1e9}

    def live_grants(self) -> list[GrantDocument]:
        return list(self.grants)

    def grant(self, name: str) -> dict[str, Any]:
        return next(grant for grant in self.grants if grant["id"] == name) | self.now.get(name, {})

    def release(self, name: str, because: str) -> None:
        self.done.append((name, because))


def test_where_slurm_does_not_answer_nothing_is_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    calls = Calls(grant("1"))
    with pytest.raises(CommandFailed):
        reconcile.reconcile(calls, "c", None, TERMS)  # type: ignore[arg-type]
    assert calls.done == []


@pytest.fixture
def idle_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster named C without a job."""
    config = f"printf 'ClusterName = C\\nStateSaveLocation = {tmp_path}\\n'"
    for name in ("squeue", "scontrol"):
        (tmp_path / name).write_text(f"#!/bin/sh\n[ $2 != config ] || {config}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.usefixtures("idle_slurm")
def test_space_that_the_job_gave_back_meanwhile_is_not_reported() -> None:
    calls = Calls(grant("1"), grant("2"), grant("3"))
    calls.now = {"g1": {"state": "released"}, "g3": {"state": "releasing"}}
    (action,) = reconcile.reconcile(calls, "c", None, TERMS)  # type: ignore[arg-type]
    assert (action.grant, calls.done) == ("g2", [("g2", "job 2 is gone")])


@pytest.mark.usefixtures("idle_slurm")
def test_the_space_of_another_cluster_is_left_alone() -> None:
    calls = Calls(grant("1"))
    with pytest.raises(BadInput, match="this Slurm is the cluster 'C', not 'other'"):
        reconcile.reconcile(calls, "other", None, TERMS)  # type: ignore[arg-type]
    assert calls.done == []


@pytest.mark.usefixtures("idle_slurm")
def test_what_a_failed_stage_out_left_is_kept(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / KEPT).touch()
    notes = tmp_path / "forebay_jobs"
    notes.mkdir()
    for name in ("1", "2", "3.failed", "9", "9.failed"):
        (notes / name).touch()
    calls = Calls(grant("1", path=str(tmp_path / "kept")), grant("2", path=str(tmp_path / "other")), grant("3"))
    reconcile.reconcile(calls, "c", None, TERMS)  # type: ignore[arg-type]
    assert calls.done == [("g2", "job 2 is gone")]
    assert sorted(path.name for path in notes.iterdir()) == ["1", "2", "3.failed"]
