"""`forebay slurm prolog` and `epilog`, for any batch system: told by options, and never a failure."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from forebay.history.store import open_store
from support.command import Forebay, Ran
from support.darshan_logs import Parts, wheel_log
from support.filesystems import Pretend, pretend
from support.made_up_runs import a_run, fill
from support.slurm_jobs import jobs_file, leases

__all__ = ["pretend"]
IONS = '[targets]\nname = "ions"\ncount = 8\nallocate = "best-bandwidth"\n'


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def job() -> tuple[str, ...]:
    import getpass

    return "--job", "4711", "--user", getpass.getuser()


def told(err: str) -> dict[str, Any]:
    """The one line of the log."""
    [line] = err.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def filled(folder: Path) -> Path:
    path = folder / "history.db"
    with open_store(str(path)) as store:
        fill(store, [a_run(1, nprocs=8, count=2)])
    return path


def started(*arguments: object) -> Ran:
    """In a process of its own: what reads logs is started by it, and may run here for other tests already."""
    argv = [sys.executable, "-m", "forebay", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_whole_job_without_slurm(job: tuple[str, ...], pretend: Pretend, tmp_path: Path) -> None:
    system, day, db = pretend("lustre"), datetime.now(), filled(tmp_path)
    logs = tmp_path / "darshan" / str(day.year) / str(day.month) / str(day.day)
    darshan = f'[darshan]\nfolder = "{tmp_path}/darshan/{{year}}/{{month}}/{{day}}"\n'
    config = jobs_file(tmp_path, system=system, more=IONS + darshan)
    ran = started("slurm", "prolog", "--config", config, *job, "--app", "vpic", "--nprocs", 8, "--env")
    values = dict(line.removeprefix("export ").split("=") for line in ran.out.splitlines())
    assert ran.code == 0
    assert values["FOREBAY_TARGETS"] == "0,1"
    assert system.system.layout(Path(values["FOREBAY_SCRATCH"])).count == int(values["FOREBAY_STRIPE_COUNT"])
    assert told(ran.err)["level"] == "info"
    with open_store(str(db)) as store:
        assert leases(store, "ions", day.timestamp()) == {"4711": {0, 1}}
    logs.mkdir(parents=True)
    log = Parts(wheel_log("ior_hdf5_example.darshan")).with_job(job_id=4711, start=int(day.timestamp()))
    log.write(logs / "me_vpic_id4711_1.darshan")
    ran = started("slurm", "epilog", "--config", config, *job, "--json")
    assert json.loads(ran.out) == {"job": "4711", "freed": 2 + int(values["FOREBAY_STRIPE_COUNT"]), "logs_read": 1,
                                   "logs_known": 0, "troubles": []}  # fmt: skip
    again = json.loads(started("slurm", "epilog", "--config", config, *job, "--json").out)
    assert (again["freed"], again["logs_read"], again["logs_known"]) == (0, 0, 1)
    with open_store(str(db)) as store:
        assert leases(store, "ions", day.timestamp()) == leases(store, "scratch", day.timestamp()) == {}


def test_a_document_for_machines(forebay: Forebay, job: tuple[str, ...], tmp_path: Path) -> None:
    filled(tmp_path)
    ran = forebay("slurm", "prolog", "--config", jobs_file(tmp_path, more=IONS), *job, "--app", "vpic", "--json")
    found = json.loads(ran.out)
    assert (found["job"], found["app"], found["mode"], found["troubles"]) == ("4711", "vpic", "enforce", [])
    assert found["environment"]["FOREBAY_TARGETS"] == "0,1"


@pytest.mark.parametrize("text", ["[jobs", "[job]\n", '[jobs]\nmode = "on"\n'])
def test_a_broken_file_fails_no_job(forebay: Forebay, job: tuple[str, ...], tmp_path: Path, text: str) -> None:
    config = tmp_path / "slurm.toml"
    config.write_text(text)
    for command in ("prolog", "epilog"):
        ran = forebay("slurm", command, "--config", config, *job)
        assert (ran.code, ran.out) == (0, "")
        assert (told(ran.err)["level"], told(ran.err)["job"]) == ("error", "4711")
        assert str(config) in told(ran.err)["trouble"]


@pytest.mark.parametrize("wrong", [("--job", "../x"), ("--user", "nobody-has-this-name"), ("--nprocs", 1 << 25)])
def test_a_job_that_can_not_be_fails_nothing(
    forebay: Forebay, job: tuple[str, ...], tmp_path: Path, wrong: Any
) -> None:
    ran = forebay("slurm", "prolog", "--config", jobs_file(tmp_path), *job, *wrong)
    assert ran.code == 0
    assert wrong[0] in told(ran.err)["trouble"]


def test_no_job_at_all_is_told(forebay: Forebay, tmp_path: Path) -> None:
    ran = forebay("slurm", "prolog", "--config", jobs_file(tmp_path))
    assert ran.code == 0
    assert "SLURM_JOB_ID" in told(ran.err)["trouble"]


def test_a_history_that_can_not_be_opened_fails_no_job(forebay: Forebay, job: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "history.db").write_text("no database, but long enough to be taken for one" * 100)
    ran = forebay("slurm", "prolog", "--config", jobs_file(tmp_path, more=IONS), *job)
    assert ran.code == 0
    assert "is not a SQLite database" in told(ran.err)["trouble"]


def test_a_file_system_that_hangs_holds_no_job_up(
    forebay: Forebay, job: tuple[str, ...], pretend: Pretend, tmp_path: Path
) -> None:
    filled(tmp_path)
    system = pretend("lustre")
    system.change(hang=["lfs setstripe"])
    ran = forebay("slurm", "prolog", "--config", jobs_file(tmp_path, system=system, limit=6), *job, "--app", "vpic")
    assert (ran.code, ran.out) == (0, "")
    assert told(ran.err)["trouble"] == "not finished within 6 s; ended"
    with open_store(str(tmp_path / "history.db")) as store:
        assert leases(store, "scratch", datetime.now().timestamp()) == {}


def test_what_goes_wrong_inside_is_a_line_too(
    forebay: Forebay, job: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of our own making")

    monkeypatch.setattr("forebay.act.slurm.jobs.prolog.run_prolog", broken)
    ran = forebay("slurm", "prolog", "--config", jobs_file(tmp_path), *job)
    assert ran.code == 0
    assert "ZeroDivisionError" in told(ran.err)["trouble"]


def test_the_file_can_be_checked_and_then_mistakes_count(forebay: Forebay, tmp_path: Path) -> None:
    fine = forebay("slurm", "prolog", "--config", jobs_file(tmp_path, more=IONS), "--check")
    assert (fine.code, fine.err) == (0, "")
    assert "valid: enforce mode" in fine.out
    ran = forebay("slurm", "prolog", "--config", tmp_path / "no.toml", "--check")
    assert ran.code == 2
    assert "no.toml: no such file" in ran.err


def test_what_others_need_not_know_is_not_in_the_way_of_a_job_outside_slurm(
    forebay: Forebay, job: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scontrol is asked of jobs that Slurm runs, and no others."""
    script = tmp_path / "scontrol"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho JobName=weekly NumTasks=2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    forebay("slurm", "prolog", "--config", jobs_file(tmp_path), *job)
    assert not (tmp_path / "asked").exists()
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    ran = forebay("slurm", "prolog", "--config", jobs_file(tmp_path), *job[2:], "--json")
    assert json.loads(ran.out)["app"] == "weekly"
    assert (tmp_path / "asked").exists()
