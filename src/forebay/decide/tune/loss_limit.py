"""Limits what learning may cost: all rewards together stay close to those of one plain value.

Conservative bandits (Wu et al. 2016): another value is tried only if the rewards so far make up for the worst that it
is expected to earn. So a value that does not pay is given up, and one that does pays for more trials.
"""

from forebay.decide.tune.bandit import LEAST, counts, means
from forebay.model.kernels import Array, kernel

MOST_LOSS = 0.02
"""The share of the plain value's rewards that learning may cost."""
_UNTRIED = 0.5
"""What an untried value is expected to earn at worst, as a share of the plain value's rewards."""


@kernel
def is_affordable(bandit: Array, arm: int, plain: int, most_loss: float) -> bool:
    """Whether `arm` can be used now without losing more than `most_loss` of what the arm `plain` would have earned."""
    count, mean = counts(bandit), means(bandit)
    if arm == plain:
        return True
    if count[plain] < LEAST:
        return False
    normal = mean[plain]
    earned, steps = 0.0, 0.0
    for other in range(count.size):
        if count[other] >= LEAST:
            earned += count[other] * mean[other]
            steps += count[other]
    known = count[arm] if count[arm] >= LEAST else 0.0
    worst = (known * mean[arm] + _UNTRIED * normal) / (known + 1.0)
    return bool(earned + worst >= (1.0 - most_loss) * (steps + 1.0) * normal)
