"""What happens to nodes and disks, and what administrators change for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from forebay.decide.grants.events.base import DiskEvent, Event, Group, NodeEvent, event
from forebay.decide.grants.machine import DiskSpec, LiveDisk, LiveNode, Suspension, Trial
from forebay.decide.grants.rules import GrantRules
from forebay.decide.grants.selection import Turned
from forebay.decide.grants.state import BrokenJournal, Tables
from forebay.model.grant import node_of
from forebay.model.reasons import Reason
from forebay.model.units import format_size


@event
class NodeRegistered(NodeEvent):
    """A node is there, for the first time or with other fields."""

    network_bandwidth: float
    fields: Mapping[str, object] = field(default_factory=dict)
    says = "node {self.node} registers"

    def apply(self, tables: Tables) -> None:
        new = LiveNode(name=self.node, network_bandwidth=1.0, order=len(tables.nodes))
        node = tables.nodes.get(self.node, new)
        bandwidth = self.network_bandwidth
        tables.nodes.set(self.node, replace(node, silent=False, network_bandwidth=bandwidth, fields=self.fields))


@event
class DiskRegistered(NodeEvent):
    """A disk is there, for the first time or changed."""

    disk: DiskSpec
    frees_space = True

    def apply(self, tables: Tables) -> None:
        new = LiveDisk(node=tables.nodes[self.node].name, spec=self.disk, order=len(tables.disks))
        old = tables.disks.get(new.key, new)
        tables.disks.set(new.key, replace(old, spec=self.disk, there=True, unseen=""))

    def sentence(self) -> str:
        return f"node {self.node} has disk {self.disk.name} of {format_size(self.disk.capacity)}"


def _change_disk(tables: Tables, disk: str, **changes: Any) -> None:
    tables.disks.set(disk, replace(tables.disks[disk], **changes))


@event
class DiskVanished(DiskEvent):
    """A disk is not there any more; it may come back."""

    because: str
    reason: Reason = Reason.NONE
    is_warning = True
    says = "disk {self.disk} is gone: {self.because}"

    def apply(self, tables: Tables) -> None:
        _change_disk(tables, self.disk, there=False, unseen="", failures=0, suspension=None)


@event
class DiskUnseen(DiskEvent):
    """Its agent can't look at it: no new grants there, but what is on it is not given up yet."""

    because: str
    is_warning = True
    says = "the agent cannot access disk {self.disk}, which gets no new grants: {self.because}"

    def apply(self, tables: Tables) -> None:
        _change_disk(tables, self.disk, unseen=self.because)


@event
class DiskFailed(DiskEvent):
    """A volume could not be made on it, `failures` times in a row by now."""

    because: str
    failures: int
    is_warning = True
    says = "disk {self.disk}: cannot make a volume (failures in a row: {self.failures}): {self.because}"

    def apply(self, tables: Tables) -> None:
        _change_disk(tables, self.disk, failures=self.failures)


@event
class DiskSuspended(DiskEvent):
    """No new grants there until a volume like `trial` can be made; that is tried at `due`, after `tries` in vain."""

    because: str
    trial: Trial
    due: float
    tries: int = 0
    is_warning = True
    says = "disk {self.disk} is suspended and gets no new grants: {self.because}"

    def apply(self, tables: Tables) -> None:
        old = tables.disks[self.disk].suspension
        since = self.at if old is None else old.since
        new = Suspension(since=since, because=self.because, trial=self.trial, due=self.due, tries=self.tries)
        _change_disk(tables, self.disk, suspension=new)


@event
class DiskTried(DiskEvent):
    """Its agent is asked to make this volume, of `size` bytes, which nobody will use."""

    volume: str
    size: int
    says = "disk {self.disk} is tried with volume {self.volume}, which nobody uses"

    def apply(self, tables: Tables) -> None:
        suspension = tables.disks[self.disk].suspension
        if suspension is None:
            raise BrokenJournal(f"disk {self.disk} is tried, but is not suspended")
        _change_disk(tables, self.disk, suspension=replace(suspension, volume=self.volume, held=self.size))


@event
class DiskResumed(DiskEvent):
    """Volumes can be made there again, and it gets new grants."""

    because: str
    frees_space = True
    says = "disk {self.disk} gets new grants again: {self.because}"

    def apply(self, tables: Tables) -> None:
        _change_disk(tables, self.disk, failures=0, suspension=None)


def _change_node(tables: Tables, node: str, **changes: Any) -> None:
    tables.nodes.set(node, replace(tables.nodes[node], **changes))


@event
class NodeSilent(NodeEvent):
    """A node does not answer, and gets no new grants."""

    is_warning = True
    says = "node {self.node} does not answer and gets no new grants"

    def apply(self, tables: Tables) -> None:
        _change_node(tables, self.node, silent=True)


@event
class NodeAnswered(NodeEvent):
    """A silent node answers again."""

    frees_space = True
    says = "node {self.node} answers again"

    def apply(self, tables: Tables) -> None:
        _change_node(tables, self.node, silent=False)


@event
class Reported(NodeEvent):
    """An agent reported what it has; older reports no longer count."""

    report: int
    group = None
    is_logged = False
    says = "node {self.node} reports what it has"

    def apply(self, tables: Tables) -> None:
        tables.note_report(self.node, self.report)


@event
class NodeDoubted(NodeEvent):
    """Its agent has acted on another journal, `seen`, than this: what may be somebody's is kept there."""

    because: str
    seen: str = ""
    is_warning = True
    says = "everything on node {self.node} is kept until an administrator decides: {self.because}"

    def apply(self, tables: Tables) -> None:
        _change_node(tables, self.node, doubted=tables.facts.asked + 1, other=self.seen)
        tables.hold_strays(tables.strays_on(self.node), held=True)


@event
class NodeTrusted(NodeEvent):
    """An administrator has looked: what nobody owns there may be removed."""

    says = "what belongs to no grant on node {self.node} may be removed"

    def apply(self, tables: Tables) -> None:
        _change_node(tables, self.node, doubted=0)
        tables.hold_strays(tables.strays_on(self.node), held=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEvent(Event):
    """`what` is a node, or a disk with its node's name before it."""

    what: str
    group: ClassVar[Group | None] = "machine"

    @property
    def node_name(self) -> str:
        return node_of(self.what)

    def _set_drained(self, tables: Tables, drained: bool) -> None:
        change = _change_node if self.what in tables.nodes else _change_disk
        change(tables, self.what, drained=drained)


@event
class Drained(DrainEvent):
    """A node or a disk gets no new grants."""

    says = "{self.what} is drained and gets no new grants"

    def apply(self, tables: Tables) -> None:
        self._set_drained(tables, True)


@event
class Undrained(DrainEvent):
    """It gets new grants again."""

    frees_space = True
    says = "{self.what} gets new grants again"

    def apply(self, tables: Tables) -> None:
        self._set_drained(tables, False)


@event
class PolicyChanged(Event):
    """From now on another policy decides."""

    policy: str
    group = "settings"
    frees_space = True
    says = "policy {self.policy} decides from now on"

    def apply(self, tables: Tables) -> None:
        tables.facts = tables.facts._replace(policy=self.policy, turned=Turned())
        for node in list(tables.probed):
            tables.probed.set(node, None)


@event
class RulesChanged(Event):
    """From now on these rules hold."""

    rules: GrantRules
    group = "settings"
    frees_space = True

    def apply(self, tables: Tables) -> None:
        tables.facts = tables.facts._replace(rules=self.rules)

    def sentence(self) -> str:
        return "rules: " + ", ".join(f"{rule.name} {getattr(self.rules, rule.name)}" for rule in fields(GrantRules))


@event
class Swept(Event):
    """Space came free, and the queue was tried up to (not including) this order; 0: all of it."""

    order: int
    is_logged = False
    says = "the queue was tried"

    def apply(self, tables: Tables) -> None:
        tables.facts = tables.facts._replace(swept=self.order)
