"""`nsys`: Nsys-Allocator of the paper."""

from __future__ import annotations

from forebay.decide.policy import Input, allocator
from forebay.decide.view import View
from forebay.model.decision import Allocation


@allocator("nsys", inputs=[Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE], source="Bandet et al. 2024, IV-A")
def nsys(view: View) -> Allocation:
    """The number of targets by which the application loads the I/O system least."""
    return Allocation(tuple(view.n_sys.tolist()))
