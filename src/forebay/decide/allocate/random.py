"""`random`: the baseline."""

from __future__ import annotations

from forebay.decide.policy import allocator
from forebay.decide.view import View
from forebay.model.decision import Allocation


@allocator("random", source="Bandet et al. 2024, IV-A")
def random(view: View) -> Allocation:
    """Any number of targets that the curve is defined for, uniformly at random."""
    assert view.rng is not None, "the random policy is called with a generator"
    return Allocation(tuple(int(n) for n in view.rng.integers(view.first, view.last + 1)))
