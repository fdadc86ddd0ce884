"""Every policy without chance starts every job at the second that a slow, obvious simulator gives."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from forebay.decide.registry import find
from forebay.model.jobs import JOB, Jobs
from forebay.simulate.jobs.run import JobMachine, JobRun, simulate_jobs
from support.job_schedules import CHOICES, draw_jobs, jobs_of, simulate_slowly

NODES, SPACE = 16, 1000
KTH = Path(__file__).parents[3].parent / "shared/data/kth"


def run(jobs: Jobs, schedule: str, *, nodes: int = NODES, space: int = SPACE) -> JobRun:
    return simulate_jobs(jobs, JobMachine(nodes=nodes, space=space), find("schedule", schedule))


@pytest.mark.parametrize("schedule", CHOICES)
@pytest.mark.parametrize(("seed", "count"), [(1, 200), (2, 60), (3, 20), (4, 20), (5, 8)])
def test_jobs_start_when_an_obvious_simulator_starts_them(schedule: str, seed: int, count: int) -> None:
    jobs = draw_jobs(seed, count, nodes=NODES, space=SPACE)
    assert run(jobs, schedule).starts.tolist() == simulate_slowly(jobs, NODES, SPACE, CHOICES[schedule]())


COLUMNS = ("submit", "nodes", "walltime", "runtime", "bytes")
LIMITS = ((0, 9), (1, 4), (1, 4), (0, 5), (0, 4))


@pytest.mark.parametrize("schedule", CHOICES)
@given(drawn=st.lists(st.tuples(*(st.integers(*limits) for limits in LIMITS)), max_size=12))
def test_small_cases_agree_too(schedule: str, drawn: list[tuple[int, ...]]) -> None:
    rows = np.zeros(len(drawn), JOB)
    for row, values in zip(rows, sorted(drawn, key=lambda job: job[0]), strict=True):
        for column, value in zip(COLUMNS, values, strict=True):
            row[column] = value
    jobs = jobs_of(rows)
    starts = run(jobs, schedule, nodes=4, space=4).starts.tolist()
    assert starts == simulate_slowly(jobs, 4, 4, CHOICES[schedule]())


@pytest.mark.skipif(not KTH.exists(), reason="needs the KTH jobs with burst buffers")
@pytest.mark.parametrize(
    ("schedule", "wait", "slowdown"), [("fcfs-bb", 10593, 9.35), ("sjf-bb", 6251, 4.43), ("filler", 11780, 9.62)]
)
def test_mean_waits_are_those_of_an_independent_implementation(schedule: str, wait: float, slowdown: float) -> None:
    jobs = read_kth(KTH / "alloc-only-00.csv.gz")
    outcome = run(jobs, schedule, nodes=96, space=480 * 10**9)
    waits = outcome.starts - jobs.rows["submit"]
    bounded = (outcome.ends - jobs.rows["submit"]) / np.maximum(outcome.ends - outcome.starts, 600)
    assert waits.mean() == pytest.approx(wait, rel=1e-3)
    assert np.maximum(bounded, 1).mean() == pytest.approx(slowdown, rel=1e-3)


def read_kth(file: Path) -> Jobs:
    with gzip.open(file, "rt") as lines:
        table: NDArray[np.float64] = np.loadtxt(lines, delimiter=",", skiprows=1)
    table = table[table[:, 2] <= 96]
    rows = np.zeros(len(table), JOB)
    for column, name in enumerate(("submit", "nodes", "walltime", "runtime"), start=1):
        rows[name] = table[:, column]
    rows["bytes"] = table[:, 2] * table[:, 5]
    return jobs_of(rows)


@pytest.mark.parametrize("schedule", ["conservative-bb", "plan", "slurm", "sjf-bb"])
def test_queues_of_any_length_are_scheduled(schedule: str) -> None:
    rows = np.zeros(1100, JOB)
    rows["nodes"], rows["walltime"], rows["runtime"], rows["bytes"] = 1, 10, 10, 1
    rows["nodes"][0] = NODES
    outcome = run(jobs_of(rows), schedule)
    assert outcome.ends.max() == 10 * (1 + -(-1099 // NODES))
