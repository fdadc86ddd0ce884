"""A machine has targets and compute nodes."""

import math

import pytest

from forebay.model.system import System


@pytest.mark.parametrize(("targets", "nodes"), [(0, 1.0), (-1, 1.0), (1, 0.0), (1, -3.0), (1, math.nan)])
def test_a_machine_without_targets_or_compute_nodes_is_refused(targets: int, nodes: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        System(targets=targets, compute_nodes=nodes)
