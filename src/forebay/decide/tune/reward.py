"""The reward of a period for the value in force.

`bandwidth` is the reward of Bez et al. 2019: with it, a period with little demand makes a good value look bad.
`demand` compares a period only with periods of equal demand. The number of waiting requests does not show the demand,
because a bad value makes more requests wait. But if each of `processes` has one request, those without one here are
computing. By Little's law, each computes for (processes - requests here) / (requests per second) seconds between two
requests. This time does not depend on how requests are served. So a situation has one bandit for each class of this
time, and values for low and high demand are learned separately.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from forebay.decide.policy import Policy
from forebay.decide.tune.bandit import CROWD, LEAST, counts, learn, means, priors
from forebay.decide.tune.tuners import bandit_for
from forebay.model.kernels import Array
from forebay.model.observation import Observation
from forebay.model.situation import Situation, distance

CLASSES = {"bandwidth": 1, "demand": 6}
"""The number of bandits of a situation, by reward."""
REWARDS = tuple(CLASSES)
_SHORTEST = 0.8e-3  # seconds between requests; shorter pauses are only network and system calls
_WIDTH = 4.0  # the ratio between neighbouring classes


def new_stack(policy: Policy, reward: str, arms: int, *, ordered: bool = False) -> Array:
    """Return the untried bandits of one situation, one in each row."""
    return np.tile(bandit_for(policy, arms, ordered=ordered), (CLASSES[reward], 1))


def credit(stack: Array, arm: int, periods: Sequence[Observation]) -> None:
    """Reward `arm` with the mean bandwidth that I/O nodes observed with it; periods without requests teach nothing."""
    if any(period.requests for period in periods):
        stack[0][CROWD] = max(stack[0][CROWD], *(period.load for period in periods))
        learn(current(stack, periods), arm, float(np.mean([period.bandwidth for period in periods])))


def current(stack: Array, periods: Sequence[Observation]) -> Array:
    """Return the bandit for the demand in these periods."""
    return stack[demand(pause(periods, stack[0][CROWD]), len(stack))]


def pause(periods: Sequence[Observation], crowd: float = 0.0) -> float:
    """Return the mean seconds that a process computes between two requests.

    If the number of processes is unknown, or each has several requests, the most requests that were ever here at once
    (`crowd`) stand in for it.

    >>> pause([Observation(seconds=1.0, reads=1000, load=28.0, processes=128)])
    0.1
    """
    rate = sum(period.requests / period.seconds for period in periods)
    away = sum(max(period.processes, crowd, period.load) - period.load for period in periods)
    return away / rate if rate else math.inf


def demand(seconds: float, classes: int) -> int:
    """Return the demand class of a pause in seconds: 0 is the highest demand.

    >>> [demand(seconds, 6) for seconds in (0.0, 0.0007, 0.001, 0.1, 1e9)]
    [0, 0, 1, 4, 5]
    """
    if seconds < _SHORTEST:
        return 0
    return min(1 + int(math.log(min(seconds / _SHORTEST, 1e12), _WIDTH)), classes - 1)


_FAR = 4  # doublings; situations that differ more are ignored
_ENOUGH = 10.0  # rewards that give a situation its full weight


def inherit(stack: Array, situation: Situation, known: Mapping[Situation, Array]) -> None:
    """Set the priors of a new stack from what each arm earned in similar situations at the same demand."""
    near = {other: 2.0 ** -distance(situation, other) for other in known if other != situation}
    for at, row in enumerate(stack):
        others = [(share * _weight(known[other][at]), known[other][at]) for other, share in near.items()]
        others = [(weight, other) for weight, other in others if weight >= 2.0**-_FAR]
        if others:
            weights = np.array([weight for weight, _ in others])
            priors(row)[:] = weights @ np.array([_shares(other) for _, other in others]) / weights.sum()


def _weight(bandit: Array) -> float:
    """Return how much a bandit knows, from 0 to 1; 0 if it earned nothing."""
    return min(float(counts(bandit).sum()) / _ENOUGH, 1.0) if means(bandit).max() > 0 else 0.0


def _shares(bandit: Array) -> Array:
    """Return each arm's share of the best mean; an untried arm gets the median of the others."""
    tried = counts(bandit) >= LEAST
    shares = np.clip(means(bandit) / means(bandit).max(), 0.05, 1.0)
    return np.where(tried, shares, np.median(shares[tried]))
