"""What similar situations tell of one that is new: in which order to try the arms.

No more than that: to take their word for which arms need no try cost more than it saved (measured on the 144
situations of the paper).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from forebay.decide.tune.bandit import LEAST, counts, expected, means
from forebay.model.situation import Situation, distance

_FAR = 4  # doublings from which on a situation tells nothing
_ENOUGH = 10.0  # rewards from which on a situation is fully heard


def inherit(stack: Any, situation: Situation, known: Mapping[Situation, Any]) -> None:
    """Let a new stack expect of each arm what it earned in similar situations, at the same demand."""
    near = {other: 2.0 ** -distance(situation, other) for other in known if other != situation}
    for at, row in enumerate(stack):
        told = [(share * _weight(known[other][at]), known[other][at]) for other, share in near.items()]
        told = [(weight, other) for weight, other in told if weight >= 2.0**-_FAR]
        if told:
            weights = np.array([weight for weight, _ in told])
            expected(row)[:] = weights @ np.array([_shares(other) for _, other in told]) / weights.sum()


def _weight(bandit: Any) -> float:
    """How much is known there, up to 1; nothing if it earned nothing."""
    return min(float(counts(bandit).sum()) / _ENOUGH, 1.0) if means(bandit).max() > 0 else 0.0


def _shares(bandit: Any) -> Any:
    """Of the best mean, for each arm; an untried arm is as good as the others are in the middle."""
    tried = counts(bandit) >= LEAST
    shares = np.clip(means(bandit) / means(bandit).max(), 0.05, 1.0)
    return np.where(tried, shares, np.median(shares[tried]))
