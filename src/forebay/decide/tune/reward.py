"""What a period was worth to the value that was in force.

By `bandwidth`, as in Bez et al. 2019: a period with little to do looks like a bad value. By `demand`, it is compared
only with periods in which as much was asked for. That can't be seen from how many requests were there, of which a bad
value makes more: but of `processes` that have one request each, those whose requests are not here are computing, and
so by Little's law each computes for (processes - requests here) / (requests a second) seconds between two requests.
How long programs compute does not depend on how they are served. So a situation has one bandit for each of some
classes of that time; what is best with little to do and what is best under load are learned apart.
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
"""By reward, how many bandits a situation has."""
REWARDS = tuple(CLASSES)
_SHORTEST = 0.8e-3  # seconds between requests below which the network and the program's own calls are all there is
_WIDTH = 4.0  # from one class to the next


def new_stack(policy: Policy, reward: str, arms: int, *, ordered: bool = False) -> Array:
    """The bandits of one situation, one in each row, of which nothing is known."""
    return np.tile(bandit_for(policy, arms, ordered=ordered), (CLASSES[reward], 1))


def credit(stack: Array, arm: int, periods: Sequence[Observation]) -> None:
    """Reward `arm` for what I/O nodes observed with it, by the mean; nothing is learned where nothing was asked for."""
    if any(seen.requests for seen in periods):
        stack[0][CROWD] = max(stack[0][CROWD], *(seen.load for seen in periods))
        learn(current(stack, periods), arm, float(np.mean([seen.bandwidth for seen in periods])))


def current(stack: Array, periods: Sequence[Observation]) -> Array:
    """The bandit for as much demand as there was."""
    return stack[demand(pause(periods, stack[0][CROWD]), len(stack))]


def pause(periods: Sequence[Observation], crowd: float = 0.0) -> float:
    """Seconds that a process computes between two requests, on average.

    Where it is not known how many processes there are, or they have several requests each, as many requests as were
    ever here at once (`crowd`) stand for them.

    >>> pause([Observation(seconds=1.0, reads=1000, load=28.0, processes=128)])
    0.1
    """
    rate = sum(seen.requests / seen.seconds for seen in periods)
    away = sum(max(seen.processes, crowd, seen.load) - seen.load for seen in periods)
    return away / rate if rate else math.inf


def demand(seconds: float, classes: int) -> int:
    """The class of such a pause: 0 is the highest demand.

    >>> [demand(seconds, 6) for seconds in (0.0, 0.0007, 0.001, 0.1, 1e9)]
    [0, 0, 1, 4, 5]
    """
    if seconds < _SHORTEST:
        return 0
    return min(1 + int(math.log(min(seconds / _SHORTEST, 1e12), _WIDTH)), classes - 1)


_FAR = 4  # doublings from which on a situation tells nothing
_ENOUGH = 10.0  # rewards from which on a situation is fully heard


def inherit(stack: Array, situation: Situation, known: Mapping[Situation, Array]) -> None:
    """Let a new stack expect of each arm what it earned in similar situations, at the same demand."""
    near = {other: 2.0 ** -distance(situation, other) for other in known if other != situation}
    for at, row in enumerate(stack):
        others = [(share * _weight(known[other][at]), known[other][at]) for other, share in near.items()]
        others = [(weight, other) for weight, other in others if weight >= 2.0**-_FAR]
        if others:
            weights = np.array([weight for weight, _ in others])
            priors(row)[:] = weights @ np.array([_shares(other) for _, other in others]) / weights.sum()


def _weight(bandit: Array) -> float:
    """How much is known there, up to 1; nothing if it earned nothing."""
    return min(float(counts(bandit).sum()) / _ENOUGH, 1.0) if means(bandit).max() > 0 else 0.0


def _shares(bandit: Array) -> Array:
    """Of the best mean, for each arm; an untried arm is as good as the others are in the middle."""
    tried = counts(bandit) >= LEAST
    shares = np.clip(means(bandit) / means(bandit).max(), 0.05, 1.0)
    return np.where(tried, shares, np.median(shares[tried]))
