"""Numbers of the service for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from forebay.act.control.live import Live
from forebay.act.control.writer import Timings
from forebay.act.metrics import Histogram, Number
from forebay.model.grant import State


def numbers(live: Live, timings: Timings) -> Iterator[Number | Histogram]:
    control, tables = live.control, live.control.tables
    states = Counter(grant.state for grant in tables.grants.values())
    for state in State:
        yield Number("forebay_grants", "Grants by state", states[state], (("state", state.value),))
    nodes = tables.nodes.values()
    yield Number("forebay_nodes", "Storage nodes", len(nodes))
    yield Number("forebay_nodes_silent", "Nodes that do not answer", sum(node.silent for node in nodes))
    yield Number("forebay_nodes_drained", "Nodes that are drained", sum(node.drained for node in nodes))
    there = [disk for disk in tables.disks.values() if disk.there]
    yield Number("forebay_disks", "Disks that are there", len(there))
    yield Number("forebay_capacity_bytes", "Bytes on them that can be granted", sum(d.said.capacity for d in there))
    yield Number("forebay_used_bytes", "Bytes that volumes have", sum(control.used().values()))
    yield Number("forebay_strays", "Volumes that nobody owns", len(tables.strays))
    yield Number("forebay_journal_events", "Events in the journal", live.last, kind="counter")
    yield Number("forebay_batches", "Batches written", timings.batches, kind="counter")
    yield Histogram(
        "forebay_decision_seconds", "From a command to its commit", timings.bounds, timings.counts, timings.total
    )
