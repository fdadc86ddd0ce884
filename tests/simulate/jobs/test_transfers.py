"""Staging on a shared file system, and space on real disks."""

import numpy as np
import pytest
from numpy.typing import NDArray

from forebay.decide.policy import storage
from forebay.decide.registry import find, policies
from forebay.model.errors import PolicyError
from forebay.model.jobs import JOB, Jobs
from forebay.model.system import Disk, Node, Platform, Server
from forebay.simulate.jobs.run import JobMachine, JobRun, simulate_jobs
from support.job_schedules import draw_jobs, jobs_of

NODES, SPACE, BANDWIDTH = 16, 1000, 20.0
_DISKS = (Disk(capacity=250, write_bandwidth=1.0, read_bandwidth=1.0),) * 4
PLATFORM = Platform(name="", servers=(Server(name="", nodes=(Node(name="", network_bandwidth=1.0, disks=_DISKS),)),))


def staged(jobs: Jobs) -> Jobs:
    rows = jobs.rows.copy()
    rows["bytes_in"], rows["bytes_out"] = rows["bytes"], rows["bytes"] // 2
    return jobs_of(rows)


def most(amounts: NDArray[np.int64], begins: NDArray[np.float64], ends: NDArray[np.float64]) -> int:
    """The most that is held at once, if what ends at a moment is free for what begins then."""
    times, changes = np.concatenate([ends, begins]), np.concatenate([-amounts, amounts])
    return int(np.cumsum(changes[np.lexsort((changes, times))]).max())


def check_capacity(jobs: Jobs, run: JobRun) -> None:
    assert np.isfinite(run.held_until).all()
    assert most(jobs.rows["nodes"], run.starts, run.ends) <= NODES
    assert most(jobs.rows["bytes"], run.held_from, run.held_until) <= SPACE


@pytest.mark.parametrize("schedule", policies("schedule"))
def test_jobs_hold_bytes_while_they_stage_and_nodes_while_they_run(schedule: str) -> None:
    jobs = staged(draw_jobs(1, 100, nodes=NODES, space=SPACE))
    run = simulate_jobs(jobs, JobMachine(nodes=NODES, space=SPACE, bandwidth=BANDWIDTH), find("schedule", schedule))
    check_capacity(jobs, run)
    rows = jobs.rows
    assert (run.held_from >= rows["submit"]).all()
    assert (run.starts - run.held_from >= rows["bytes_in"] / BANDWIDTH - 1e-6).all()
    assert (run.held_until - run.ends >= rows["bytes_out"] / BANDWIDTH - 1e-6).all()
    assert np.allclose(run.ends - run.starts, np.minimum(rows["runtime"], rows["walltime"]))


def test_transfers_at_the_same_time_share_the_file_system() -> None:
    rows = np.zeros(2, JOB)
    rows["nodes"], rows["walltime"], rows["runtime"], rows["bytes"], rows["bytes_in"] = 1, 100, 50, 100, 100
    machine = JobMachine(nodes=2, space=SPACE, bandwidth=BANDWIDTH)
    both = simulate_jobs(jobs_of(rows), machine, find("schedule", "fcfs-bb"))
    alone = simulate_jobs(jobs_of(rows[:1]), machine, find("schedule", "fcfs-bb"))
    assert alone.starts.tolist() == [5.0] and both.starts.tolist() == [10.0, 10.0]


def test_a_job_stages_in_while_another_still_uses_the_nodes() -> None:
    rows = np.zeros(2, JOB)
    rows["nodes"], rows["walltime"], rows["runtime"], rows["bytes"] = 2, 100, 100, 100
    rows["bytes_in"][1] = 400
    run = simulate_jobs(
        jobs_of(rows), JobMachine(nodes=2, space=SPACE, bandwidth=BANDWIDTH), find("schedule", "fcfs-bb")
    )
    assert run.held_from.tolist() == [0.0, 80.0] and run.starts.tolist() == [0.0, 100.0]


@pytest.mark.parametrize("placement", ["worst-fit", "first-fit", "best-fit", "forebay"])
@pytest.mark.parametrize("bandwidth", [np.inf, BANDWIDTH])
def test_no_disk_holds_more_than_its_capacity(placement: str, bandwidth: float) -> None:
    jobs = staged(draw_jobs(2, 100, nodes=NODES, space=SPACE // 2))
    machine = JobMachine(
        nodes=NODES, space=SPACE, bandwidth=bandwidth, platform=PLATFORM, storage=find("storage", placement), split=100
    )
    run = simulate_jobs(jobs, machine, find("schedule", "sjf-bb"))
    check_capacity(jobs, run)
    assert set(run.disks.tolist()) <= set(range(4))
    for number, row in enumerate(jobs.rows):
        held = run.disks[run.first_disk[number] : run.first_disk[number + 1]]
        assert (len(held) > 0) == (row["bytes"] > 0)


def test_a_job_waits_while_no_disk_has_enough_in_one_piece() -> None:
    rows = np.zeros(5, JOB)
    rows["nodes"], rows["walltime"], rows["runtime"] = 1, [10, 20, 30, 40, 10], [10, 20, 30, 40, 10]
    rows["bytes"] = [150, 150, 150, 150, 200]
    disks = JobMachine(nodes=NODES, space=SPACE, platform=PLATFORM, storage=find("storage", "best-fit"))
    pool = JobMachine(nodes=NODES, space=SPACE)
    assert simulate_jobs(jobs_of(rows), pool, find("schedule", "fcfs-bb")).starts.tolist() == [0.0] * 5
    run = simulate_jobs(jobs_of(rows), disks, find("schedule", "fcfs-bb"))
    assert run.starts.tolist() == [0.0] * 4 + [10.0] and run.refused == 1


def test_a_storage_policy_of_another_package_places_the_same() -> None:
    built_in = find("storage", "first-fit")
    other = storage("mine")(lambda *request: built_in.decide(*request))
    jobs = draw_jobs(3, 60, nodes=NODES, space=SPACE)
    runs = [
        simulate_jobs(
            jobs,
            JobMachine(nodes=NODES, space=SPACE, platform=PLATFORM, storage=placement),
            find("schedule", "sjf-bb"),
        )
        for placement in (built_in, other)
    ]
    assert runs[0].starts.tolist() == runs[1].starts.tolist() and runs[0].disks.tolist() == runs[1].disks.tolist()


def test_a_storage_policy_that_never_places_a_job_is_named() -> None:
    rows = np.zeros(1, JOB)
    rows["nodes"], rows["walltime"], rows["runtime"], rows["bytes"] = 1, 10, 10, SPACE
    machine = JobMachine(nodes=NODES, space=SPACE, platform=PLATFORM, storage=find("storage", "round-robin"))
    with pytest.raises(PolicyError, match="round-robin: refuses job 0 even on empty disks"):
        simulate_jobs(jobs_of(rows), machine, find("schedule", "fcfs-bb"))
