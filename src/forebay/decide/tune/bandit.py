"""A bandit: a flat array of floats with what is known about each arm, and how a reward changes it."""

from collections.abc import Callable, Iterable

import numpy as np

from forebay.decide.tune.random_draws import below
from forebay.model.errors import BadInput
from forebay.model.kernels import Array, kernel, name_kernel

ARMS = 0  # number of arms
ORDERED = 1  # 1 if neighbours are alike: windows are, names of schedulers are not
STEPS = 2  # rewards so far
KEEP = 3  # share of the knowledge that survives one more reward; 1 forgets nothing
CROWD = 4  # the largest load so far (see reward)
OPTIONS = 5  # of the tuner
HEAD = 9
BLOCKS = 4  # counts, means, squares and priors, one number an arm each
LEAST = 1e-9  # an arm with a smaller count is untried or forgotten


def new_bandit(arms: int, *, ordered: bool = False, half_life: float = 0.0, options: Iterable[float] = ()) -> Array:
    """Return an untried bandit. A reward counts half after `half_life` more rewards; 0 forgets nothing."""
    settings = [float(option) for option in options]
    if arms < 1:
        raise BadInput("tuner", "needs at least one value to choose from")
    if len(settings) > HEAD - OPTIONS:
        raise BadInput("tuner", f"has {len(settings)} options; at most {HEAD - OPTIONS} are possible")
    bandit = np.zeros(HEAD + BLOCKS * arms)
    bandit[ARMS], bandit[ORDERED], bandit[KEEP] = arms, ordered, keep_of(half_life)
    bandit[OPTIONS : OPTIONS + len(settings)] = settings
    priors(bandit)[:] = 1.0
    return bandit


def keep_of(half_life: float) -> float:
    """Return the share to keep at each reward, so that half remains after `half_life` rewards.

    >>> keep_of(1.0), keep_of(0.0)
    (0.5, 1.0)
    """
    if not 0 <= half_life < np.inf:
        raise BadInput("tuner", f"half_life must be 0 (forget nothing) or a number of rewards, not {half_life}")
    return float(0.5 ** (1 / half_life)) if half_life else 1.0


def _block(which: int, name: str) -> Callable[[Array], Array]:
    """Return a kernel that gives access to one of the BLOCKS, to read or change in place."""

    def view(bandit: Array) -> Array:
        arms = np.int64(bandit[ARMS])
        return bandit[HEAD + which * arms : HEAD + (which + 1) * arms]

    return kernel(name_kernel(view, name))


counts = _block(0, "counts")  # rewards of each arm, minus those forgotten
means = _block(1, "means")  # mean reward of each arm; 0 if untried
squares = _block(2, "squares")  # sum of squared differences from the mean, for each arm
priors = _block(3, "priors")  # expected reward of each arm before it is tried; only ratios matter
expected = priors  # its name in 0.1, for tuners of other packages


# Bez et al. 2019, section 4: Q <- Q + (R - Q) / N, where nothing is forgotten.
@kernel
def learn(bandit: Array, arm: int, reward: float) -> None:
    """Record that `arm` earned `reward`, in any unit."""
    count, mean, square = counts(bandit), means(bandit), squares(bandit)
    if bandit[KEEP] < 1:
        count *= bandit[KEEP]
        square *= bandit[KEEP]
    bandit[STEPS] += 1
    if count[arm] < LEAST:
        count[arm], mean[arm], square[arm] = 0.0, 0.0, 0.0
    count[arm] += 1
    before = reward - mean[arm]
    mean[arm] += before / count[arm]
    square[arm] += before * (reward - mean[arm])


@kernel
def largest_mean(bandit: Array) -> float:
    """Return the largest absolute mean of any arm; 0 if no arm was tried or earned anything."""
    count, mean = counts(bandit), means(bandit)
    largest = 0.0
    for arm in range(count.size):
        if count[arm] >= LEAST:
            largest = max(largest, abs(mean[arm]))
    return largest


@kernel
def pooled_variance(bandit: Array, unit: float, prior: float, weight: float) -> float:
    """Return the variance of rewards about their arm's mean, in `unit` squared; `prior` counts as `weight` rewards."""
    count, square = counts(bandit), squares(bandit)
    total, freedom = weight * prior**2, weight
    for arm in range(count.size):
        if count[arm] >= LEAST:
            total += square[arm] / unit / unit
            freedom += max(count[arm] - 1, 0.0)
    return total / freedom if freedom > 0 else 0.0


@kernel
def spread(bandit: Array, least: float) -> float:
    """Return the standard deviation of rewards about their arm's mean, at least `least` times the largest mean."""
    return float(max(np.sqrt(pooled_variance(bandit, 1.0, 0.0, 0.0)), least * largest_mean(bandit)))


@kernel
def find_untried(bandit: Array, chance: Array) -> int:
    """Return a random arm that is untried or forgotten; -1 if there is none."""
    count = counts(bandit)
    candidates, arm = 0, -1
    for other in range(count.size):
        if count[other] < LEAST:
            candidates += 1
            if below(chance, candidates) == 0:
                arm = other
    return arm
