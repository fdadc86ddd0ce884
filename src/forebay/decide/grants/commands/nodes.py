"""Commands about nodes and disks: register, answer, fall silent, drain and remove."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.permissions import NodeCommand, PlaceCommand
from forebay.decide.grants.commands.reports import Found, FoundVolume
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.losses import lose_disk, notify_owners_on, shrink_disk
from forebay.decide.grants.machine import DiskSpec, LiveDisk, LiveNode, check_fields, check_node
from forebay.decide.grants.suspensions import find_tried_disk, resume_disk
from forebay.model.errors import BadInput, UnknownName
from forebay.model.grant import HELD
from forebay.model.reasons import Because, Reason

_OTHER = "its agent acted on another journal; was the store replaced, or restored from a backup?"
_NONE = "its agent knows no journal, and has volumes that this journal does not know"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(NodeCommand):
    """A node's agent reports all its disks. Disks that it leaves out are gone."""

    network_bandwidth: float
    disks: tuple[DiskSpec, ...]
    fields: Mapping[str, object] = field(default_factory=dict)
    volumes: tuple[FoundVolume, ...] | None = None  # all volumes on the disks; None if the agent did not look
    number: int = 0  # the service ignores reports older than the last one
    ours: bool | None = True  # whether the agent acted on this journal; None if it knows none
    seen: str = ""  # the journal that the agent acted on
    unseen: Mapping[str, str] = field(default_factory=dict)  # disks that the agent cannot read at present, and why

    def decide(self, draft: Draft) -> None:
        self.require_agent(self.node)
        check_node(self.node, self.network_bandwidth)
        check_fields(f"node {self.node}", self.fields)
        _check_disks(draft, self)
        node = draft.tables.nodes.get(self.node)
        if node is not None and 0 < self.number < node.report:  # a newer report arrived before
            return
        described = (self.network_bandwidth, self.fields, False)
        if node is None or (node.network_bandwidth, node.fields, node.silent) != described:
            bandwidth, fields = self.network_bandwidth, dict(self.fields)
            draft.emit(ev.NodeRegistered(at=draft.now, node=self.node, network_bandwidth=bandwidth, fields=fields))
            draft.frees_space = True
        self._register_disks(draft)
        self._check_journal(draft)
        if self.volumes is not None:
            Found(caller=self.caller, node=self.node, number=self.number, volumes=self.volumes).reconcile(draft)
        elif self.number > draft.tables.nodes[self.node].report:
            draft.emit(ev.Reported(at=draft.now, node=self.node, report=self.number))

    def _register_disks(self, draft: Draft) -> None:
        tables, names = draft.tables, {disk.name for disk in self.disks}
        for disk in tables.disks_of(self.node):
            name = disk.spec.name
            if not disk.there or name in names:
                continue
            if name not in self.unseen:
                lose_disk(draft, disk, Because(Reason.DISK_GONE, f"node {self.node} no longer has disk {name}"))
            elif not disk.unseen:  # it may come back intact, so its volumes are not lost yet
                because = self.unseen[name] or "its agent gave no reason"
                draft.emit(ev.DiskUnseen(at=draft.now, disk=disk.key, because=because))
                text = f"the agent cannot access disk {disk.key}: {because}"
                notify_owners_on(draft, tables.on_disk(disk.key), text, HELD)
        for spec in self.disks:
            old = tables.disks.get(f"{self.node}/{spec.name}")
            if old is None or not old.there or old.spec != spec or old.unseen:
                draft.emit(ev.DiskRegistered(at=draft.now, node=self.node, disk=spec))
                if old is not None and spec.capacity < old.spec.capacity:
                    shrink_disk(draft, tables.disks[old.key])

    def _check_journal(self, draft: Draft) -> None:
        """Keep the volumes of a node if its agent has acted on another journal."""
        node, tables = draft.tables.nodes[self.node], draft.tables
        if self.ours is False and not (self.seen and self.seen == node.other):  # else the answer was lost
            draft.emit(ev.NodeDoubted(at=draft.now, node=self.node, because=_OTHER, seen=self.seen))
        elif self.ours is None and not node.doubted:
            names = [each.name for each in self.volumes or () if each.name not in tables.volumes]
            if any(find_tried_disk(draft, self.node, name) is None for name in names):
                draft.emit(ev.NodeDoubted(at=draft.now, node=self.node, because=_NONE))


def _check_disks(draft: Draft, command: Register) -> None:
    names: set[str] = set()
    for at, disk in enumerate(command.disks):
        where = f"node {command.node}: disk[{at}]"
        disk.check(where)
        if disk.name in names:
            raise BadInput(where, f"disk {disk.name!r} is registered twice")
        names.add(disk.name)
    identities = [disk.identity for disk in command.disks if disk.identity]
    others = {d.spec.identity: d.key for d in draft.tables.disks.values() if d.there and d.node != command.node}
    for identity in identities:
        if identities.count(identity) > 1:
            raise BadInput(f"node {command.node}", f"two disks have the identity {identity!r}; give each disk its own")
        if identity in others:
            raise BadInput(f"node {command.node}", f"identity {identity!r} belongs to disk {others[identity]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(NodeCommand):
    """A node's agent has called."""

    def decide(self, draft: Draft) -> None:
        self.require_agent(self.node)
        if _node(draft, self.node).silent:
            draft.emit(ev.NodeAnswered(at=draft.now, node=self.node))


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(NodeCommand):
    """A node's agent has not called for too long. The node gets no new grants, and owners on it are notified."""

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        if not _node(draft, self.node).silent:
            draft.emit(ev.NodeSilent(at=draft.now, node=self.node))
            text = f"node {self.node} does not answer; data on it may be unreachable"
            notify_owners_on(draft, draft.tables.on_node(self.node), text, HELD)


def _node(draft: Draft, what: str) -> LiveNode:
    """The node of that name. For "node/disk", the error names what is unknown: the disk or the node."""
    if what in draft.tables.nodes:
        return draft.tables.nodes[what]
    name, _, disk = what.partition("/")
    if name in draft.tables.nodes:
        raise UnknownName(f"disk of node {name}:", disk, (known.spec.name for known in draft.tables.disks_of(name)))
    raise UnknownName("node", name, draft.tables.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(PlaceCommand):
    """Place no new grants on a node, or on one disk ("node/disk"). Existing grants stay."""

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        if not _is_drained(draft, self.what):
            draft.emit(ev.Drained(at=draft.now, what=self.what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrain(PlaceCommand):
    """Place new grants there again, also on suspended disks."""

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        if _is_drained(draft, self.what):
            draft.emit(ev.Undrained(at=draft.now, what=self.what))
        for disk in _disks_in(draft, self.what):
            resume_disk(draft, draft.tables.disks[disk.key], "an administrator opened it")


def _is_drained(draft: Draft, what: str) -> bool:
    disk = draft.tables.disks.get(what)
    return disk.drained if disk is not None else _node(draft, what).drained


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(PlaceCommand):
    """Give up a node, or one disk ("node/disk"). Everything on it is lost."""

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        for disk in _disks_in(draft, self.what):
            if disk.there:
                lose_disk(draft, disk, Because(Reason.ADMINISTRATOR, f"an administrator removed {self.what}"))


def _disks_in(draft: Draft, what: str) -> list[LiveDisk]:
    """The disk of that name, or all disks of the node."""
    disk = draft.tables.disks.get(what)
    return [disk] if disk is not None else draft.tables.disks_of(_node(draft, what).name)
