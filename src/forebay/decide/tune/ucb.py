"""`ucb`: the value that could be best."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.tune.bandit import OPTIONS, counts, means, spread, untried
from forebay.decide.tune.random_draws import largest
from forebay.model.kernels import kernel

_LEAST_NOISE = 0.01


# Auer, Cesa-Bianchi and Fischer 2002: UCB1. Its rewards are between 0 and 1; ours are bytes a second, so that their
# own spread, shared by all arms, is the unit of the bonus.
@kernel
def ucb(bandit: Any, chance: Any) -> int:
    """The highest mean plus `width` standard deviations x sqrt(2 ln rewards / rewards of that value)."""
    arm = untried(bandit, chance)
    if arm >= 0:
        return arm
    count = counts(bandit)
    unit = bandit[OPTIONS] * spread(bandit, _LEAST_NOISE) * np.sqrt(2 * np.log(max(count.sum(), 1.0)))
    return largest(means(bandit) + unit / np.sqrt(count), chance)
