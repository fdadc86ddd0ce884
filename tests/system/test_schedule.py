"""`forebay schedule` beside a real Slurm whose jobs contend for burst buffers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.control_processes import forebay
from support.processes import limited, piped, started, wait_until
from support.slurm import Slurm, own_slurm

HOOKS = """
function slurm_bb_pools() return slurm.SUCCESS, '{"pools":[{"id":"nvme","quantity":100,"granularity":1000000000}]}' end
for _, hook in ipairs({ "job_process", "setup", "data_in", "real_size", "paths", "pre_run", "post_run", "data_out",
                        "job_teardown", "get_status" }) do
  _G["slurm_bb_" .. hook] = function(...) return slurm.SUCCESS end
end
"""
FILES = {"burst_buffer.lua": HOOKS, "burst_buffer.conf": "Directive=BB_LUA\n"}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with own_slurm("BurstBufferType=burst_buffer/lua", nodes=2, files=FILES) as cluster:
        yield cluster


@pytest.fixture
def config(slurm: Slurm, tmp_path: Path) -> Path:
    """Settings that steer; all jobs of the test before have ended."""
    path = tmp_path / "schedule.toml"
    path.write_text(
        f'[schedule]\nmode = "steer"\npolicy = "plan:alpha=1"\ninterval = "0.5 s"\nfolder = "plan"\n'
        f'[steering]\nahead = "1 s"\nlease = "4 s"\n[slurm]\nconf = "{slurm.conf}"\n'
    )
    slurm.run("scancel", f"--user={slurm.user.pw_name}")
    wait_until(lambda: not slurm.run("squeue", "-h"), "jobs do not end")
    return path


@contextmanager
def planning(config: Path) -> Iterator[subprocess.Popen[str]]:
    argv = (sys.executable, "-m", "forebay", "schedule", "--config", str(config), "--json")
    with started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert json.loads(limited(piped(process.stdout).readline))["ready"] == "schedule"
        yield process


def submit(slurm: Slurm, name: str, gigabytes: int, minutes: int, body: str = "sleep 0.1") -> str:
    directives = (f"#BB_LUA pool=nvme capacity={gigabytes}GB",) if gigabytes else ()
    words = ("--exclusive", f"--time={minutes}", f"--job-name={name}")
    return slurm.submit(body, *directives, options=words)


def queue(slurm: Slurm) -> dict[str, tuple[str, int, int]]:
    """Reason, priority and nice value of each job that waits."""
    text = slurm.run("squeue", "-h", "-t", "PD", "-o", "%i|%r|%Q|%y")
    rows = [line.split("|") for line in text.splitlines()]
    return {job: (reason, int(priority), int(nice)) for job, reason, priority, nice in rows}


def plan(config: Path) -> dict[str, Any]:
    path = config.parent / "plan" / "plan.json"
    return dict(json.loads(path.read_text())) if path.exists() else {"planned": []}


WRONG_ORDER = ((60, 6), (60, 4), (60, 2))


def occupy(
    slurm: Slurm, config: Path, waiting: Sequence[tuple[int, int]] = WRONG_ORDER, body: str = "sleep 0.1"
) -> list[str]:
    """Both nodes are busy with 60 GB; other jobs wait, with these sizes and limits."""
    go = f"while [ ! -e {slurm.work}/{config.parent.name} ]; do sleep 0.05; done"
    busy = [submit(slurm, "busy", gigabytes, 30, go) for gigabytes in (60, 0)]
    for job in busy:
        slurm.wait(job, "RUNNING")
    return [submit(slurm, f"j{minutes}", gigabytes, minutes, body) for gigabytes, minutes in waiting]


def test_jobs_start_in_the_order_of_the_plan_and_nothing_is_left_behind(slurm: Slurm, config: Path) -> None:
    config.write_text(config.read_text().replace('"4 s"', '"300 s"'))  # no lease may end on a busy machine
    jobs = occupy(slurm, config)
    with planning(config) as planner:
        wait_until(lambda: [row["job"] for row in plan(config)["planned"]] == jobs[::-1], "the plan is not made")
        wait_until(lambda: [q[0] for q in queue(slurm).values()].count("BeginTime") == 2, "no job is kept back")
        by_priority = sorted(queue(slurm), key=lambda job: -queue(slurm)[job][1])
        assert by_priority == jobs[::-1]
        assert plan(config)["planned"][0]["because"] == "nodes-and-space"
        (slurm.work / config.parent.name).touch()
        for job in jobs:
            slurm.wait(job, "COMPLETED")
        record = config.parent / "plan" / "record.jsonl"
        wait_until(lambda: record.read_text().count('"event": "ends"') == 5, "not all ends are recorded")
        planner.send_signal(signal.SIGTERM)
        assert planner.wait(60) == 0
        said = limited(piped(planner.stderr).read).splitlines()
        assert [line for line in said if "compiling" not in line] == []  # the first plan on this machine compiles
    starts = {job: slurm.completed()[job]["StartTime"] for job in jobs}
    assert sorted(jobs, key=lambda job: (starts[job], -int(job))) == jobs[::-1]
    replayed = forebay("replay", str(record), "--json")
    assert replayed.returncode == 0 and json.loads(replayed.stdout)["jobs"] >= 3


def test_a_killed_planner_leaves_no_job_held_and_slurm_goes_on(slurm: Slurm, config: Path) -> None:
    jobs = occupy(slurm, config)
    with planning(config) as planner:
        wait_until(lambda: [q[0] for q in queue(slurm).values()].count("BeginTime") == 2, "no job is kept back")
        planner.send_signal(signal.SIGKILL)
        planner.wait(60)
    assert all(priority > 0 and nice <= 0 for _, priority, nice in queue(slurm).values())
    wait_until(lambda: "BeginTime" not in str(queue(slurm)), "a job is still kept back after the lease")
    done = forebay("schedule", "--config", str(config), "--release", "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == {"released": 2}  # the first job is no longer kept back
    assert [nice for _, _, nice in queue(slurm).values()] == [0] * 3
    (slurm.work / config.parent.name).touch()
    for job in jobs:
        slurm.wait(job, "COMPLETED")


def test_a_job_that_waits_for_too_long_gets_space_although_smaller_ones_want_it(slurm: Slurm, config: Path) -> None:
    config.write_text(config.read_text().replace("[schedule]", '[schedule]\nlongest_wait = "2 s"'))
    large, *small = occupy(slurm, config, [(90, 9), *[(40, 1)] * 12], "sleep 1")
    with planning(config):
        wait_until(lambda: plan(config)["planned"][:1] and plan(config)["planned"][0]["overdue"], "no job is overdue")
        (slurm.work / config.parent.name).touch()
        for job in (large, *small):
            slurm.wait(job, "COMPLETED")
    starts = {job: slurm.completed()[job]["StartTime"] for job in (large, *small)}
    assert sum(starts[job] < starts[large] for job in small) <= 2
