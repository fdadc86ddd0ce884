"""`best-bandwidth`: BestBdw of the paper."""

from __future__ import annotations

from forebay.decide.policy import Input, allocator
from forebay.decide.view import View
from forebay.model.decision import Allocation


@allocator("best-bandwidth", inputs=[Input.N_PERF], source="Bandet et al. 2024, IV-A")
def best_bandwidth(view: View) -> Allocation:
    """The number of targets on which the application alone is fastest."""
    return Allocation(tuple(a.curve.n_perf for a in view.applications))
