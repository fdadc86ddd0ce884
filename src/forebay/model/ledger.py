"""The ledger: how much space is booked on which disk, and when.

A booking holds `size` bytes of a disk over [start, end). Each disk has a timeline of its bookings' starts and ends
(see `timeline`), so that every query costs O(log bookings).

No query or change concerns a time before the horizon, so everything before it is folded into three numbers per disk.
If requests arrive in the order of their starts, only ends lie ahead, and a query on a disk takes constant time. The
caller moves `horizon[0]` forward.

The simulator and the live service share the ledger.
"""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, kernel
from forebay.model.system import Platform
from forebay.model.timeline import earliest, erase, events, find, insert, paths, take_first
from forebay.model.timeline_queries import changes, first_beyond, highest, last_end, latest_end, longest_within

DISK = np.dtype(
    [
        ("capacity", np.int64),
        ("write_bandwidth", np.float64),
        ("read_bandwidth", np.float64),
        ("node", np.int32),
        ("root", np.uint32),  # its timeline
        ("level", np.int64),  # bytes booked at the horizon
        ("live", np.int64),  # bookings at the horizon
        ("latest", np.float64),  # the latest end of those bookings
        ("next", np.float64),  # the first event of the timeline; inf if there is none
        ("ahead", np.int64),  # bookings of the timeline that have not started
    ]
)
NODE = np.dtype([("network_bandwidth", np.float64), ("capacity", np.int64), ("first", np.int32), ("disks", np.int32)])
SERVER = np.dtype([("first", np.int32), ("nodes", np.int32)])
_FREE, _USED, _SERIAL = 0, 1, 2


class Ledger(NamedTuple):
    """The bookings on all disks of a platform."""

    disks: Array
    nodes: Array
    servers: Array
    events: Array
    path: Array  # scratch
    horizon: Array  # one element: no query or change concerns an earlier time
    counters: Array  # [first free slot of `events`, slots ever used, bookings ever made]


def ledger(platform: Platform, *, bookings: int = 1024) -> Ledger:
    """An empty ledger with room for `bookings`; `widen` adds more."""
    nodes = np.zeros(len(platform.nodes), dtype=NODE)
    nodes["network_bandwidth"] = [node.network_bandwidth for node in platform.nodes]
    nodes["capacity"] = [sum(disk.capacity for disk in node.disks) for node in platform.nodes]
    disks_of = np.array([len(node.disks) for node in platform.nodes], dtype=np.int32)
    nodes["disks"], nodes["first"] = disks_of, np.cumsum(disks_of) - disks_of
    servers = np.zeros(len(platform.servers), dtype=SERVER)
    nodes_of = np.array([len(server.nodes) for server in platform.servers], dtype=np.int32)
    servers["nodes"], servers["first"] = nodes_of, np.cumsum(nodes_of) - nodes_of
    disks = np.zeros(len(platform.disks), dtype=DISK)
    for column in ("capacity", "write_bandwidth", "read_bandwidth"):
        disks[column] = [getattr(disk, column) for disk in platform.disks]
    disks["node"] = np.repeat(np.arange(nodes.size), disks_of)
    disks["latest"], disks["next"] = -np.inf, np.inf
    return Ledger(disks, nodes, servers, events(2 * bookings), paths(), np.array([-np.inf]), np.zeros(3, np.int64))


def widen(full: Ledger) -> Ledger:
    """The same ledger with room for twice as many bookings."""
    room = events(2 * (full.events.size - 1))
    room[: full.events.size] = full.events
    return full._replace(events=room)


@kernel
def has_room(ledger: Array, bookings: int) -> bool:
    """Whether this many more bookings fit for certain; if not, `widen` the ledger first."""
    return ledger.counters[_USED] + 2 * bookings < ledger.events.size  # type: ignore[no-any-return]


@kernel
def book(ledger: Array, disk: int, start: float, end: float, size: int) -> int:
    """Hold `size` bytes of a disk over [start, end); returns the booking's serial number."""
    counters = ledger.counters
    serial = counters[_SERIAL]
    counters[_SERIAL] += 1
    if start < end:
        fold(ledger, disk)
        record = ledger.disks[disk]
        if start <= ledger.horizon[0]:  # no query concerns the time before it
            record.level += size
            record.live += 1
            record.latest = max(record.latest, end)
        else:
            _enter(ledger, record, start, end, size, serial)
            record.ahead += 1
        _enter(ledger, record, end, start, -size, serial)
    return serial  # type: ignore[no-any-return]


@kernel
def _enter(ledger: Array, record: Array, time: float, other: float, size: int, serial: int) -> None:
    """Add a start to the disk's timeline, or an end if the size is negative."""
    new = _slot(ledger)
    event = ledger.events[new]
    event.time, event.end, event.size, event.serial = time, other, size, serial
    record.root = insert(ledger.events, record.root, new, ledger.path)
    record.next = min(record.next, time)


@kernel
def unbook(ledger: Array, disk: int, start: float, end: float, serial: int) -> None:
    """Remove a booking that has not ended by the horizon."""
    fold(ledger, disk)
    record = ledger.disks[disk]
    last = find(ledger.events, record.root, end, False, serial)
    if last == 0:  # its duration was 0
        return
    first = find(ledger.events, record.root, start, True, serial)
    if first != 0:
        _drop(ledger, record, first)
    else:
        record.level += ledger.events[last].size
        record.live -= 1
    _drop(ledger, record, last)
    _update_latest(ledger, record, end)


@kernel
def _update_latest(ledger: Array, record: Array, gone: float) -> None:
    """Find the latest end again if it was `gone`, the old end of a changed booking."""
    if record.latest == gone:
        record.latest = last_end(ledger.events, record.root, ledger.horizon[0], ledger.path)


@kernel
def shorten(ledger: Array, disk: int, start: float, end: float, sooner: float, serial: int) -> None:
    """Move the end of a booking to `sooner`, but not before the horizon."""
    if sooner <= start:
        unbook(ledger, disk, start, end, serial)
        return
    fold(ledger, disk)
    record = ledger.disks[disk]
    for begins in (True, False):
        at = find(ledger.events, record.root, start if begins else end, begins, serial)
        if at != 0:  # the start may be folded in already
            record.root = erase(ledger.events, record.root, at, ledger.path)
            event = ledger.events[at]
            if begins:
                event.end = sooner
            else:
                event.time = sooner
            record.root = insert(ledger.events, record.root, at, ledger.path)
    record.next = min(record.next, sooner)
    _update_latest(ledger, record, end)


@kernel
def _slot(ledger: Array) -> int:
    counters = ledger.counters
    free = counters[_FREE]
    if free != 0:
        counters[_FREE] = ledger.events[free].left
        return free  # type: ignore[no-any-return]
    counters[_USED] += 1
    return counters[_USED]  # type: ignore[no-any-return]


@kernel
def _drop(ledger: Array, record: Array, gone: int) -> None:
    record.root = erase(ledger.events, record.root, gone, ledger.path)
    _free(ledger, record, gone)


@kernel
def _free(ledger: Array, record: Array, gone: int) -> None:
    """Free the slot of an event that was just removed from the disk's timeline."""
    record.ahead -= ledger.events[gone].size > 0
    ledger.events[gone].left = ledger.counters[_FREE]
    ledger.counters[_FREE] = gone
    first = earliest(ledger.events, record.root)
    record.next = np.inf if first == 0 else ledger.events[first].time


@kernel
def fold(ledger: Array, disk: int) -> None:
    """Fold all events before the horizon into the disk's three numbers."""
    record = ledger.disks[disk]
    while record.next < ledger.horizon[0]:
        first, record.root = take_first(ledger.events, record.root, ledger.path)
        event = ledger.events[first]
        record.level += event.size
        if event.size > 0:
            record.live += 1
            record.latest = max(record.latest, event.end)
        else:
            record.live -= 1
        _free(ledger, record, first)


@kernel
def total_overlap(ledger: Array, disk: int, start: float, end: float) -> tuple[Array, Array]:
    """The bytes and the number of bookings that overlap [start, end)."""
    fold(ledger, disk)
    return _total_overlap(ledger.events, ledger.disks[disk], start, end)


overlapping = total_overlap  # its name in 0.1.0, for policies of other packages


@kernel
def peak(ledger: Array, disk: int, start: float, end: float) -> tuple[Array, Array]:
    """The most bytes, and the most bookings, at any time in [start, end)."""
    fold(ledger, disk)
    return _peak(ledger.events, ledger.disks[disk], start, end)


@kernel
def longest_overlap(ledger: Array, disk: int, start: float, end: float) -> Array:
    """The longest time in [start, end) that a single booking holds; 0 without bookings."""
    fold(ledger, disk)
    return _longest_overlap(ledger.events, ledger.disks[disk], start, end)


@kernel
def survey(ledger: Array, start: float, end: float, at_most: bool, taken: Array, others: Array) -> None:
    """Write `peak` of every disk if `at_most`, else `total_overlap`, into `taken` and `others`."""
    disks, timelines, horizon = ledger.disks, ledger.events, ledger.horizon[0]
    for disk in range(disks.size):
        record = disks[disk]
        if record.next < horizon:
            fold(ledger, disk)
        if _steady(record, start) and start < end:
            taken[disk], others[disk] = record.level, record.live
        elif at_most:
            taken[disk], others[disk] = _peak(timelines, record, start, end)
        else:
            taken[disk], others[disk] = _total_overlap(timelines, record, start, end)


@kernel
def survey_longest(ledger: Array, start: float, end: float, others: Array, longest: Array) -> None:
    """Write `longest_overlap` of every disk into `longest`; `others` is from a `survey`."""
    disks, timelines = ledger.disks, ledger.events
    for disk in range(disks.size):
        record = disks[disk]
        if record.ahead == 0:
            longest[disk] = max(0.0, min(end, record.latest) - start)
        elif others[disk] > 0:
            longest[disk] = _longest_overlap(timelines, record, start, end)
        else:
            longest[disk] = 0.0


# Numba counts references to every array in a tuple argument, so functions called for every disk get single arrays.


@kernel
def _steady(record: Array, start: float) -> bool:
    """Whether only ends are ahead, all later than `start`."""
    return record.ahead == 0 and record.next > start  # type: ignore[no-any-return]


@kernel
def _total_overlap(timelines: Array, record: Array, start: float, end: float) -> tuple[Array, Array]:
    if end <= start:
        return np.int64(0), np.int64(0)
    if _steady(record, start):
        return record.level, record.live
    total, live, plus, starts = changes(timelines, record.root, start, True)
    _, _, more, begun = changes(timelines, record.root, end, False)
    return record.level + total + more - plus, record.live + live + begun - starts


@kernel
def _peak(timelines: Array, record: Array, start: float, end: float) -> tuple[Array, Array]:
    if _steady(record, start):
        return record.level, record.live
    size, live, _, _ = changes(timelines, record.root, start, True)
    most, crowd = highest(timelines, record.root, start, end)
    return record.level + max(size, most), record.live + max(live, crowd)


@kernel
def _longest_overlap(timelines: Array, record: Array, start: float, end: float) -> Array:
    latest, inner = record.latest, 0.0
    if record.ahead > 0:
        latest = max(latest, latest_end(timelines, record.root, start))
        inner = longest_within(timelines, record.root, start, end)
    return max(0.0, max(min(end, latest) - start, inner))


@kernel
def next_free(ledger: Array, disk: int, size: int, start: float, duration: float) -> Array:
    """The earliest time from `start` on at which `size` bytes are free for `duration` seconds; inf if never."""
    fold(ledger, disk)
    record = ledger.disks[disk]
    limit = record.capacity - size
    if limit < 0:
        return np.inf
    limit -= record.level
    total, _, _, _ = changes(ledger.events, record.root, start, True)
    while True:
        full = start if total > limit else first_beyond(ledger.events, record.root, start, limit, True, ledger.path)
        if total <= limit and full >= start + duration:
            return start
        start = first_beyond(ledger.events, record.root, full, limit, False, ledger.path)
        if start == np.inf:
            return np.inf
        total, _, _, _ = changes(ledger.events, record.root, start, True)
