"""A job as the command line and Slurm's environment tell it."""

import getpass
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.slurm.jobs.job import Job, identify_job, parse_job, query_controller
from forebay.act.slurm.output import parse_time_limit
from forebay.model.errors import BadInput

ME = getpass.getuser()
CONTROLLER = {"SLURM_JOB_ID": "12", "SLURM_JOB_USER": ME, "SLURM_JOB_NAME": "my job", "SLURM_JOB_NUM_NODES": "4",
              "SLURM_JOB_CPUS_PER_NODE": "2(x3),1"}  # fmt: skip


def test_slurms_environment_tells_the_job() -> None:
    job = identify_job(CONTROLLER)
    assert (job.job, job.user, job.uid, job.name, job.nprocs, job.nodes) == ("12", ME, os.getuid(), "my job", 7, 4)


def test_tasks_count_before_cpus() -> None:
    assert identify_job(CONTROLLER | {"SLURM_JOB_NTASKS": "3"}).nprocs == 3


def test_a_user_without_a_name_is_known_by_its_number() -> None:
    assert identify_job({"SLURM_JOB_ID": "1", "SLURM_JOB_UID": str(os.getuid())}, job="1").user == ME


def test_options_count_before_slurms_environment() -> None:
    job = identify_job(CONTROLLER, job="12", name="other", app="vpic", nprocs=64)
    assert (job.name, job.app, job.nprocs) == ("other", "vpic", 64)


def test_another_job_than_the_one_we_run_in_is_not_taken_for_it() -> None:
    job = identify_job(CONTROLLER, job="99.pbs01", user=ME)
    assert (job.name, job.nprocs, job.number) == ("", 1, 99)


def test_a_job_whose_name_begins_with_a_letter_has_no_number() -> None:
    assert identify_job({}, job="lsf-7", user=ME).number is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"user": ME}, "--job: is required"),
        ({"job": "../12", "user": ME}, "is not a valid job id"),
        ({"job": "1" * 200, "user": ME}, "is not a valid job id"),
        ({"job": "12"}, "--user: is required"),
        ({"job": "12", "user": "nobody-has-this-name"}, "unknown user 'nobody-has-this-name'"),
        ({"job": "12", "user": "a/b"}, "is not a valid user name"),
        ({"job": "12", "user": ME, "nprocs": 1 << 25}, "--nprocs: must be between"),
    ],
)
def test_what_can_not_be_is_told_in_one_line(said: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        identify_job({}, **said)


@given(st.text())
def test_no_text_of_slurms_breaks_the_reading(text: str) -> None:
    assert (parse_time_limit(text) or 0.0) >= 0
    assert all(isinstance(value, str) for value in parse_job(text).values())


def test_the_controller_tells_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _scontrol(
        tmp_path,
        monkeypatch,
        "echo 'JobId=12 JobName=my job TimeLimit=1-00:00:00 NumTasks=64 Command=/bin/vpic.x deck'",
    )
    job = query_controller(identify_job({}, job="12", user=ME), 0)
    assert (job.name, job.nprocs, job.seconds, job.command) == ("my job", 64, 86400.0, "/bin/vpic.x deck")


def test_what_is_said_counts_before_what_the_controller_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _scontrol(tmp_path, monkeypatch, "echo 'JobId=12 JobName=other NumTasks=64 TimeLimit=UNLIMITED'")
    job = query_controller(identify_job({}, job="12", user=ME, name="mine", nprocs=2), 2)
    assert (job.name, job.nprocs, job.seconds) == ("mine", 2, 0.0)


def test_a_controller_that_does_not_answer_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _scontrol(tmp_path, monkeypatch, "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    job = Job(job="12", user=ME, uid=1, gid=1)
    assert query_controller(job, 0) == job


def _scontrol(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    script = folder / "scontrol"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
