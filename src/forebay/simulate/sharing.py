"""Fair sharing: every resource divides its capacity equally among the flows on it.

The kernel knows resources and flows, not disks or applications. A resource has a virtual clock
that runs at 1 / (flows on it): the work done for each flow so far. A flow with work w that
arrives at clock time v finishes at clock time v + w, whatever happens in between. So a
tournament of these finishing marks is enough, and an arrival or departure costs O(log flows).

Each flow on a resource has a seat there, from 0 up. One array has the marks of all resources,
with a tree for each. A caller that knows all flows in advance assigns seats itself (`arrive`,
`depart`); `Flows` assigns seats as flows begin and end, and keeps their owners.
"""

from typing import Any, NamedTuple

import numpy as np

from forebay.model.kernels import Array, hot_kernel
from forebay.simulate.tournament import first, players, put, tournament

RESOURCE = np.dtype(
    [
        ("base", np.int64),  # its tree in the marks
        ("seats", np.int64),  # number of its first seat, counted over all resources
        ("clock", np.float64),  # its virtual clock, in seconds of work, as of `since`
        ("since", np.float64),  # the time at which `clock` was set
        ("busy", np.float64),  # seconds with at least one flow, until `since`
        ("size", np.int32),  # leaves of its tree
        ("live", np.int32),  # flows on it now
        ("free", np.int64),  # its first free seat, or -1, where seats are assigned (`Flows`)
    ]
)


def resources(seats: Array) -> tuple[Array, Any]:
    """Return idle resources, resource r with `seats[r]` seats, and their marks."""
    idle = np.zeros(len(seats), dtype=RESOURCE)
    idle["size"] = players(seats)
    idle["base"][1:] = np.cumsum(2 * idle["size"])[:-1]
    idle["seats"][1:] = np.cumsum(seats)[:-1]
    return idle, np.full(2 * idle["size"].sum(), np.inf)


@hot_kernel
def next_finish(resource: Array, marks: Array) -> float:
    """Return when the next flow finishes if none arrives or leaves before; inf if the resource is idle."""
    if resource.live == 0:
        return np.inf
    return resource.since + (marks[np.uint64(resource.base + 1)] - resource.clock) * resource.live  # type: ignore[no-any-return]


@hot_kernel
def arrive(resource: Array, marks: Array, seat: int, work: float, now: float) -> None:
    """Add a flow with `work` seconds of work (alone)."""
    if resource.live > 0:
        resource.busy += now - resource.since
        resource.clock += (now - resource.since) / resource.live
    else:
        resource.clock = 0.0  # an idle resource restarts its clock, so that rounding errors do not add up
    resource.since = now
    resource.live += 1
    put(marks, resource.base, resource.size, seat, resource.clock + work)


@hot_kernel
def depart(resource: Array, marks: Array, bits: Array, now: float) -> int:
    """Remove the flow that finishes first, at the time from `next_finish`. Return its seat."""
    seat = first(bits, resource.base, resource.size)
    resource.busy += now - resource.since
    resource.since = now
    resource.clock = marks[np.uint64(resource.base + 1)]  # exact, unlike a sum
    resource.live -= 1
    put(marks, resource.base, resource.size, seat, np.inf)
    return seat


class Flows(NamedTuple):
    """Resources and their flows. Each flow has a seat and an owner: a number from 0 up."""

    resources: Array
    marks: Array
    finishing: Array  # tournament over the resources: when the next flow on each ends
    owners: Array  # the owner of every seat; for a free seat, the resource's next free seat or -1
    most: Array  # [seats of a resource, the most flows on one so far]


def new_flows(count: int, seats: int) -> Flows:
    """Return `count` idle resources with `seats` seats each."""
    idle, marks = resources(np.full(count, seats))
    owners = np.tile(np.append(np.arange(1, seats), -1), count)
    return Flows(idle, marks, tournament(np.full(count, np.inf)), owners, np.array([seats, 0]))


def with_more_seats(flows: Flows) -> Flows:
    """Return the same flows with twice the seats on every resource."""
    count, seats = flows.resources.size, int(flows.most[0])
    larger = new_flows(count, 2 * seats)
    for column in ("live", "free", "clock", "since", "busy"):
        larger.resources[column] = flows.resources[column]
    for old, new in zip(flows.resources, larger.resources, strict=True):
        leaves = flows.marks[old["base"] + old["size"] :][:seats]
        tree = tournament(np.append(leaves, np.full(seats, np.inf)))
        larger.marks[new["base"] : new["base"] + tree.size] = tree
        owners = flows.owners[old["seats"] :][:seats]  # the chain of free seats continues with the new ones
        larger.owners[new["seats"] :][:seats] = np.where(owners == -1, seats, owners)
        new["free"] = seats if old["free"] == -1 else old["free"]
    larger.most[1] = flows.most[1]
    return larger._replace(finishing=flows.finishing)


@hot_kernel
def has_seats(flows: Array, more: int) -> bool:
    """Whether `more` flows find a seat on any resource."""
    return flows.most[1] + more <= flows.most[0]  # type: ignore[no-any-return]


@hot_kernel
def begin_flow(flows: Array, which: int, owner: int, work: float, now: float) -> None:
    """Begin a flow on resource `which` with `work` seconds of work (alone). The resource must have a free seat."""
    resource = flows.resources[np.uint64(which)]
    seat = resource.free
    at = np.uint64(resource.seats + seat)
    resource.free = flows.owners[at]
    flows.owners[at] = owner
    arrive(resource, flows.marks, seat, work, now)
    if resource.live > flows.most[1]:
        flows.most[1] = resource.live
    put(flows.finishing, 0, flows.finishing.size // 2, which, next_finish(resource, flows.marks))


@hot_kernel
def end_flow(flows: Array, now: float) -> int:
    """Remove the flow that ends first, at `now` according to `finishing`. Return its owner."""
    finishing = flows.finishing
    which = first(finishing.view(np.int64), 0, finishing.size // 2)
    resource = flows.resources[np.uint64(which)]
    seat = depart(resource, flows.marks, flows.marks.view(np.int64), now)
    at = np.uint64(resource.seats + seat)
    owner = flows.owners[at]
    flows.owners[at] = resource.free
    resource.free = seat
    put(finishing, 0, finishing.size // 2, which, next_finish(resource, flows.marks))
    return owner  # type: ignore[no-any-return]
