"""A small centre: 24 disk targets in 4 pools, 8 flash targets, 100 nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forebay.simulate.centre.machine import Centre, read_centre
from forebay.simulate.centre.workload import Workload, read_workload

EXAMPLE = Path(__file__).parents[2] / "examples" / "exascale"


def small_centre(**capacity: Any) -> Centre:
    """The example's machine, smaller; `capacity` replaces numbers of its disks."""
    whole = read_centre(EXAMPLE / "machine.toml")
    disks = {"osts": 24, "pools": 4, "read": 150e9, "write": 120e9} | capacity
    flash = {"osts": 8, "capacity": 80e12, "bandwidth": 240e9}
    layout = {
        "most": 24,
        "default": whole.layout.default.model_copy(update={"count": 4, "head": 1e12}),
        "by_hand": whole.layout.by_hand.model_copy(update={"count": 12}),
    }
    return whole.model_copy(
        update={
            "compute": whole.compute.model_copy(update={"nodes": 100}),
            "capacity": whole.capacity.model_copy(update=disks),
            "flash": whole.flash.model_copy(update=flash),
            "layout": whole.layout.model_copy(update=layout),
        }
    )


def small_workload(days: float = 1.0, **changes: Any) -> Workload:
    """The example's jobs for such a machine; `changes` replace tables."""
    whole = read_workload(EXAMPLE / "workload.toml")
    sizes = {"capability": [20, 100], "large": [4, 19], "small": [1, 3]}
    kinds = [k.model_copy(update={"nodes": sizes[k.name], "applications": 6}) for k in whole.kind]
    month = whole.month.model_copy(update={"days": days})
    policies = whole.policies.model_copy(update={"split": 500e9})
    return whole.model_copy(update={"kind": kinds, "month": month, "policies": policies} | changes)
