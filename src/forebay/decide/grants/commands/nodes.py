"""Nodes and disks: register, answer, fall silent, are drained and removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.base import Command
from forebay.decide.grants.commands.reports import Found, FoundVolume, reconcile
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.losses import lose_disk, notify_owners_on, shrink_disk
from forebay.decide.grants.machine import DiskSpec, LiveDisk, LiveNode, check_fields, check_node
from forebay.decide.grants.suspensions import find_tried_disk, resume_disk
from forebay.model.errors import BadInput, UnknownName
from forebay.model.grant import HELD
from forebay.model.reasons import Because, Reason

_OTHER = "its agent acted on another journal; was the store replaced, or restored from a backup?"
_NONE = "its agent remembers no journal, and has volumes that this one does not know"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Command):
    """A node's agent says which disks it has: all of them, so those that it leaves out are gone.

    `volumes` is all that it found on them, so that nothing is granted that is taken; None if it did not look. Its
    reports are numbered, and one that is older than the last is not heeded. `unseen` are disks that it can't look at
    just now, and why: what is on them is not given up yet. `ours` is whether the journal that it acted on last, which
    it knows as `seen`, is this one; None if it remembers none.
    """

    node: str
    network_bandwidth: float
    disks: tuple[DiskSpec, ...]
    fields: Mapping[str, object] = field(default_factory=dict)
    volumes: tuple[FoundVolume, ...] | None = None
    number: int = 0
    ours: bool | None = True
    seen: str = ""
    unseen: Mapping[str, str] = field(default_factory=dict)

    def decide(self, draft: Draft) -> None:
        self.require_agent(self.node)
        check_node(self.node, self.network_bandwidth)
        check_fields(f"node {self.node}", self.fields)
        _check_disks(draft, self)
        node = draft.tables.nodes.get(self.node)
        if node is not None and 0 < self.number < node.report:  # it has already reported something newer
            return
        described = (self.network_bandwidth, self.fields, False)
        if node is None or (node.network_bandwidth, node.fields, node.silent) != described:
            bandwidth, fields = self.network_bandwidth, dict(self.fields)
            draft.emit(ev.NodeRegistered(at=draft.now, node=self.node, network_bandwidth=bandwidth, fields=fields))
            draft.frees_space = True
        names = {disk.name for disk in self.disks}
        for disk in draft.tables.disks_of(self.node):
            if disk.there and disk.spec.name not in names:
                if disk.spec.name in self.unseen:
                    _note_unseen(draft, disk, self.unseen[disk.spec.name])
                else:
                    because = f"node {self.node} no longer has disk {disk.spec.name}"
                    lose_disk(draft, disk, Because(Reason.DISK_GONE, because))
        for each in self.disks:
            _register_disk(draft, self.node, each)
        _check_journal(draft, self)
        if self.volumes is not None:
            reconcile(draft, Found(caller=self.caller, node=self.node, number=self.number, volumes=self.volumes))
        elif self.number > draft.tables.nodes[self.node].report:
            draft.emit(ev.Reported(at=draft.now, node=self.node, report=self.number))


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
            raise BadInput(f"node {command.node}", f"the disk with identity {identity!r} is registered twice")
        if identity in others:
            raise BadInput(f"node {command.node}", f"the disk with identity {identity!r} is already {others[identity]}")


def _note_unseen(draft: Draft, disk: LiveDisk, because: str) -> None:
    """It may come back as it was, so nothing on it is given up; the owners are notified."""
    if not disk.unseen:
        because = because or "its agent gave no reason"
        draft.emit(ev.DiskUnseen(at=draft.now, disk=disk.key, because=because))
        text = f"the agent cannot access disk {disk.key}: {because}"
        notify_owners_on(draft, draft.tables.on_disk(disk.key), text, HELD)


def _register_disk(draft: Draft, node: str, spec: DiskSpec) -> None:
    old = draft.tables.disks.get(f"{node}/{spec.name}")
    if old is not None and old.there and old.spec == spec and not old.unseen:
        return
    draft.emit(ev.DiskRegistered(at=draft.now, node=node, disk=spec))
    if old is not None and spec.capacity < old.spec.capacity:
        shrink_disk(draft, draft.tables.disks[old.key])


def _check_journal(draft: Draft, command: Register) -> None:
    """Keep what is on a node's disks if its agent has acted on another journal."""
    node, seen = draft.tables.nodes[command.node], command.seen
    unknown = any(_is_unknown(draft, command.node, each.name) for each in command.volumes or ())
    if command.ours is False and not (seen and seen == node.other):  # else our answer was lost, and nothing done since
        draft.emit(ev.NodeDoubted(at=draft.now, node=command.node, because=_OTHER, seen=seen))
    elif command.ours is None and unknown and not node.doubted:
        draft.emit(ev.NodeDoubted(at=draft.now, node=command.node, because=_NONE))


def _is_unknown(draft: Draft, node: str, volume: str) -> bool:
    return volume not in draft.tables.volumes and find_tried_disk(draft, node, volume) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Command):
    """A node's agent is alive."""

    node: str

    def decide(self, draft: Draft) -> None:
        self.require_agent(self.node)
        if _node(draft, self.node).silent:
            draft.emit(ev.NodeAnswered(at=draft.now, node=self.node))


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(Command):
    """A node's agent was silent for too long: no new grants there, and the owners of what is on it are notified."""

    node: str

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        if not _node(draft, self.node).silent:
            draft.emit(ev.NodeSilent(at=draft.now, node=self.node))
            text = f"node {self.node} does not answer; what is on it may be out of reach"
            notify_owners_on(draft, draft.tables.on_node(self.node), text, HELD)


def _node(draft: Draft, name: str) -> LiveNode:
    if name not in draft.tables.nodes:
        raise UnknownName("node", name, draft.tables.nodes)
    return draft.tables.nodes[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Command):
    """No new grants on a node, or on one disk ("node/disk"); what is there stays."""

    what: str

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        if not _is_drained(draft, self.what):
            draft.emit(ev.Drained(at=draft.now, what=self.what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrain(Command):
    """New grants there again, also where a disk was suspended."""

    what: str

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
class Remove(Command):
    """A node, or one disk ("node/disk"), will not come back: what it held is lost."""

    what: str

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        for disk in _disks_in(draft, self.what):
            if disk.there:
                lose_disk(draft, disk, Because(Reason.ADMINISTRATOR, f"an administrator removed {self.what}"))


def _disks_in(draft: Draft, what: str) -> list[LiveDisk]:
    """The disk of that name, or all disks of the node."""
    disk = draft.tables.disks.get(what)
    return [disk] if disk is not None else draft.tables.disks_of(_node(draft, what).name)
