"""The service's metrics for Prometheus (`metrics.toml`). All are in memory, so that reading them spares the store."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from forebay import __version__
from forebay.act.control.service.live_documents import fills, mode
from forebay.act.control.service.live_state import Live
from forebay.act.metrics import Metric, Sample
from forebay.decide.grants.machine import field_value
from forebay.model.grant import State
from forebay.model.reasons import REFUSALS

if TYPE_CHECKING:
    from forebay.act.control.service.service import Service

NO_TIER = "none"
_FILE = tomllib.loads(files("forebay.act.control.service").joinpath("metrics.toml").read_text())
_COUNTS = {name: about.pop("counts") for name, about in _FILE.items() if "counts" in about}
_BY_NAME = {
    name: Metric(f"forebay_{name}", **{**about, "labels": tuple(about.get("labels", ()))})
    for name, about in _FILE.items()
}
METRICS = tuple(_BY_NAME.values())
_ENDS = (State.RELEASED, State.FAILED, State.EXPIRED)


def _number(name: str, value: float, *labels: str) -> Sample:
    return _BY_NAME[name].number(value, *labels)


def numbers(live: Live, service: Service) -> Iterator[Sample]:
    now = service.clock()
    yield _number("info", 1, __version__, mode(live), live.control.policy)
    yield from grant_numbers(live, now)
    yield from event_numbers(live)
    yield from machine_numbers(live, now)
    for name in live.control.tables.nodes:
        yield _number("node_heard_seconds", service.liveness.seconds_since_call(name), name)
    yield from _instance_numbers(service)


def grant_numbers(live: Live, now: float) -> Iterator[Sample]:
    states: Counter[State] = Counter()
    oldest = dict.fromkeys((State.QUEUED, State.GRANTED, State.MAKING, State.RELEASING), 0.0)
    for grant in live.control.tables.grants.values():
        states[grant.state] += 1
        if grant.state in oldest:
            since = grant.start if grant.state is State.GRANTED else live.changed.get(grant.id, grant.asked)
            since = grant.asked if grant.state is State.QUEUED else since
            oldest[grant.state] = max(oldest[grant.state], now - since)
    for state in State:
        yield _number("grants", states[state], state.value)
    for state, seconds in oldest.items():
        yield _number("grants_oldest_seconds", seconds, state.value)


def event_numbers(live: Live) -> Iterator[Sample]:
    yield _number("journal_events", live.last)
    for name, kind in _COUNTS.items():
        yield _number(name, live.counted[kind])
    for reason in REFUSALS:
        yield _number("refused", live.counted[f"TurnedDown {reason}"], reason)
    for state in _ENDS:
        yield _number("ended", live.counted[f"Ended {state.value}"], state.value)


def machine_numbers(live: Live, now: float) -> Iterator[Sample]:
    tables, full = live.control.tables, fills(live)
    tiers: dict[str, Counter[str]] = {}
    for key, disk in tables.disks.items():
        node, used = tables.nodes[disk.node], full[key]["used"]
        tier = field_value(disk, node, "tier") or NO_TIER
        labels = disk.node, disk.spec.name, tier
        yield _number("disk_capacity_bytes", disk.spec.capacity, *labels)
        yield _number("disk_used_bytes", used, *labels)
        yield _number("disk_there", disk.there, *labels)
        yield _number("disk_drained", disk.drained or node.drained, *labels)
        yield _number("disk_suspended", disk.suspension is not None, *labels)
        yield _number("disk_unseen", disk.unseen != "", *labels)
        total = tiers.setdefault(tier, Counter())
        if disk.there:
            free = max(0, tables.space.free(key, now, now)) if tables.is_open(disk) else 0
            total.update(capacity=disk.spec.capacity, used=used, promised=full[key]["planned"], free=free)
    for tier, sizes in tiers.items():
        for what in ("capacity", "used", "promised", "free"):
            yield _number(f"tier_{what}_bytes", sizes[what], tier)
    for node in tables.nodes.values():
        yield _number("node_silent", node.silent, node.name)
        yield _number("node_drained", node.drained, node.name)
        yield _number("node_doubted", node.doubted > 0, node.name)
    yield _number("strays", len(tables.strays))
    yield _number("kept_volumes", tables.kept_count())


def _instance_numbers(service: Service) -> Iterator[Sample]:
    """Metrics of this instance alone, since its start."""
    timings = service.writer.timings
    yield _number("batches", timings.batches)
    yield _BY_NAME["decision_seconds"].histogram(timings.bounds, timings.counts, timings.total)
    for (route, method, status), count in sorted(service.calls.items()):
        yield _number("api_requests", count, route, method, str(status))
    yield _number("connections", len(service.crowd))
    for reason in ("full", "handshake", "slow"):
        yield _number("callers_dropped", service.crowd.dropped[reason], reason)
    for what in ("events", "page", "change"):
        yield _number("waiting_calls", service.waits.now[what], what)
