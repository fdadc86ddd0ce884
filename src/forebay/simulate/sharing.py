"""Fair sharing: every resource divides its capacity equally among the flows on it.

The kernel knows resources and flows, never disks or applications. A resource keeps a virtual
clock that runs at 1 / (flows on it): the work that each of them has had done so far. A flow
that arrives when the clock says v with work w is finished when the clock says v + w, whatever
happens in between, so a tournament of these finishing marks is all that is needed, and an
arrival or departure costs O(log flows).

Each flow that can ever be on a resource has a seat there, from 0 up. The marks of all
resources are one array, in which each has its own tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.model.kernels import kernel
from forebay.simulate.tournament import first, players, put

RESOURCE = np.dtype(
    [
        ("base", np.int64),  # its tree in the marks
        ("size", np.int32),  # leaves of that tree
        ("seats", np.int64),  # number of its first seat, counted over all resources
        ("live", np.int32),  # flows on it now
        ("clock", np.float64),  # its virtual clock, in seconds of work, as of `since`
        ("since", np.float64),  # the time at which `clock` was set
        ("busy", np.float64),  # seconds with at least one flow, until `since`
    ]
)


def resources(seats: Any) -> tuple[Any, Any]:
    """Idle resources, resource r with `seats[r]` seats; and their marks."""
    idle = np.zeros(len(seats), dtype=RESOURCE)
    idle["size"] = players(seats)
    idle["base"][1:] = np.cumsum(2 * idle["size"])[:-1]
    idle["seats"][1:] = np.cumsum(seats)[:-1]
    return idle, np.full(2 * idle["size"].sum(), np.inf)


@kernel
def next_finish(resource: Any, marks: Any) -> float:
    """When the next flow finishes if nobody comes or goes before; inf if it is idle."""
    if resource.live == 0:
        return np.inf
    return resource.since + (marks[np.uint64(resource.base + 1)] - resource.clock) * resource.live  # type: ignore[no-any-return]


@kernel
def arrive(resource: Any, marks: Any, seat: int, work: float, now: float) -> None:
    """A flow takes its seat with `work` seconds of work (alone)."""
    if resource.live > 0:
        resource.busy += now - resource.since
        resource.clock += (now - resource.since) / resource.live
    else:
        resource.clock = 0.0  # an idle resource starts afresh, so rounding errors don't add up
    resource.since = now
    resource.live += 1
    put(marks, resource.base, resource.size, seat, resource.clock + work)


@kernel
def depart(resource: Any, marks: Any, bits: Any, now: float) -> int:
    """The flow that finishes first leaves, at the time that `next_finish` told; returns its seat."""
    seat = first(bits, resource.base, resource.size)
    resource.busy += now - resource.since
    resource.since = now
    resource.clock = marks[np.uint64(resource.base + 1)]  # exactly, where adding up would only come close
    resource.live -= 1
    put(marks, resource.base, resource.size, seat, np.inf)
    return seat
