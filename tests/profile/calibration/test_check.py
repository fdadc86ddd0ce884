"""A calibration is checked on later runs than those that it was fitted to."""

import numpy as np
import pytest

from forebay.model.errors import BadInput
from forebay.profile.calibration.check import (
    LEAST_RUNS,
    check_calibration,
    correlate_ranks,
    find_factors,
    fit_bandwidth,
)
from forebay.profile.calibration.filesystem_costs import FileSystem, Parameters
from forebay.profile.calibration.prediction import predict_seconds
from support.measured_runs import draw_runs

FS = Parameters(fs=FileSystem(bandwidth=(2e8, 5e8), total=(2e10, 5e10), latency=(5e-3, 1e-3)))


def test_the_earlier_half_is_fitted_and_the_later_half_checked_whatever_their_order() -> None:
    runs = draw_runs(100, FS)
    check = check_calibration(runs[np.random.default_rng(5).permutation(100)], "runs")
    assert check.earlier["start"].max() < check.later["start"].min()
    assert (check.earlier.size, check.later.size) == (50, 50)


def test_the_model_predicts_runs_that_it_describes_better_than_one_bandwidth_does() -> None:
    for score in check_calibration(draw_runs(200, FS), "runs").scores:
        assert score is not None and score.rank_correlation is not None
        assert score.median < 1.4 < 2 < score.one_bandwidth
        assert score.interval[0] <= score.median <= score.interval[1] and score.median <= score.p90
        assert score.rank_correlation > 0.95


def test_what_the_later_runs_took_does_not_change_the_fit() -> None:
    runs = draw_runs(60, FS)
    before = check_calibration(runs, "runs").parameters
    runs["seconds"][30:] *= 50
    assert check_calibration(runs, "runs").parameters == before


def test_a_prediction_uses_nothing_that_was_measured() -> None:
    runs = draw_runs(10, FS)
    before = [predict_seconds(runs, side, FS) for side in (0, 1)]
    runs["seconds"], runs["meta_seconds"], runs["start"] = 1e6, 1e6, 0
    for side in (0, 1):
        assert predict_seconds(runs, side, FS).tolist() == before[side].tolist()


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(BadInput, match=f"19 runs with known I/O times, but a calibration needs {LEAST_RUNS}"):
        check_calibration(draw_runs(LEAST_RUNS - 1, FS), "runs")


def test_reads_that_only_a_few_runs_have_get_no_score() -> None:
    runs = draw_runs(40, FS)
    runs["bytes"][4:, 0] = 0
    check = check_calibration(runs, "runs")
    assert check.scores[0] is None and check.scores[1] is not None


def test_ranks_of_equal_values_are_shared() -> None:
    assert correlate_ranks(np.array([1.0, 2, 2, 3]), np.array([10.0, 20, 20, 40])) == pytest.approx(1)
    assert correlate_ranks(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == pytest.approx(-1)
    assert correlate_ranks(np.array([1.0, 1, 1]), np.array([3.0, 2, 1])) is None


def test_a_factor_counts_too_long_and_too_short_alike() -> None:
    assert find_factors(np.array([2.0, 0.5, 1]), np.array([1.0, 1, 1])) == pytest.approx([2, 2, 1])


def test_one_bandwidth_is_the_median_of_the_runs() -> None:
    runs = draw_runs(3, FS)
    runs["bytes"][:, 0], runs["seconds"][:, 0] = 1000, (1, 10, 100)
    assert fit_bandwidth(runs, 0) == pytest.approx(100)
