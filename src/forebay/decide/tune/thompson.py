"""`thompson`: each value as often as it is likely to be the best."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.tune.bandit import counts, means, spread, untried
from forebay.decide.tune.random_draws import largest, normal
from forebay.model.kernels import kernel

_LEAST_NOISE = 0.01


@kernel
def thompson(bandit: Any, chance: Any) -> int:
    """The highest of one draw for each value from the bell curve in which its true mean lies."""
    arm = untried(bandit, chance)
    if arm >= 0:
        return arm
    count, mean = counts(bandit), means(bandit)
    noise = spread(bandit, _LEAST_NOISE)
    drawn = np.empty(mean.size)
    for other in range(mean.size):
        drawn[other] = mean[other] + normal(chance) * noise / np.sqrt(count[other])
    return largest(drawn, chance)
