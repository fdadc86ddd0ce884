"""`epsilon-greedy` and `epsilon-decreasing`: mostly the best so far, now and then any."""

from __future__ import annotations

from typing import Any

from forebay.decide.tune.bandit import OPTIONS, STEPS, means
from forebay.decide.tune.random_draws import below, largest, uniform
from forebay.model.kernels import kernel


# Bez et al. 2019, section 4.
@kernel
def epsilon_greedy(bandit: Any, chance: Any) -> int:
    """The highest mean so far; with probability `epsilon`, any value."""
    return _greedy(bandit, chance, bandit[OPTIONS])


# Bez et al. 2019, section 6.1: "we could start with a high epsilon and decrease it over time".
@kernel
def epsilon_decreasing(bandit: Any, chance: Any) -> int:
    """As epsilon-greedy, with an `epsilon` that halves every `halving` rewards, down to `least`."""
    start, halving, least = bandit[OPTIONS], bandit[OPTIONS + 1], bandit[OPTIONS + 2]
    return _greedy(bandit, chance, max(start * 0.5 ** (bandit[STEPS] / halving), least))


@kernel
def _greedy(bandit: Any, chance: Any, epsilon: float) -> int:
    mean = means(bandit)
    if uniform(chance) < epsilon:
        return below(chance, mean.size)
    return largest(mean, chance)
