"""A fit finds the file system behind made-up runs, and keeps defaults where runs show nothing."""

import numpy as np
import pytest

from forebay.history.run_fields import MEASURED
from forebay.profile.calibration.filesystem_costs import DEFAULT, FileSystem, Parameters, Waiting
from forebay.profile.calibration.fit import fit_parameters
from support.measured_runs import draw_runs

SLOW = Parameters(
    fs=FileSystem(
        bandwidth=(2e8, 5e8), total=(2e10, 5e10), call=(1e-5, 2e-5), latency=(5e-3, 1e-3), lock=3e-3, name=2e-2
    )
)


def test_a_fit_finds_the_file_system_behind_many_runs() -> None:
    fs = fit_parameters(draw_runs(800, SLOW)).fs
    for name in ("bandwidth", "total", "latency"):
        assert getattr(fs, name) == pytest.approx(getattr(SLOW.fs, name), rel=0.35), name
    assert fs.lock == pytest.approx(SLOW.fs.lock, rel=0.35)
    assert fs.name == pytest.approx(SLOW.fs.name, rel=0.05)


def test_costs_of_requests_keep_their_defaults_if_requests_are_unknown() -> None:
    truth = Parameters(fs=SLOW.fs, waiting=Waiting(seconds=(50.0, 200.0), volume=(0.9, 0.6), processes=(0.2, 0.0)))
    found = fit_parameters(draw_runs(300, truth, requests=False))
    for name in ("latency", "call", "lock"):
        assert getattr(found.fs, name) == pytest.approx(getattr(DEFAULT, name)), name
    assert found.waiting.volume == pytest.approx(truth.waiting.volume, abs=0.1)


def test_a_few_wild_runs_change_little() -> None:
    runs = draw_runs(200, SLOW)
    calm = fit_parameters(runs).fs
    runs["seconds"][:10] *= 1000
    wild = fit_parameters(runs).fs
    assert wild.latency == pytest.approx(calm.latency, rel=0.25)
    assert wild.total == pytest.approx(calm.total, rel=0.25)


def test_without_runs_everything_is_a_default() -> None:
    assert fit_parameters(np.zeros(0, dtype=MEASURED)) == Parameters()


def test_parameters_stay_physical_whatever_the_runs_say() -> None:
    runs = draw_runs(60, SLOW)
    runs["seconds"] = np.where(np.arange(60)[:, None] % 2, 1e-9, 1e9)
    found = fit_parameters(runs)
    assert all(0 <= power <= 1 for power in found.waiting.volume)
    assert all(1e5 <= bandwidth <= 1e11 for bandwidth in found.fs.bandwidth)
    assert all(1e-6 <= latency <= 1 for latency in found.fs.latency)
