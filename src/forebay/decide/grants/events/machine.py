"""Events of volumes, disks and nodes, and changes of the policy and the rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from forebay.decide.grants.events.base import Event, event
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import DiskSpec, LiveDisk, LiveNode, Stray, Suspension, Trial
from forebay.decide.grants.space import Turned
from forebay.decide.grants.state import Tables
from forebay.decide.grants.state_tables import BrokenJournal
from forebay.model.grant import State, VolumeState
from forebay.model.reasons import Reason
from forebay.model.units import format_size

_HALF, _GONE, _LOST = {"state": VolumeState.MAKING}, {"state": VolumeState.GONE}, {"state": VolumeState.LOST}
_WORKS = {"failures": 0, "suspension": None}
_VANISHED = {"there": False, "unseen": "", **_WORKS}
_MOVES = "volume {self.volume} moves to {self.disk}; it could not be made on the planned disk: {self.because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeEvent(Event):
    """`report` is the number of the report that caused it; 0 for none."""

    volume: str
    report: int = 0
    table, key, grant_in, group = "volumes", "volume", "volume", "machine"

    def apply(self, tables: Tables) -> None:
        tables.note_report(self.change_row(tables).node, self.report)


@event(group=None, is_logged=False, changes={"state": VolumeState.MADE, "because": ""})
class VolumeMade(VolumeEvent):
    """A volume exists."""

    path: str = ""
    device: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def apply(self, tables: Tables) -> None:
        volume = self.change_row(tables)
        tables.note_report(volume.node, self.report)
        if tables.disks[volume.disk].failures and tables.grants[volume.grant].state is State.MAKING:
            tables.disks.change(volume.disk, failures=0)  # else the volume existed before, and proves nothing

    def sentence(self) -> str:
        return f"volume {self.volume} is made" + (f": {self.path}" if self.path else "")


@event("volume {self.volume} is incomplete: {self.because}", is_warning=True, changes=_HALF)
class VolumeHalf(VolumeEvent):
    """A complete volume is now incomplete. Its agent repairs it."""

    because: str


@event("volume {self.volume} is removed", group=None, is_logged=False, frees_space=True, changes=_GONE)
class VolumeGone(VolumeEvent):
    """A volume was removed, as requested."""


@event("volume {self.volume} is lost: {self.because}", is_warning=True, frees_space=True, changes=_LOST)
class VolumeLost(VolumeEvent):
    """A volume that its grant needs no longer exists, or cannot be made."""

    because: str
    reason: Reason = Reason.NONE


@event(_MOVES, is_warning=True)
class VolumeMoved(VolumeEvent):
    """A volume could not be made on the planned disk; its agent makes it on another."""

    disk: str
    because: str

    def apply(self, tables: Tables) -> None:
        volume, disk = tables.volumes[self.volume], tables.disks[self.disk].key
        tables.note_report(volume.node, self.report)
        tables.volumes.change(volume.name, disk=disk, failed=(*volume.failed, volume.disk))
        because = f"{disk}, because volume {volume.name} could not be made on {volume.disk}"
        tables.grants.change(volume.grant, because=because)


@event("volume {self.volume} cannot be removed: {self.because}", is_warning=True, changes=_LOST)
class VolumeStuck(VolumeEvent):
    """A volume cannot be removed. Its grant ends nevertheless, and the volume becomes a stray."""

    because: str

    def apply(self, tables: Tables) -> None:
        VolumeEvent.apply(self, tables)
        because = f"{tables.grants[self.grant_id].because}; volume {self.volume} could not be removed: {self.because}"
        tables.grants.change(self.grant_id, because=because)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayEvent(Event):
    """`report` is the number of the report that caused it; 0 for none."""

    stray: Stray
    report: int = 0
    node_in, group = "stray.disk", "machine"


@event("volume {self.stray.name} on {self.stray.disk} belongs to no grant", is_warning=True)
class Strayed(StrayEvent):
    """A disk has a volume that belongs to no grant."""

    def apply(self, tables: Tables) -> None:
        tables.strays.set(self.stray.key, self.stray)
        tables.note_report(tables.disks[self.stray.disk].node, self.report)


@event("volume {self.stray.name} on {self.stray.disk}, which belonged to no grant, is removed", frees_space=True)
class StrayGone(StrayEvent):
    """A volume that belonged to no grant is gone."""

    def apply(self, tables: Tables) -> None:
        tables.strays.set(self.stray.key, None)
        tables.note_report(self.node_name, self.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent(Event):
    node: str
    table, key, node_in, group = "nodes", "node", "node", "machine"


@event("node {self.node} registers")
class NodeRegistered(NodeEvent):
    """A node registers for the first time, or with other fields."""

    network_bandwidth: float
    fields: Mapping[str, object] = field(default_factory=dict)

    def apply(self, tables: Tables) -> None:
        new = LiveNode(name=self.node, network_bandwidth=1.0, order=len(tables.nodes))
        node = tables.nodes.get(self.node, new)
        bandwidth = self.network_bandwidth
        tables.nodes.set(self.node, replace(node, silent=False, network_bandwidth=bandwidth, fields=self.fields))


@event(frees_space=True)
class DiskRegistered(NodeEvent):
    """A disk is registered for the first time, or has changed."""

    disk: DiskSpec

    def apply(self, tables: Tables) -> None:
        new = LiveDisk(node=tables.nodes[self.node].name, spec=self.disk, order=len(tables.disks))
        old = tables.disks.get(new.key, new)
        tables.disks.set(new.key, replace(old, spec=self.disk, there=True, unseen=""))

    def sentence(self) -> str:
        return f"node {self.node} has disk {self.disk.name} of {format_size(self.disk.capacity)}"


@event("node {self.node} does not answer and gets no new grants", is_warning=True, changes={"silent": True})
class NodeSilent(NodeEvent):
    """A node does not answer, and gets no new grants."""


@event("node {self.node} answers again", frees_space=True, changes={"silent": False})
class NodeAnswered(NodeEvent):
    """A silent node answers again."""


@event("node {self.node} reports its volumes", group=None, is_logged=False)
class Reported(NodeEvent):
    """An agent reported its volumes. Older reports no longer count."""

    report: int

    def apply(self, tables: Tables) -> None:
        tables.note_report(self.node, self.report)


@event("everything on node {self.node} is kept until an administrator decides: {self.because}", is_warning=True)
class NodeDoubted(NodeEvent):
    """The agent acted on another journal, `seen`. Volumes on the node that may have an owner are kept."""

    because: str
    seen: str = ""

    def apply(self, tables: Tables) -> None:
        self.change_row(tables, doubted=tables.facts.asked + 1, other=self.seen)
        tables.hold_strays(tables.strays_on(self.node), held=True)


@event("volumes that belong to no grant on node {self.node} may be removed", changes={"doubted": 0})
class NodeTrusted(NodeEvent):
    """An administrator decided: volumes that belong to no grant there may be removed."""

    def apply(self, tables: Tables) -> None:
        self.change_row(tables)
        tables.hold_strays(tables.strays_on(self.node), held=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskEvent(Event):
    """`disk` is NODE/DISK."""

    disk: str
    table, key, node_in, group = "disks", "disk", "disk", "machine"


@event("disk {self.disk} is gone: {self.because}", is_warning=True, changes=_VANISHED)
class DiskVanished(DiskEvent):
    """A disk is gone; it may come back."""

    because: str
    reason: Reason = Reason.NONE


@event("the agent cannot access disk {self.disk}, which gets no new grants: {self.because}", is_warning=True)
class DiskUnseen(DiskEvent):
    """The agent cannot access a disk. It gets no new grants, but its volumes are not lost yet."""

    because: str

    def apply(self, tables: Tables) -> None:
        self.change_row(tables, unseen=self.because)


@event("disk {self.disk}: cannot make a volume (failures in a row: {self.failures}): {self.because}", is_warning=True)
class DiskFailed(DiskEvent):
    """A volume could not be made on the disk: `failures` in a row so far."""

    because: str
    failures: int


@event("disk {self.disk} is suspended and gets no new grants: {self.because}", is_warning=True)
class DiskSuspended(DiskEvent):
    """The disk gets no new grants until a volume like `trial` can be made: next try at `due`, after `tries` failed."""

    because: str
    trial: Trial
    due: float
    tries: int = 0

    def apply(self, tables: Tables) -> None:
        old = tables.disks[self.disk].suspension
        since = self.at if old is None else old.since
        new = Suspension(since=since, because=self.because, trial=self.trial, due=self.due, tries=self.tries)
        self.change_row(tables, suspension=new)


@event("disk {self.disk} is tested with volume {self.volume}, which nobody uses")
class DiskTried(DiskEvent):
    """The agent must make this test volume of `size` bytes, which nobody will use."""

    volume: str
    size: int

    def apply(self, tables: Tables) -> None:
        suspension = tables.disks[self.disk].suspension
        if suspension is None:
            raise BrokenJournal(f"disk {self.disk} is tested, but is not suspended")
        self.change_row(tables, suspension=replace(suspension, volume=self.volume, held=self.size))


@event("disk {self.disk} gets new grants again: {self.because}", frees_space=True, changes=_WORKS)
class DiskResumed(DiskEvent):
    """Volumes can be made on the disk again, and it gets new grants."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainEvent(Event):
    """`what` is NODE, or NODE/DISK."""

    what: str
    key, node_in, group = "what", "what", "machine"

    def apply(self, tables: Tables) -> None:
        table = tables.nodes if self.what in tables.nodes else tables.disks
        table.change(self.what, **self.changes)


@event("{self.what} is drained and gets no new grants", changes={"drained": True})
class Drained(DrainEvent):
    """A node or a disk gets no new grants."""


@event("{self.what} gets new grants again", frees_space=True, changes={"drained": False})
class Undrained(DrainEvent):
    """A node or a disk gets new grants again."""


@event("policy {self.policy} decides from now on", group="settings", frees_space=True)
class PolicyChanged(Event):
    """Another storage policy decides from now on."""

    policy: str

    def apply(self, tables: Tables) -> None:
        tables.facts = tables.facts._replace(policy=self.policy, turned=Turned())
        for node in list(tables.probed):
            tables.probed.set(node, None)


@event(group="settings", frees_space=True)
class RulesChanged(Event):
    """These rules apply from now on."""

    rules: GrantRules

    def apply(self, tables: Tables) -> None:
        tables.facts = tables.facts._replace(rules=self.rules)

    def sentence(self) -> str:
        return "rules: " + ", ".join(f"{rule.name} {getattr(self.rules, rule.name)}" for rule in fields(GrantRules))


@event("the queue was tried", is_logged=False)
class Swept(Event):
    """Space came free, and the queue was tried up to this order (exclusive); 0: all of it."""

    order: int

    def apply(self, tables: Tables) -> None:
        tables.facts = tables.facts._replace(swept=self.order)
