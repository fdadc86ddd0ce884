"""What is known of the arms of one bandit, in one flat array of floats, and how a reward changes it."""

from collections.abc import Callable, Iterable

import numpy as np

from forebay.decide.tune.random_draws import below
from forebay.model.errors import BadInput
from forebay.model.kernels import Array, kernel

ARMS = 0  # how many
ORDERED = 1  # 1 if neighbours are alike, as windows are and names of schedulers are not
STEPS = 2  # rewards so far
KEEP = 3  # what part of everything known outlives one more reward; 1 forgets nothing
CROWD = 4  # the largest load so far (see reward)
OPTIONS = 5  # the tuner's own
HEAD = 9
BLOCKS = 4  # counts, means, squares and priors, one number an arm each
LEAST = 1e-9  # what counts as nothing: an arm so long forgotten is an untried one


def new_bandit(arms: int, *, ordered: bool = False, half_life: float = 0.0, options: Iterable[float] = ()) -> Array:
    """Of which nothing is known; each reward halves the weight of the one `half_life` rewards earlier, 0 never."""
    settings = [float(option) for option in options]
    if arms < 1:
        raise BadInput("tuner", "there must be one value at least to choose from")
    if len(settings) > HEAD - OPTIONS:
        raise BadInput("tuner", f"{len(settings)} options are more than the {HEAD - OPTIONS} there is room for")
    bandit = np.zeros(HEAD + BLOCKS * arms)
    bandit[ARMS], bandit[ORDERED], bandit[KEEP] = arms, ordered, keep_of(half_life)
    bandit[OPTIONS : OPTIONS + len(settings)] = settings
    priors(bandit)[:] = 1.0
    return bandit


def keep_of(half_life: float) -> float:
    """What part is kept at each reward, so that half is after `half_life` of them.

    >>> keep_of(1.0), keep_of(0.0)
    (0.5, 1.0)
    """
    if not 0 <= half_life < np.inf:
        raise BadInput("tuner", f"half_life must be 0 (nothing is forgotten) or a number of rewards, not {half_life}")
    return float(0.5 ** (1 / half_life)) if half_life else 1.0


def _block(which: int) -> Callable[[Array], Array]:
    """A kernel that gives one of the BLOCKS, to be read or changed in place."""

    @kernel
    def view(bandit: Array) -> Array:
        arms = np.int64(bandit[ARMS])
        return bandit[HEAD + which * arms : HEAD + (which + 1) * arms]

    return view


counts = _block(0)  # rewards of each arm, less what was forgotten
means = _block(1)  # the mean reward of each arm; 0 of an untried one
squares = _block(2)  # the sum of squared differences from its mean, for each arm
priors = _block(3)  # what to expect of an arm before it is tried, in any unit: only ratios matter
expected = priors  # its name in 0.1, for tuners of other packages


# Bez et al. 2019, section 4: Q <- Q + (R - Q) / N, where nothing is forgotten.
@kernel
def learn(bandit: Array, arm: int, reward: float) -> None:
    """`arm` earned `reward`, in any unit."""
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
    """Of any arm, without its sign; 0 if none was tried, or all earned nothing."""
    count, mean = counts(bandit), means(bandit)
    largest = 0.0
    for arm in range(count.size):
        if count[arm] >= LEAST:
            largest = max(largest, abs(mean[arm]))
    return largest


@kernel
def pooled_variance(bandit: Array, unit: float, prior: float, weight: float) -> float:
    """Of a reward about its arm's mean, in squares of `unit`; the deviation `prior` counts for `weight` rewards."""
    count, square = counts(bandit), squares(bandit)
    total, freedom = weight * prior**2, weight
    for arm in range(count.size):
        if count[arm] >= LEAST:
            total += square[arm] / unit / unit
            freedom += max(count[arm] - 1, 0.0)
    return total / freedom if freedom > 0 else 0.0


@kernel
def spread(bandit: Array, least: float) -> float:
    """The standard deviation of a reward about its arm's mean, and no less than `least` of the largest mean."""
    return float(max(np.sqrt(pooled_variance(bandit, 1.0, 0.0, 0.0)), least * largest_mean(bandit)))


@kernel
def find_untried(bandit: Array, chance: Array) -> int:
    """Any arm that was never tried, or was so long ago that nothing is left of it; -1 if there is none."""
    count = counts(bandit)
    candidates, arm = 0, -1
    for other in range(count.size):
        if count[other] < LEAST:
            candidates += 1
            if below(chance, candidates) == 0:
                arm = other
    return arm
