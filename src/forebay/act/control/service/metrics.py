"""Numbers of the service for Prometheus. All of them are in memory: to look costs the store nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forebay import __version__
from forebay.act.control.page.views import fills
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.views import mode
from forebay.act.metrics import Metric, Sample
from forebay.decide.grants import events as ev
from forebay.decide.grants.machine import field_value
from forebay.decide.grants.state import Tables
from forebay.model.grant import Grant, State
from forebay.model.reasons import REFUSALS

if TYPE_CHECKING:
    from forebay.act.control.service.service import Service

NO_TIER = "none"
_DISK = ("node", "disk", "tier")
INFO = Metric("forebay_info", "1; what runs, as labels: enforce or shadow, and by which policy.",
              ("version", "mode", "policy"), shared=True)  # fmt: skip
GRANTS = Metric("forebay_grants", "Grants by state; those that ended are kept for some days.", ("state",), shared=True)
OLDEST = Metric(
    "forebay_grants_oldest_seconds",
    "The longest time of a grant in this state: queued, since it was asked for; granted, since it should have begun; "
    "making and releasing, since anything last happened to it.",
    ("state",), shared=True,
)  # fmt: skip
REQUESTS = Metric("forebay_requests", "Requests for space.", kind="counter", shared=True)
GRANTED = Metric("forebay_granted", "Times that a request got its space.", kind="counter", shared=True)
QUEUED = Metric("forebay_queued", "Times that a request had to wait, each try.", kind="counter", shared=True)
REFUSED = Metric("forebay_refused", "Requests that were refused, by the kind of reason.", ("reason",), "counter", True)
ENDED = Metric("forebay_ended", "Grants that ended, by how.", ("state",), "counter", True)
LOST = Metric("forebay_volumes_lost", "Volumes that were lost.", kind="counter", shared=True)
VANISHED = Metric("forebay_disks_vanished", "Times that a disk was gone.", kind="counter", shared=True)
SUSPENSIONS = Metric(
    "forebay_disks_suspended", "Times that a disk was suspended, or a trial of it failed.", kind="counter", shared=True
)
STUCK = Metric("forebay_volumes_stuck", "Volumes that could not be removed.", kind="counter", shared=True)
SILENCES = Metric("forebay_nodes_fell_silent", "Times that a node fell silent.", kind="counter", shared=True)
TIER_CAPACITY = Metric("forebay_tier_capacity_bytes", "Of the disks that are there, by tier.", ("tier",), shared=True)
TIER_USED = Metric("forebay_tier_used_bytes", "Bytes that volumes have on these.", ("tier",), shared=True)
TIER_PROMISED = Metric(
    "forebay_tier_promised_bytes", "Bytes of these that are granted for later.", ("tier",), shared=True
)
TIER_FREE = Metric(
    "forebay_tier_free_bytes",
    "Bytes that could be granted now: neither used nor on a disk that is closed.",
    ("tier",),
    shared=True,
)
DISK_CAPACITY = Metric("forebay_disk_capacity_bytes", "Bytes of a disk that can be granted.", _DISK, shared=True)
DISK_USED = Metric("forebay_disk_used_bytes", "Bytes of a disk that volumes have.", _DISK, shared=True)
DISK_THERE = Metric("forebay_disk_there", "Whether a disk is there; 0 if it is gone.", _DISK, shared=True)
DISK_DRAINED = Metric("forebay_disk_drained", "Whether a disk, or its node, is drained.", _DISK, shared=True)
DISK_SUSPENDED = Metric(
    "forebay_disk_suspended", "Whether a disk gets no new grants, as volumes can't be made on it.", _DISK, shared=True
)
DISK_UNSEEN = Metric("forebay_disk_unseen", "Whether a disk's agent can't look at it.", _DISK, shared=True)
NODE_SILENT = Metric("forebay_node_silent", "Whether a node does not answer.", ("node",), shared=True)
NODE_DRAINED = Metric("forebay_node_drained", "Whether a node is drained.", ("node",), shared=True)
HEARD = Metric("forebay_node_heard_seconds", "Since a node's agent was last heard of.", ("node",))
NODE_DOUBTED = Metric("forebay_node_doubted", "Whether a node's agent knows another journal.", ("node",), shared=True)
STRAYS = Metric("forebay_strays", "Volumes that nobody owns.", shared=True)
KEPT = Metric("forebay_kept_volumes", "Volumes that are kept until an administrator decides.", shared=True)
JOURNAL = Metric("forebay_journal_events", "Events in the journal.", kind="counter", shared=True)
BATCHES = Metric("forebay_batches", "Commits; each takes all commands that wait.", kind="counter")
DECISIONS = Metric("forebay_decision_seconds", "From a command to its commit.", kind="histogram")
CALLS = Metric("forebay_api_requests", "Answered calls.", ("route", "method", "status"), "counter")
CONNECTIONS = Metric("forebay_connections", "Connections that are open.")
DROPPED = Metric(
    "forebay_callers_dropped",
    "Callers that were not let in (full, handshake) or cut off (slow).",
    ("reason",),
    "counter",
)
WAITING = Metric(
    "forebay_waiting_calls",
    "Calls that wait: for events, for the page's, for a change of a grant or a node.",
    ("what",),
)

METRICS = (
    INFO, GRANTS, OLDEST, REQUESTS, GRANTED, QUEUED, REFUSED, ENDED, LOST, STUCK, VANISHED, SUSPENSIONS, SILENCES,
    TIER_CAPACITY, TIER_USED, TIER_PROMISED, TIER_FREE, DISK_CAPACITY, DISK_USED, DISK_THERE, DISK_DRAINED,
    DISK_SUSPENDED, DISK_UNSEEN, NODE_SILENT, NODE_DRAINED, HEARD, NODE_DOUBTED, STRAYS, KEPT, JOURNAL, BATCHES,
    DECISIONS, CALLS, CONNECTIONS, DROPPED, WAITING,
)  # fmt: skip
_COUNTED: dict[Metric, type[ev.Event]] = {
    REQUESTS: ev.Asked, GRANTED: ev.Granted, QUEUED: ev.Queued, LOST: ev.VolumeLost, VANISHED: ev.DiskVanished,
    SILENCES: ev.NodeSilent, SUSPENSIONS: ev.DiskSuspended, STUCK: ev.VolumeStuck,
}  # fmt: skip
_ENDS = (State.RELEASED, State.FAILED, State.EXPIRED)


def numbers(live: Live, service: Service) -> Iterator[Sample]:
    """All of them, for one look."""
    now = service.clock()
    yield INFO.number(1, __version__, mode(live), live.control.policy)
    yield from _grants(live, now)
    yield from _counted(live)
    yield from _machine(live, now)
    for name in live.control.tables.nodes:
        yield HEARD.number(service.liveness.since(name), name)
    yield from _own(service)


def _grants(live: Live, now: float) -> Iterator[Sample]:
    states: Counter[State] = Counter()
    oldest = dict.fromkeys((State.QUEUED, State.GRANTED, State.MAKING, State.RELEASING), 0.0)
    for grant in live.control.tables.grants.values():
        states[grant.state] += 1
        if grant.state in oldest:
            oldest[grant.state] = max(oldest[grant.state], now - _since(live, grant))
    for state in State:
        yield GRANTS.number(states[state], state.value)
    for state, seconds in oldest.items():
        yield OLDEST.number(seconds, state.value)


def _since(live: Live, grant: Grant) -> float:
    """From when on it waits, in seconds since 1970."""
    if grant.state is State.QUEUED:
        return grant.asked
    return grant.start if grant.state is State.GRANTED else live.changed.get(grant.ask.grant, grant.asked)


def _counted(live: Live) -> Iterator[Sample]:
    counted = live.counted
    yield JOURNAL.number(live.last)
    for metric, kind in _COUNTED.items():
        yield metric.number(counted[kind.__name__])
    for reason in REFUSALS:
        yield REFUSED.number(counted[f"TurnedDown {reason}"], reason)
    for state in _ENDS:
        yield ENDED.number(counted[f"Ended {state.value}"], state.value)


def _machine(live: Live, now: float) -> Iterator[Sample]:
    tables, full = live.control.tables, fills(live)
    tiers: dict[str, list[int]] = {}  # capacity, used, promised, free
    for key, disk in tables.disks.items():
        node = tables.nodes[disk.node]
        tier = field_value(disk, node, "tier") or NO_TIER
        own, used, planned = (disk.node, disk.spec.name, tier), full[key]["used"], full[key]["planned"]
        yield DISK_CAPACITY.number(disk.spec.capacity, *own)
        yield DISK_USED.number(used, *own)
        yield DISK_THERE.number(disk.there, *own)
        yield DISK_DRAINED.number(disk.drained or node.drained, *own)
        yield DISK_SUSPENDED.number(disk.suspension is not None, *own)
        yield DISK_UNSEEN.number(disk.unseen != "", *own)
        total = tiers.setdefault(tier, [0, 0, 0, 0])
        if disk.there:
            free = max(0, tables.space.free(key, now, now)) if tables.is_open(disk) else 0
            for at, size in enumerate((disk.spec.capacity, used, planned, free)):
                total[at] += size
    for tier, sizes in tiers.items():
        for metric, size in zip((TIER_CAPACITY, TIER_USED, TIER_PROMISED, TIER_FREE), sizes, strict=True):
            yield metric.number(size, tier)
    yield from _nodes(tables)


def _nodes(tables: Tables) -> Iterator[Sample]:
    for node in tables.nodes.values():
        yield NODE_SILENT.number(node.silent, node.name)
        yield NODE_DRAINED.number(node.drained, node.name)
        yield NODE_DOUBTED.number(node.doubted > 0, node.name)
    yield STRAYS.number(len(tables.strays))
    yield KEPT.number(tables.kept_count())


def _own(service: Service) -> Iterator[Sample]:
    """Of this instance alone; they begin with it."""
    timings = service.writer.timings
    yield BATCHES.number(timings.batches)
    yield DECISIONS.histogram(timings.bounds, timings.counts, timings.total)
    for (route, method, status), count in sorted(service.calls.items()):
        yield CALLS.number(count, route, method, str(status))
    yield CONNECTIONS.number(len(service.crowd))
    for reason in ("full", "handshake", "slow"):
        yield DROPPED.number(service.crowd.dropped[reason], reason)
    for what in ("events", "page", "change"):
        yield WAITING.number(service.waits.now[what], what)
