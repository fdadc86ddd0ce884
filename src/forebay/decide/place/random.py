"""`random`: what happens on machines that don't look."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.decide.policy import placer
from forebay.decide.view import View
from forebay.model.decision import Placement


@placer("random", source="Bandet et al. 2024, IV-B")
def random(view: View, counts: Sequence[int]) -> Placement:
    """Different targets for each application, uniformly at random."""
    rng = view.rng
    assert rng is not None, "the random policy is called with a generator"
    return tuple(tuple(sorted(rng.choice(view.system.targets, n, replace=False).tolist())) for n in counts)
