"""How many targets each application gets, by one look at it: the policies that others are compared with."""

from __future__ import annotations

import math

from forebay.decide.policy import Input, allocator, clip_counts
from forebay.decide.view import View
from forebay.model.decision import Allocation


@allocator("random", source="Bandet et al. 2024, IV-A")
def random(view: View) -> Allocation:
    """Any number of targets that the curve is defined for, uniformly at random."""
    assert view.rng is not None, "the random policy is called with a generator"
    return Allocation(tuple(int(n) for n in view.rng.integers(view.first, view.last + 1)))


@allocator("static", inputs=[Input.COMPUTE_NODES], source="Bandet et al. 2024, IV-A")
def static(view: View) -> Allocation:
    """Targets in proportion to compute nodes, rounded half up, at least one."""
    targets, nodes = view.system.targets, view.system.compute_nodes
    return clip_counts(view, [math.floor(a.compute_nodes * targets / nodes + 0.5) for a in view.applications])


@allocator("best-bandwidth", inputs=[Input.N_PERF], source="Bandet et al. 2024, IV-A")
def best_bandwidth(view: View) -> Allocation:
    """The number of targets on which the application alone is fastest."""
    return Allocation(tuple(a.curve.n_perf for a in view.applications))


@allocator("nsys", inputs=[Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE], source="Bandet et al. 2024, IV-A")
def nsys(view: View) -> Allocation:
    """The number of targets by which the application loads the I/O system least."""
    return Allocation(tuple(view.n_sys.tolist()))


BASELINES = (random, static, best_bandwidth, nsys)
