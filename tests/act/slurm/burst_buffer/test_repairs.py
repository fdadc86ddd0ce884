"""Jobs that Slurm will never start by itself."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.act.slurm.burst_buffer.queued_jobs import QueuedJob
from forebay.act.slurm.burst_buffer.reconcile import find_repairs

TEARDOWN = "burst_buffer/lua: teardown: the storage service does not answer (timeout): /s [service-away]"
SETUP = "burst_buffer/lua: slurm_bb_setup: the storage service does not answer (timeout): /s [service-away]"
DATA_IN = "burst_buffer/lua: slurm_bb_data_in: /home/x: no such file or directory"


def job(buffer: str, **more: Any) -> QueuedJob:
    told: dict[str, Any] = {"number": "9", "name": "5_2", "state": "PENDING", "limit": None, "buffer": buffer}
    return QueuedJob(**told | more)


def found(one: QueuedJob, *buffers: str, torn_down: tuple[str, ...] = (), **dependents: Any) -> list[str]:
    names = {number.removeprefix("on"): names for number, names in dependents.items()}
    return [repair.what for _, repair in find_repairs([one], buffers, torn_down, names)]


def test_a_job_whose_start_failed_begins_again() -> None:
    assert found(job("pre-run", is_held=True, reason="JobHeldAdmin"), "9") == ["requeue"]
    assert found(job("pre-run", reason="BurstBufferResources"), "9") == ["requeue"]
    assert found(job("pre-run", state="CONFIGURING"), "9") == []


@pytest.mark.parametrize("buffer", ["staging-in", "alloc-revoke"])
def test_a_job_of_which_slurm_lost_the_burst_buffer_begins_again(buffer: str) -> None:
    assert found(job(buffer)) == ["requeue"]
    assert found(job(buffer), "9") == []


def test_a_job_whose_teardown_has_nothing_to_do_and_does_not_end_begins_again() -> None:
    assert found(job("teardown"), "9", torn_down=("9",)) == ["requeue"]
    assert found(job("teardown"), "9") == []
    assert found(job("teardown", is_held=True, reason=SETUP), "9", torn_down=("9",)) == ["unhold"]  # Slurm still tries


@pytest.mark.parametrize("buffer", ["running", "post-run", "staging-out"])
def test_what_a_lost_burst_buffer_may_hold_is_not_thrown_away(buffer: str) -> None:
    ((_, one),) = find_repairs([job(buffer)], (), (), {})
    assert one.what == "report" and one.advice.endswith("then run scancel 5_2")
    assert found(job(buffer), "9") == []


@pytest.mark.parametrize("number", ["9", "5"])
def test_a_job_that_others_depend_on_is_not_cancelled(number: str) -> None:
    ((_, one),) = find_repairs([job("pre-run")], ("9",), (), {number: {"12", "11"}})
    assert one.what == "report" and "11, 12" in one.advice


def test_an_interactive_job_can_only_be_reported() -> None:
    ((_, one),) = find_repairs([job("pre-run", may_requeue=False)], ("9",), (), {})
    assert one.what == "report" and "scancel 5_2" in one.advice


def test_who_was_held_because_the_service_was_away_is_let_go() -> None:
    ((_, one),) = find_repairs([job("complete", is_held=True, reason=SETUP)], (), (), {})
    words = "slurm_bb_setup: the storage service does not answer (timeout): /s"
    assert (one.what, one.because) == ("unhold", words)
    assert found(job("complete", is_held=True, reason="Burst buffer pre_run error")) == ["unhold"]


@pytest.mark.parametrize("reason", [TEARDOWN, "burst_buffer/lua: teardown: killed"])
def test_who_was_requeued_and_torn_down_at_the_second_try_is_let_go(reason: str) -> None:
    """Slurm does not hold such a job, but the reason of the first try keeps it from starting."""
    assert found(job("complete", reason=reason)) == ["unhold"]
    assert found(job("teardown", reason=reason), "9") == []  # Slurm still tries
    assert found(job("complete", state="RUNNING", reason=reason)) == []


def test_who_is_held_for_another_reason_is_reported_with_it() -> None:
    ((_, one),) = find_repairs([job("complete", is_held=True, reason=DATA_IN)], (), (), {})
    assert (one.what, one.because) == ("report", "slurm_bb_data_in: /home/x: no such file or directory")
    assert one.advice == "correct this, then run scontrol release 5_2 (or scancel 5_2)"


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin", "Dependency", "BurstBufferResources"])
def test_who_waits_for_somebody_else_is_left_alone(reason: str) -> None:
    assert found(job("pending", is_held=True, reason=reason)) == []
    assert found(job("pending", reason=SETUP)) == []
    assert found(job("", is_held=True, reason=SETUP)) == []
