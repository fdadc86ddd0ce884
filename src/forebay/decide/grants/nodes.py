"""Nodes and disks come, go, fall silent, and are drained."""

from __future__ import annotations

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands import (
    Drain,
    Found,
    Register,
    Remove,
    Seen,
    Silent,
    Undrain,
    require_administrator,
    require_agent,
)  # fmt: skip
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.kept_volumes import check_journal
from forebay.decide.grants.losses import lose_disk, notify_owners_on, shrink_disk
from forebay.decide.grants.machine import DiskSaid, LiveDisk, LiveNode, check_fields, check_node
from forebay.decide.grants.reports import reconcile
from forebay.decide.grants.suspensions import resume_disk
from forebay.model.errors import BadInput, UnknownName
from forebay.model.grant import HELD
from forebay.model.reasons import Because, Reason


def register_node(draft: Draft, command: Register) -> None:
    """A node is as its agent describes it."""
    require_agent(command, command.node)
    check_node(command.node, command.network_bandwidth)
    check_fields(f"node {command.node}", command.fields)
    _check_disks(draft, command)
    if _is_old(draft, command):
        return
    node = draft.tables.nodes.get(command.node)
    said = (command.network_bandwidth, command.fields, False)
    if node is None or (node.network_bandwidth, node.fields, node.silent) != said:
        fields = dict(command.fields)
        bandwidth = command.network_bandwidth
        draft.emit(ev.NodeRegistered(at=draft.now, node=command.node, network_bandwidth=bandwidth, fields=fields))
        draft.frees_space = True
    names = {disk.name for disk in command.disks}
    for disk in draft.tables.disks_of(command.node):
        if disk.there and disk.said.name not in names:
            if disk.said.name in command.unseen:
                _note_unseen(draft, disk, command.unseen[disk.said.name])
            else:
                because = f"node {command.node} no longer has disk {disk.said.name}"
                lose_disk(draft, disk, Because(Reason.DISK_GONE, because))
    for each in command.disks:
        _register_disk(draft, command.node, each)
    check_journal(draft, command)
    if command.volumes is not None:
        report = Found(caller=command.caller, node=command.node, number=command.number, volumes=command.volumes)
        reconcile(draft, report)
    elif command.number > draft.tables.nodes[command.node].report:
        draft.emit(ev.Reported(at=draft.now, node=command.node, report=command.number))


def _note_unseen(draft: Draft, disk: LiveDisk, because: str) -> None:
    """It may come back as it was, so nothing on it is given up; the owners are notified."""
    if not disk.unseen:
        because = because or "its agent gave no reason"
        draft.emit(ev.DiskUnseen(at=draft.now, disk=disk.key, because=because))
        text = f"the agent cannot access disk {disk.key}: {because}"
        notify_owners_on(draft, draft.tables.on_disk(disk.key), text, HELD)


def _is_old(draft: Draft, command: Register) -> bool:
    """Whether the agent has already reported something newer."""
    node = draft.tables.nodes.get(command.node)
    return node is not None and 0 < command.number < node.report


def _check_disks(draft: Draft, command: Register) -> None:
    names: set[str] = set()
    for at, disk in enumerate(command.disks):
        where = f"node {command.node}: disk[{at}]"
        disk.check(where)
        if disk.name in names:
            raise BadInput(where, f"disk {disk.name!r} is registered twice")
        names.add(disk.name)
    own = [disk.identity for disk in command.disks if disk.identity]
    others = {d.said.identity: d.key for d in draft.tables.disks.values() if d.there and d.node != command.node}
    for identity in own:
        if own.count(identity) > 1:
            raise BadInput(f"node {command.node}", f"the disk with identity {identity!r} is registered twice")
        if identity in others:
            raise BadInput(f"node {command.node}", f"the disk with identity {identity!r} is {others[identity]} already")


def _register_disk(draft: Draft, node: str, said: DiskSaid) -> None:
    old = draft.tables.disks.get(f"{node}/{said.name}")
    if old is not None and old.there and old.said == said and not old.unseen:
        return
    draft.emit(ev.DiskRegistered(at=draft.now, node=node, disk=said))
    if old is not None and said.capacity < old.said.capacity:
        shrink_disk(draft, draft.tables.disks[old.key])


def note_heartbeat(draft: Draft, command: Seen) -> None:
    require_agent(command, command.node)
    if _node(draft, command.node).silent:
        draft.emit(ev.NodeAnswered(at=draft.now, node=command.node))


def note_silence(draft: Draft, command: Silent) -> None:
    """No new grants there; the owners of what is on it are notified."""
    require_administrator(command)
    if not _node(draft, command.node).silent:
        draft.emit(ev.NodeSilent(at=draft.now, node=command.node))
        text = f"node {command.node} does not answer; what is on it may be out of reach"
        notify_owners_on(draft, draft.tables.on_node(command.node), text, HELD)


def _node(draft: Draft, name: str) -> LiveNode:
    if name not in draft.tables.nodes:
        raise UnknownName("node", name, draft.tables.nodes)
    return draft.tables.nodes[name]


def change_drain(draft: Draft, command: Drain | Undrain) -> None:
    """No new grants there from now on, or new ones again, also where a disk was suspended; what is there stays."""
    require_administrator(command)
    tables, wish = draft.tables, isinstance(command, Drain)
    disk = tables.disks.get(command.what)
    drained = disk.drained if disk is not None else _node(draft, command.what).drained
    if drained != wish:
        event = ev.Drained if wish else ev.Undrained
        draft.emit(event(at=draft.now, what=command.what))
    if not wish:
        for each in _disks_in(draft, command.what):
            resume_disk(draft, tables.disks[each.key], "an administrator opened it")


def remove_disks(draft: Draft, command: Remove) -> None:
    """An administrator knows that these will not come back."""
    require_administrator(command)
    for disk in _disks_in(draft, command.what):
        if disk.there:
            lose_disk(draft, disk, Because(Reason.ADMINISTRATOR, f"an administrator removed {command.what}"))


def _disks_in(draft: Draft, what: str) -> list[LiveDisk]:
    """The disk of that name, or all disks of the node."""
    disk = draft.tables.disks.get(what)
    return [disk] if disk is not None else draft.tables.disks_of(_node(draft, what).name)
