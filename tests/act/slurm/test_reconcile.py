"""Grants and jobs made to agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.command import CommandFailed
from forebay.act.slurm import mending
from forebay.act.slurm.queue import QueuedJob, parse_jobs, parse_limit
from forebay.act.slurm.reconcile import Terms, mends
from forebay.act.slurm.staging import KEPT

TERMS = Terms(time=1000.0, margin=10.0, queue=100.0, grace=60.0)
NOW = 5000.0


def grant(job: str, **more: Any) -> dict[str, Any]:
    told = {"id": f"g{job}", "key": f"slurm-c-{job}", "state": "ready", "created": 0.0, "until": 1e9, "path": ""}
    return told | more


def job(number: str, state: str, limit: float | None = 600.0) -> dict[str, QueuedJob]:
    return {number: QueuedJob(number, state, limit)}


def found(grants: list[dict[str, Any]], jobs: dict[str, QueuedJob], *buffers: str) -> list[tuple[str, str]]:
    done = mends(grants, jobs, frozenset(buffers), cluster="c", terms=TERMS, now=NOW)
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
    assert found([grant("1")], parse_jobs("1 CANCELLED 10:00 staging-out"), "1") == []
    assert found([grant("1")], parse_jobs("1 RUNNING 10:00 teardown"), "1") == []


def test_a_grant_whose_buffer_slurm_tears_down_is_given_back_though_slurm_still_has_it() -> None:
    assert found([grant("1")], parse_jobs("1 CANCELLED 10:00 teardown"), "1") == [("g1", "release")]


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
    (one,) = mends([late], job("1", "PENDING", None), frozenset(), cluster="c", terms=TERMS, now=NOW)
    assert one.until == NOW + 1000 + 10 + 100


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
    jobs = parse_jobs("".join(f"{number} {state} 10:00\n" for number, state in rows))
    needed = {number for number, job in jobs.items() if job.state in ("RUNNING", "PENDING")} | set(map(str, buffered))
    done = mends([grant(str(n)) for n in held], jobs, frozenset(map(str, buffered)), cluster="c", terms=TERMS, now=NOW)
    assert {one.job for one in done if one.what == "release"} == set(map(str, held)) - needed


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_limit_is_read_as_squeue_prints_it(days: int, hours: int, minutes: int, seconds: int) -> None:
    short = f"{hours:02}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    text = f"{days}-{hours:02}:{minutes:02}:{seconds:02}" if days else short
    assert parse_limit(text) == ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@pytest.mark.parametrize("text", ["UNLIMITED", "INVALID", "NOT_SET", "", "1:2:3:4", "-5", "x-1:00"])
def test_what_is_no_limit_is_none(text: str) -> None:
    assert parse_limit(text) is None


class Calls:
    """A service that notes what it is told."""

    def __init__(self, *grants: dict[str, Any]) -> None:
        self.grants, self.done = grants, list[tuple[str, str]]()

    def live(self) -> list[dict[str, Any]]:
        return list(self.grants)

    def let_go(self, name: str, because: str) -> None:
        self.done.append((name, because))


def test_where_slurm_does_not_answer_nothing_is_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    calls = Calls(grant("1"))
    with pytest.raises(CommandFailed):
        mending.mend(calls, "c", None, TERMS)  # type: ignore[arg-type]
    assert calls.done == []


def test_what_a_failed_stage_out_left_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("squeue", "scontrol"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / KEPT).touch()
    calls = Calls(grant("1", path=str(tmp_path / "kept")), grant("2", path=str(tmp_path / "other")))
    mending.mend(calls, "c", None, TERMS)  # type: ignore[arg-type]
    assert calls.done == [("g2", "job 2 is gone")]
