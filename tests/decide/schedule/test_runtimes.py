"""Run times are predicted from similar jobs that ended, and corrected upwards while a job runs."""

import numpy as np
import pytest

from forebay.decide.schedule.runtimes import LAST, Past, learn_runtime, new_past, predict_runtimes
from forebay.decide.schedule.view import KNOWN_JOB
from forebay.model.kernels import Array

NOBODY = np.zeros(0, np.int64)


def known(walltime: float, *, user: int = 1, nodes: int = 2) -> Array:
    jobs = np.zeros(1, KNOWN_JOB)
    jobs["walltime"], jobs["user"], jobs["nodes"], jobs["application"] = walltime, user, nodes, -1
    return jobs


def past_of(*shares: float, walltime: float = 10_000.0, user: int = 1) -> Past:
    past = new_past()
    for share in shares:
        learn_runtime(past, known(walltime, user=user), 0, share * walltime)
    return past


def predict(past: Past, walltime: float = 10_000.0, *, user: int = 1, nodes: int = 2) -> float:
    jobs = known(walltime, user=user, nodes=nodes)
    predict_runtimes(past, jobs, np.array([0]), NOBODY, 0.0)
    return float(jobs["predicted"][0])


def test_nothing_known_means_the_wall_time() -> None:
    assert predict(new_past()) == 10_000


@pytest.mark.parametrize("share", [1.0, 0.2, 0.01])
@pytest.mark.parametrize("user", [1, -1])
def test_if_all_jobs_use_the_same_share_the_next_one_is_predicted_to(share: float, user: int) -> None:
    jobs = known(10_000.0, user=user)
    predict_runtimes(past_of(*[share] * 200, user=user), jobs, np.array([0]), NOBODY, 0.0)
    assert share * 10_000 <= jobs["predicted"][0] <= min(share + 0.2, 1.0) * 10_000


def test_the_same_user_counts_more_than_others() -> None:
    past = past_of(*[0.9] * 20, user=2)
    for _ in range(20):
        learn_runtime(past, known(10_000.0, user=1), 0, 500.0)
    assert predict(past, user=1) < predict(past, user=3) < predict(past, user=2)


def test_a_job_that_may_be_short_is_urgent_although_it_may_be_long() -> None:
    jobs = known(10_000.0)
    predict_runtimes(past_of(*[0.01, 1.0] * 50), jobs, np.array([0]), NOBODY, 0.0)
    assert jobs["predicted"][0] > 5_000 and 0.4 < jobs["urgency"][0] < 0.6


@pytest.mark.parametrize("elapsed", [1.0, 1_500.0, 5_000.0, 9_999.0])
def test_a_running_job_is_expected_to_end_later_than_now_and_within_its_wall_time(elapsed: float) -> None:
    jobs = known(10_000.0)
    jobs["start"], jobs["end_by"] = 100.0, 10_100.0
    predict_runtimes(past_of(*[0.1] * 50, *[0.6] * 5), jobs, NOBODY, np.array([0]), 100.0 + elapsed)
    assert 100.0 + elapsed < jobs["expected_end"][0] <= 10_100.0


def test_a_job_that_runs_for_longer_than_predicted_is_compared_with_those_that_did() -> None:
    jobs, past = known(10_000.0), past_of(*[0.1] * 50, *[0.6] * 5)
    jobs["start"], jobs["end_by"] = 0.0, 10_000.0
    ends = []
    for now in (10.0, 1_500.0, 7_000.0):
        predict_runtimes(past, jobs, NOBODY, np.array([0]), now)
        ends.append(float(jobs["expected_end"][0]))
    assert ends == sorted(ends) and 5_900 <= ends[1] < ends[2] == 10_000.0


def test_only_the_last_jobs_count() -> None:
    past = past_of(*[1.0] * 100, *[0.1] * LAST)
    assert predict(past) == predict(past_of(*[0.1] * LAST))
