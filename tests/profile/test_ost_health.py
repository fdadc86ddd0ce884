"""Which OST is sick, and which only looks so by chance."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.run_fields import OstSums
from forebay.history.store.totals import OBSERVATION
from forebay.profile.ost_health import DEVIATIONS, LEAST_SPREAD, SLOW, OstHealth, is_comparable, ost_health, was_slow


def health(runs: Sequence[Sequence[float]], files: int = 10) -> dict[int, OstHealth]:
    """Of runs given as the slowness of OST 0, 1, ...; NaN where it was not used."""
    rows = [
        (run, ost, files, slow) for run, own in enumerate(runs) for ost, slow in enumerate(own) if not np.isnan(slow)
    ]
    osts = range(max(len(own) for own in runs))
    used = {ost: sum(ost == row[1] for row in rows) for ost in osts}
    sums = [OstSums(ost=o, runs=used[o], files=files * used[o], total_bytes=o, io_time=1.0) for o in osts]
    return {h.ost: h for h in ost_health(sums, np.array(rows, dtype=OBSERVATION))}


def noise(rng: np.random.Generator, runs: int, osts: int, spread: float = 0.15) -> np.ndarray:
    drawn = rng.lognormal(0, spread, (runs, osts))
    return drawn / np.median(drawn, axis=1, keepdims=True)


def test_one_run_of_many_files_shows_an_ost_with_ten_times_the_seconds_per_byte() -> None:
    slowness = noise(np.random.default_rng(1), 1, 24)
    slowness[0, 14] = 10
    found = health(slowness.tolist(), files=85)
    assert [ost for ost, h in found.items() if h.verdict == "sick"] == [14]
    assert found[14].because == "slow for 85 of 85 files in 1 run"
    assert next(iter(found)) == 14


def test_the_same_with_two_files_on_each_ost_is_too_little_to_tell() -> None:
    slowness = noise(np.random.default_rng(1), 1, 24)
    slowness[0, 14] = 10
    assert {h.verdict for h in health(slowness.tolist(), files=2).values()} == {"too little data"}


def test_one_bad_day_among_many_runs_makes_nobody_sick() -> None:
    slowness = noise(np.random.default_rng(2), 20, 24)
    slowness[7, 3] = 50
    found = health(slowness.tolist(), files=100)
    assert {h.verdict for h in found.values()} == {"fine"}
    assert (found[3].slow_runs, found[3].worst_slowness) == (1, 50)


def test_slow_in_most_runs_is_sick_however_few_files_there_are() -> None:
    slowness = noise(np.random.default_rng(3), 8, 24)
    slowness[:, 5] *= 4
    found = health(slowness.tolist(), files=1)
    assert [ost for ost, h in found.items() if h.verdict == "sick"] == [5]
    assert found[5].p_value is not None
    assert found[5].p_value < 1e-9


def test_where_every_ost_is_slow_now_and_then_none_is_sick() -> None:
    rng = np.random.default_rng(4)
    slowness = np.where(rng.random((40, 24)) < 0.2, 6.0, 1.0) * noise(rng, 40, 24, 0.05)
    found = health(slowness.tolist())
    assert max(h.slow_runs for h in found.values()) >= 10  # a quarter of its runs
    assert {h.verdict for h in found.values()} == {"fine"}


def test_a_machine_of_healthy_osts_has_no_sick_one() -> None:
    for seed in range(20):
        slowness = noise(np.random.default_rng(seed), 30, 200, 0.5)
        assert {h.verdict for h in health(slowness.tolist(), files=50).values()} == {"fine"}


def test_a_little_slower_is_not_sick_however_sure_it_is() -> None:
    slowness = noise(np.random.default_rng(5), 200, 24, 0.01)
    slowness[:, 2] *= 1.5
    assert {h.verdict for h in health(slowness.tolist()).values()} == {"fine"}


def test_runs_on_few_osts_or_with_the_same_slowness_everywhere_tell_nothing() -> None:
    nothing = [[1.0, 1.0, 9.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    assert {(h.compared_runs, h.slowness, h.p_value) for h in health(nothing).values()} == {(0, None, None)}


def test_no_observation_at_all_leaves_what_is_known_of_each_ost() -> None:
    sums = [OstSums(ost=3, runs=2, files=4, total_bytes=100, io_time=1.5)]
    (found,) = ost_health(sums, np.empty(0, dtype=OBSERVATION))
    assert (found.verdict, found.total_bytes, found.because) == (
        "too little data",
        100,
        "no run compares it with others",
    )


def test_the_worst_comes_first_and_sick_ones_before_all() -> None:
    slowness = noise(np.random.default_rng(6), 10, 24, 0.02)
    slowness[:, 20] *= 3
    slowness[:, 4] *= 9
    slowness[:, 7] *= 1.4
    assert list(health(slowness.tolist()))[:3] == [4, 20, 7]


RUNS = st.lists(
    st.lists(st.sampled_from([0.5, 0.9, 1.0, 1.02, 1.1, 1.9, 2.0, 2.5, 30.0]), min_size=1, max_size=9),
    min_size=1,
    max_size=6,
)


@given(RUNS)
def test_slow_observations_agree_with_the_rule_applied_run_by_run(runs: list[list[float]]) -> None:
    rows = [(run, ost, 1, slow) for run, own in enumerate(runs) for ost, slow in enumerate(own)]
    observed = np.array(rows, dtype=OBSERVATION)
    expected = []
    for own in runs:
        if len(own) < 4 or len(set(own)) == 1:
            continue
        spread = max(1.4826 * float(np.median([abs(np.log(s)) for s in own])), LEAST_SPREAD)
        expected += [s >= SLOW and np.log(s) >= DEVIATIONS * spread for s in own]
    told = observed[is_comparable(observed)]
    assert was_slow(told).tolist() == pytest.approx(expected)
