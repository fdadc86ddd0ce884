"""Fair sharing: every resource divides its capacity equally among the flows on it.

The kernel knows resources and flows, never disks or applications. A resource keeps a virtual
clock that runs at 1 / (flows on it): the work that each of them has had done so far. A flow
that arrives when the clock says v with work w is finished when the clock says v + w, whatever
happens in between, so a tournament of these finishing marks is all that is needed, and an
arrival or departure costs O(log flows).

Each flow on a resource has a seat there, from 0 up. The marks of all resources are one array, in
which each has its own tree. Who knows all flows beforehand gives each its seat (`arrive`, `depart`);
`Flows` assigns seats as flows begin and end, and keeps whose flow it is.
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
    """Idle resources, resource r with `seats[r]` seats; and their marks."""
    idle = np.zeros(len(seats), dtype=RESOURCE)
    idle["size"] = players(seats)
    idle["base"][1:] = np.cumsum(2 * idle["size"])[:-1]
    idle["seats"][1:] = np.cumsum(seats)[:-1]
    return idle, np.full(2 * idle["size"].sum(), np.inf)


@hot_kernel
def next_finish(resource: Array, marks: Array) -> float:
    """When the next flow finishes if nobody comes or goes before; inf if it is idle."""
    if resource.live == 0:
        return np.inf
    return resource.since + (marks[np.uint64(resource.base + 1)] - resource.clock) * resource.live  # type: ignore[no-any-return]


@hot_kernel
def arrive(resource: Array, marks: Array, seat: int, work: float, now: float) -> None:
    """A flow takes its seat with `work` seconds of work (alone)."""
    if resource.live > 0:
        resource.busy += now - resource.since
        resource.clock += (now - resource.since) / resource.live
    else:
        resource.clock = 0.0  # an idle resource starts afresh, so rounding errors don't add up
    resource.since = now
    resource.live += 1
    put(marks, resource.base, resource.size, seat, resource.clock + work)


@hot_kernel
def depart(resource: Array, marks: Array, bits: Array, now: float) -> int:
    """The flow that finishes first leaves, at the time that `next_finish` told; returns its seat."""
    seat = first(bits, resource.base, resource.size)
    resource.busy += now - resource.since
    resource.since = now
    resource.clock = marks[np.uint64(resource.base + 1)]  # exactly, where adding up would only come close
    resource.live -= 1
    put(marks, resource.base, resource.size, seat, np.inf)
    return seat


class Flows(NamedTuple):
    """Resources and the flows on them, each with a seat and an owner, which is any number from 0 up."""

    resources: Array
    marks: Array
    finishing: Array  # tournament over the resources: when the next flow on each ends
    owners: Array  # of every seat: whose flow it is; of a free one, the resource's next free seat, or -1
    most: Array  # [seats of a resource, the most flows that have ever been on one]


def new_flows(count: int, seats: int) -> Flows:
    """`count` idle resources with `seats` seats each."""
    idle, marks = resources(np.full(count, seats))
    owners = np.tile(np.append(np.arange(1, seats), -1), count)
    return Flows(idle, marks, tournament(np.full(count, np.inf)), owners, np.array([seats, 0]))


def with_more_seats(flows: Flows) -> Flows:
    """The same flows with twice as many seats on every resource."""
    count, seats = flows.resources.size, int(flows.most[0])
    larger = new_flows(count, 2 * seats)
    for column in ("live", "free", "clock", "since", "busy"):
        larger.resources[column] = flows.resources[column]
    for old, new in zip(flows.resources, larger.resources, strict=True):
        leaves = flows.marks[old["base"] + old["size"] :][:seats]
        tree = tournament(np.append(leaves, np.full(seats, np.inf)))
        larger.marks[new["base"] : new["base"] + tree.size] = tree
        owners = flows.owners[old["seats"] :][:seats]  # the chain of free ones goes on with the new seats
        larger.owners[new["seats"] :][:seats] = np.where(owners == -1, seats, owners)
        new["free"] = seats if old["free"] == -1 else old["free"]
    larger.most[1] = flows.most[1]
    return larger._replace(finishing=flows.finishing)


@hot_kernel
def has_seats(flows: Array, more: int) -> bool:
    """Whether `more` flows are sure to find a seat, whichever resources they go to."""
    return flows.most[1] + more <= flows.most[0]  # type: ignore[no-any-return]


@hot_kernel
def begin_flow(flows: Array, which: int, owner: int, work: float, now: float) -> None:
    """A flow begins on resource `which`, with `work` seconds of work (alone). There must be a seat for it."""
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
    """The flow that ends first, at `now` by `finishing`, leaves; returns its owner."""
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
