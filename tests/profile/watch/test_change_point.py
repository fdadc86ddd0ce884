"""Rises in noisy series: found where they are, and hardly ever where there is none."""

from collections.abc import Callable

import numpy as np
import pytest

from forebay.profile.watch.change_point import LEAST_AFTER, LEAST_BEFORE, MOST, adjust, find_rise, select_sure

Noise = Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]


def contaminated(rng: np.random.Generator, n: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return rng.normal(0, 0.1, n) + (rng.random(n) < 0.08) * rng.exponential(1.5, n)


NOISES: dict[str, Noise] = {
    "lognormal": lambda rng, n: rng.normal(0, 0.3, n),
    "heavy tails": lambda rng, n: 0.2 * rng.standard_t(3, n),
    "skewed": lambda rng, n: np.log(1 + rng.exponential(1, n)),
    "outliers": contaminated,
}


@pytest.mark.parametrize("name", NOISES)
def test_noise_alone_is_hardly_ever_a_rise(name: str) -> None:
    rng = np.random.default_rng(3)
    rises = [find_rise(NOISES[name](rng, int(rng.integers(15, 120)))) for _ in range(1000)]
    chances = np.array([rise.p_value for rise in rises if rise is not None])
    assert select_sure(chances, 1000)[0].sum() <= 1


@pytest.mark.parametrize("name", ["lognormal", "outliers"])
def test_a_rise_is_found_where_it_is(name: str) -> None:
    rng, away = np.random.default_rng(4), []
    for _ in range(100):
        logs = NOISES[name](rng, 50)
        logs[38:] += np.log(2.5)
        rise = find_rise(logs)
        if rise is not None and rise.p_value < 1e-4:
            away.append(abs(rise.first - 38))
            assert rise.before + rise.after == 50 and 1.5 < rise.ratio < 4
    assert len(away) >= 95
    assert np.mean(away) < 1


def test_a_rise_that_is_over_is_none() -> None:
    logs = np.random.default_rng(5).normal(0, 0.1, 60)
    logs[20:40] += 1.0
    assert find_rise(logs) is None
    assert find_rise(logs[:40]) is not None


def test_a_fall_and_a_small_rise_are_none() -> None:
    logs = np.random.default_rng(6).normal(0, 0.05, 60)
    assert find_rise(logs - (np.arange(60) > 30)) is None
    assert find_rise(logs + 0.15 * (np.arange(60) > 30)) is None


@pytest.mark.parametrize("size", [0, 1, LEAST_BEFORE + LEAST_AFTER - 1])
def test_too_few_values_say_nothing(size: int) -> None:
    assert find_rise(np.zeros(size)) is None


def test_values_without_noise_rise_exactly() -> None:
    rise = find_rise(np.repeat([0.0, np.log(2)], [30, 10]))
    assert rise is not None
    assert rise.first == 30
    assert [rise.ratio, rise.level] == pytest.approx([2, 2])


def test_only_the_newest_values_of_a_long_series_count() -> None:
    logs = np.repeat([-5.0, 0.0, np.log(3)], [1000, MOST - 20, 20])
    logs += np.random.default_rng(7).normal(0, 0.1, logs.size)
    rise = find_rise(logs)
    assert rise is not None and rise.first == 1000 + MOST - 20 and rise.before == MOST - 20


def test_values_that_follow_each_other_prove_less() -> None:
    rng = np.random.default_rng(8)
    steps = rng.normal(0, 0.3, 80)
    for i in range(1, 80):
        steps[i] += 0.7 * steps[i - 1]
    steps[60:] += np.log(4)
    mixed = np.concatenate((rng.permutation(steps[:60]), rng.permutation(steps[60:])))
    alike, apart = find_rise(steps), find_rise(mixed)
    assert alike is not None and apart is not None and alike.p_value > 10 * apart.p_value


def test_p_values_are_adjusted_as_benjamini_and_hochberg_do() -> None:
    assert adjust(np.array([0.01, 0.04, 0.03]), 4) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3])
    sure, _, limit = select_sure(np.array([0.002, 0.04, 0.03]), 4)
    assert (sure.tolist(), limit) == ([True, False, False], 0.0025)
