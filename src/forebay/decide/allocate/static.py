"""`static`: what machines do whose compute nodes are wired to their I/O nodes."""

from __future__ import annotations

import math

from forebay.decide.policy import Input, allocator, bounded
from forebay.decide.view import View
from forebay.model.decision import Allocation


@allocator("static", inputs=[Input.COMPUTE_NODES], source="Bandet et al. 2024, IV-A")
def static(view: View) -> Allocation:
    """Targets in proportion to compute nodes, rounded half up, at least one."""
    targets, nodes = view.system.targets, view.system.compute_nodes
    return bounded(view, [math.floor(a.compute_nodes * targets / nodes + 0.5) for a in view.applications])
