"""An allocation policy in a package of its own."""

import math

from forebay.decide.policy import Input, allocator, clip_counts
from forebay.decide.view import View
from forebay.model.decision import Allocation


@allocator("square-root", inputs=[Input.COMPUTE_NODES], source="an example")
def square_root(view: View, *, scale: float = 1.0) -> Allocation:
    """Targets in proportion to the square root of the compute nodes, so that small jobs get their part."""
    roots = [math.sqrt(a.compute_nodes) for a in view.applications]
    share = scale * view.system.targets / sum(roots)
    return clip_counts(view, [math.ceil(root * share) for root in roots])
