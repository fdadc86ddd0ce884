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
    only_administrators,
    only_agent_of,
)
from forebay.decide.grants.desk import Desk
from forebay.decide.grants.doubt import doubt
from forebay.decide.grants.losing import shrink, vanish
from forebay.decide.grants.machine import DiskSaid, LiveDisk, LiveNode, check_fields, check_node
from forebay.decide.grants.reports import reconcile
from forebay.decide.grants.suspensions import resume
from forebay.model.errors import BadInput, UnknownName
from forebay.model.grant import HELD, State


def register(desk: Desk, command: Register) -> None:
    """A node is as its agent describes it."""
    only_agent_of(command, command.node)
    check_node(command.node, command.network_bandwidth)
    check_fields(f"node {command.node}", command.fields)
    _check_disks(desk, command)
    if _is_old(desk, command):
        return
    node = desk.tables.nodes.get(command.node)
    said = (command.network_bandwidth, command.fields, False)
    if node is None or (node.network_bandwidth, node.fields, node.silent) != said:
        fields = dict(command.fields)
        bandwidth = command.network_bandwidth
        desk.emit(ev.NodeRegistered(at=desk.now, node=command.node, network_bandwidth=bandwidth, fields=fields))
        desk.freed = True
    names = {disk.name for disk in command.disks}
    for disk in [d for d in desk.tables.disks.values() if d.node == command.node]:
        if disk.there and disk.said.name in command.unseen and disk.said.name not in names:
            _note_unseen(desk, disk, command.unseen[disk.said.name])
        elif disk.there and disk.said.name not in names:
            vanish(desk, disk, f"node {command.node} has no disk {disk.said.name} any more")
    for each in command.disks:
        _register_disk(desk, command.node, each)
    doubt(desk, command)
    if command.volumes is not None:
        told = Found(caller=command.caller, node=command.node, number=command.number, volumes=command.volumes)
        reconcile(desk, told)
    elif command.number > desk.tables.nodes[command.node].report:
        desk.emit(ev.Reported(at=desk.now, node=command.node, report=command.number))


def _note_unseen(desk: Desk, disk: LiveDisk, because: str) -> None:
    """It may come back as it was, so nothing on it is given up; those who hold something there are told."""
    if disk.unseen:
        return
    desk.emit(ev.DiskUnseen(at=desk.now, disk=disk.key, because=because or "its agent gave no reason"))
    for name in sorted({volume.grant for volume in desk.tables.on_disk(disk.key)}):
        if desk.tables.grants[name].state in HELD - {State.RELEASING}:
            desk.tell(desk.tables.grants[name], f"disk {disk.key} can't be looked at: {because}")


def _is_old(desk: Desk, command: Register) -> bool:
    """Whether the agent has told something newer already."""
    node = desk.tables.nodes.get(command.node)
    return node is not None and 0 < command.number < node.report


def _check_disks(desk: Desk, command: Register) -> None:
    names: set[str] = set()
    for at, disk in enumerate(command.disks):
        where = f"node {command.node}: disk[{at}]"
        disk.check(where)
        if disk.name in names:
            raise BadInput(where, f"disk {disk.name!r} is registered twice")
        names.add(disk.name)
    own = [disk.identity for disk in command.disks if disk.identity]
    others = {d.said.identity: d.key for d in desk.tables.disks.values() if d.there and d.node != command.node}
    for identity in own:
        if own.count(identity) > 1:
            raise BadInput(f"node {command.node}", f"the disk with identity {identity!r} is registered twice")
        if identity in others:
            raise BadInput(f"node {command.node}", f"the disk with identity {identity!r} is {others[identity]} already")


def _register_disk(desk: Desk, node: str, said: DiskSaid) -> None:
    old = desk.tables.disks.get(f"{node}/{said.name}")
    if old is not None and old.there and old.said == said and not old.unseen:
        return
    desk.emit(ev.DiskRegistered(at=desk.now, node=node, disk=said))
    if old is not None and said.capacity < old.said.capacity:
        shrink(desk, desk.tables.disks[old.key])


def seen(desk: Desk, command: Seen) -> None:
    only_agent_of(command, command.node)
    if _node(desk, command.node).silent:
        desk.emit(ev.NodeAnswered(at=desk.now, node=command.node))


def silent(desk: Desk, command: Silent) -> None:
    """No new grants there; those who hold something on it are told."""
    only_administrators(command)
    if _node(desk, command.node).silent:
        return
    desk.emit(ev.NodeSilent(at=desk.now, node=command.node))
    for name in sorted({volume.grant for volume in desk.tables.on_node(command.node)}):
        grant = desk.tables.grants[name]
        if grant.state in HELD - {State.RELEASING}:
            desk.tell(grant, f"node {command.node} does not answer; what is on it may be out of reach")


def _node(desk: Desk, name: str) -> LiveNode:
    if name not in desk.tables.nodes:
        raise UnknownName("node", name, desk.tables.nodes)
    return desk.tables.nodes[name]


def drain(desk: Desk, command: Drain | Undrain) -> None:
    """No new grants there from now on, or new ones again, also where a disk was suspended; what is there stays."""
    only_administrators(command)
    tables, wish = desk.tables, isinstance(command, Drain)
    disk = tables.disks.get(command.what)
    drained = disk.drained if disk is not None else _node(desk, command.what).drained
    if drained != wish:
        event = ev.Drained if wish else ev.Undrained
        desk.emit(event(at=desk.now, what=command.what))
    if not wish:
        for each in [disk] if disk is not None else _disks_of(desk, command.what):
            resume(desk, tables.disks[each.key], "an administrator opened it")


def remove(desk: Desk, command: Remove) -> None:
    """What an administrator knows will not come back."""
    only_administrators(command)
    disk = desk.tables.disks.get(command.what)
    own: list[LiveDisk] = [disk] if disk is not None else _disks_of(desk, command.what)
    for each in own:
        if each.there:
            vanish(desk, each, f"an administrator removed {command.what}")


def _disks_of(desk: Desk, node: str) -> list[LiveDisk]:
    name = _node(desk, node).name
    return [disk for disk in desk.tables.disks.values() if disk.node == name]
