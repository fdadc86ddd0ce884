"""What each event does to the state. Nothing else changes it, and nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from forebay.decide.grants import events as ev
from forebay.decide.grants.machine import LiveDisk, LiveNode, Stray, Suspension
from forebay.decide.grants.state import Tables
from forebay.model.errors import ForebayError
from forebay.model.grant import NEXT, VOLUME_NEXT, Grant, State, Volume, VolumeState, node_of


class BrokenJournal(ForebayError):
    """An event can't follow those before it."""


def apply_event(tables: Tables, event: ev.Event) -> None:
    """Change the state by one event."""
    try:
        _DOES[type(event)](tables, event)
    except KeyError as error:
        raise BrokenJournal(f"{type(event).__name__} at {event.at:g} speaks of {error}, which there is not") from error


def moved(grant: Grant, state: State, **changes: Any) -> Grant:
    """The grant in its next state."""
    if state not in NEXT[grant.state]:
        raise BrokenJournal(f"grant {grant.id} can't become {state.value}: it is {grant.state.value}")
    return replace(grant, state=state, **changes)


def _move(tables: Tables, grant: str, state: State, **changes: Any) -> Grant:
    new = moved(tables.grants[grant], state, **changes)
    tables.put("grants", grant, new)
    return new


def _move_volume(tables: Tables, volume: Volume, state: VolumeState, **changes: Any) -> None:
    if state not in VOLUME_NEXT[volume.state]:
        raise BrokenJournal(f"volume {volume.name} can't become {state.value}: it is {volume.state.value}")
    tables.put("volumes", volume.name, replace(volume, state=state, **changes))


def _turn(tables: Tables, turned: ev.Turned | None) -> None:
    if turned is not None:
        for node, count in turned.probed:
            tables.put("probed", node, count)
        tables.put("facts", "turned", replace(turned, probed=()))


def _asked(tables: Tables, event: ev.Asked) -> None:
    ask, order = event.ask, tables.facts["asked"] + 1
    if ask.grant in tables.grants:
        raise BrokenJournal(f"grant {ask.grant} is asked for twice")
    tables.put("facts", "asked", order)
    tables.put("keys", key_of(ask.uid, ask.key), ask.grant)
    tables.put("grants", ask.grant, Grant(ask=ask, order=order, asked=event.at))


def key_of(uid: int, key: str) -> str:
    """Every user has keys of their own."""
    return f"{uid}:{key}"


def _queued(tables: Tables, event: ev.Queued) -> None:
    _turn(tables, event.turned)
    _drop_volumes(tables, tables.grants[event.grant])
    again = {"because": event.because, "until": event.until, "tried": event.tried, "expected": event.expected}
    _move(tables, event.grant, State.QUEUED, volumes=0, start=0.0, end=0.0, policy="", **again)


def _drop_volumes(tables: Tables, grant: Grant) -> None:
    for name in grant.names:
        tables.put("volumes", name, None)


def _granted(tables: Tables, event: ev.Granted) -> None:
    _turn(tables, event.turned)
    grant = _move(
        tables, event.grant, State.GRANTED, because=event.because, start=event.start, end=event.end, until=0.0,
        expected=0.0, volumes=len(event.parts), policy=event.policy,
    )  # fmt: skip
    for name, (disk, size) in zip(grant.names, event.parts, strict=True):
        tables.put("volumes", name, Volume(name=name, grant=grant.id, disk=tables.disks[disk].key, size=size))


def _turned_down(tables: Tables, event: ev.TurnedDown) -> None:
    _turn(tables, event.turned)
    _move(tables, event.grant, State.REFUSED, because=event.because, ended=event.at, until=0.0, expected=0.0)


def _making(tables: Tables, event: ev.Making) -> None:
    grant = _move(tables, event.grant, State.MAKING)
    for volume in tables.volumes_of(grant):
        _move_volume(tables, volume, VolumeState.MAKING)
        stray = tables.strays.get(f"{volume.disk} {volume.name}")
        if stray is not None and stray.held:  # it has been there all the time, and is somebody's again
            tables.put("strays", stray.key, None)


def _ready(tables: Tables, event: ev.Ready) -> None:
    _move(tables, event.grant, State.READY)


def _in_use(tables: Tables, event: ev.InUse) -> None:
    _move(tables, event.grant, State.IN_USE)


def _extended(tables: Tables, event: ev.Extended) -> None:
    tables.put("grants", event.grant, replace(tables.grants[event.grant], end=event.end))


def _releasing(tables: Tables, event: ev.Releasing) -> None:
    _move(tables, event.grant, State.RELEASING, outcome=event.outcome, because=event.because)


def _ended(tables: Tables, event: ev.Ended) -> None:
    grant = tables.grants[event.grant]
    if grant.state is State.GRANTED:
        for volume in tables.volumes_of(grant):
            _move_volume(tables, volume, VolumeState.GONE)
    _move(tables, event.grant, event.state, because=event.because, ended=event.at, until=0.0, expected=0.0)


def _told(tables: Tables, event: ev.Told | ev.Declined) -> None:
    """Only the journal keeps it."""
    if event.grant not in tables.grants:
        raise KeyError(event.grant)


def _heard(tables: Tables, node: str, report: int) -> None:
    own = tables.nodes[node]
    if report > own.report:
        tables.put("nodes", node, replace(own, report=report))


def _volume(tables: Tables, event: ev.VolumeEvent, state: VolumeState, **changes: Any) -> None:
    volume = tables.volumes[event.volume]
    _move_volume(tables, volume, state, **changes)
    _heard(tables, volume.node, event.report)


def _made(tables: Tables, event: ev.VolumeMade) -> None:
    where = {"path": event.path, "device": event.device, "settings": event.settings}
    _volume(tables, event, VolumeState.MADE, because="", **where)
    volume = tables.volumes[event.volume]
    disk = tables.disks[volume.disk]
    if disk.failures and tables.grants[volume.grant].state is State.MAKING:  # else it was there before
        tables.put("disks", disk.key, replace(disk, failures=0))


def _half(tables: Tables, event: ev.VolumeHalf) -> None:
    _volume(tables, event, VolumeState.MAKING, because=event.because)


def _gone(tables: Tables, event: ev.VolumeGone) -> None:
    _volume(tables, event, VolumeState.GONE)


def _lost(tables: Tables, event: ev.VolumeLost) -> None:
    _volume(tables, event, VolumeState.LOST, because=event.because)


def _moved_volume(tables: Tables, event: ev.VolumeMoved) -> None:
    volume = tables.volumes[event.volume]
    disk = tables.disks[event.disk].key
    grant = tables.grants[volume.grant]
    _heard(tables, volume.node, event.report)
    tables.put("volumes", volume.name, replace(volume, disk=disk, failed=(*volume.failed, volume.disk)))
    because = f"{disk}, as volume {volume.name} could not be made on {volume.disk}"
    tables.put("grants", grant.id, replace(grant, because=because))


def _stuck(tables: Tables, event: ev.VolumeStuck) -> None:
    _volume(tables, event, VolumeState.LOST, because=event.because)
    grant = tables.grants[tables.volumes[event.volume].grant]
    because = f"{grant.because}; volume {event.volume} could not be removed: {event.because}"
    tables.put("grants", grant.id, replace(grant, because=because))


def _strayed(tables: Tables, event: ev.Strayed) -> None:
    node = tables.disks[event.stray.disk].node
    tables.put("strays", event.stray.key, event.stray)
    _heard(tables, node, event.report)


def _stray_gone(tables: Tables, event: ev.StrayGone) -> None:
    tables.put("strays", event.stray.key, None)
    _heard(tables, node_of(event.stray.disk), event.report)


def _node_registered(tables: Tables, event: ev.NodeRegistered) -> None:
    old = tables.nodes.get(event.node)
    node = old or LiveNode(name=event.node, network_bandwidth=1.0, order=len(tables.nodes))
    bandwidth = event.network_bandwidth
    tables.put("nodes", event.node, replace(node, silent=False, network_bandwidth=bandwidth, fields=event.fields))


def _disk_registered(tables: Tables, event: ev.DiskRegistered) -> None:
    node = tables.nodes[event.node].name
    new = LiveDisk(node=node, said=event.disk, order=len(tables.disks))
    old = tables.disks.get(new.key, new)
    tables.put("disks", new.key, replace(old, said=event.disk, there=True, unseen=""))


def _disk_vanished(tables: Tables, event: ev.DiskVanished) -> None:
    disk = tables.disks[event.disk]
    tables.put("disks", event.disk, replace(disk, there=False, unseen="", failures=0, suspension=None))


def _disk_unseen(tables: Tables, event: ev.DiskUnseen) -> None:
    tables.put("disks", event.disk, replace(tables.disks[event.disk], unseen=event.because))


def _disk_failed(tables: Tables, event: ev.DiskFailed) -> None:
    tables.put("disks", event.disk, replace(tables.disks[event.disk], failures=event.failures))


def _disk_suspended(tables: Tables, event: ev.DiskSuspended) -> None:
    disk = tables.disks[event.disk]
    since = event.at if disk.suspension is None else disk.suspension.since
    new = Suspension(since=since, because=event.because, trial=event.trial, due=event.due, tries=event.tries)
    tables.put("disks", event.disk, replace(disk, suspension=new))


def _disk_tried(tables: Tables, event: ev.DiskTried) -> None:
    disk = tables.disks[event.disk]
    if disk.suspension is None:
        raise BrokenJournal(f"disk {event.disk} is tried, but is not suspended")
    under_way = replace(disk.suspension, volume=event.volume, held=event.size)
    tables.put("disks", event.disk, replace(disk, suspension=under_way))


def _disk_resumed(tables: Tables, event: ev.DiskResumed) -> None:
    tables.put("disks", event.disk, replace(tables.disks[event.disk], failures=0, suspension=None))


def _silent(tables: Tables, event: ev.NodeSilent) -> None:
    tables.put("nodes", event.node, replace(tables.nodes[event.node], silent=True))


def _answered(tables: Tables, event: ev.NodeAnswered) -> None:
    tables.put("nodes", event.node, replace(tables.nodes[event.node], silent=False))


def _reported(tables: Tables, event: ev.Reported) -> None:
    _heard(tables, event.node, event.report)


def _doubted(tables: Tables, event: ev.NodeDoubted) -> None:
    node = tables.nodes[event.node]
    tables.put("nodes", event.node, replace(node, doubted=tables.facts["asked"] + 1, other=event.seen))
    _hold(tables, tables.strays_on(event.node), held=True)


def _trusted(tables: Tables, event: ev.NodeTrusted) -> None:
    tables.put("nodes", event.node, replace(tables.nodes[event.node], doubted=0))
    _hold(tables, tables.strays_on(event.node), held=False)


def _let_go(tables: Tables, event: ev.LetGo) -> None:
    _hold(tables, tables.strays_of(event.grant), held=False)
    grant = tables.grants.get(event.grant)
    if grant is not None:
        tables.put("grants", grant.id, replace(grant, let_go=True))


def _hold(tables: Tables, strays: list[Stray], *, held: bool) -> None:
    for stray in strays:
        tables.put("strays", stray.key, replace(stray, held=held))


def _drained(tables: Tables, event: ev.Drained | ev.Undrained) -> None:
    drained = isinstance(event, ev.Drained)
    if event.what in tables.nodes:
        tables.put("nodes", event.what, replace(tables.nodes[event.what], drained=drained))
    else:
        tables.put("disks", event.what, replace(tables.disks[event.what], drained=drained))


def _policy_changed(tables: Tables, event: ev.PolicyChanged) -> None:
    tables.put("facts", "policy", event.policy)
    tables.put("facts", "turned", ev.Turned())
    for node in list(tables.probed):
        tables.put("probed", node, None)


def _rules_changed(tables: Tables, event: ev.RulesChanged) -> None:
    tables.put("facts", "rules", event.rules)


def _swept(tables: Tables, event: ev.Swept) -> None:
    tables.put("facts", "swept", event.order)


def _forgotten(tables: Tables, event: ev.Forgotten) -> None:
    for name in event.grants:
        grant = tables.grants[name]
        _drop_volumes(tables, grant)
        tables.put("keys", key_of(grant.ask.uid, grant.ask.key), None)
        tables.put("grants", name, None)


_DOES: dict[type[ev.Event], Callable[[Tables, Any], None]] = {
    ev.Asked: _asked,
    ev.Queued: _queued,
    ev.Granted: _granted,
    ev.TurnedDown: _turned_down,
    ev.Making: _making,
    ev.Ready: _ready,
    ev.InUse: _in_use,
    ev.Extended: _extended,
    ev.Declined: _told,
    ev.Releasing: _releasing,
    ev.Ended: _ended,
    ev.Told: _told,
    ev.VolumeMade: _made,
    ev.VolumeHalf: _half,
    ev.VolumeGone: _gone,
    ev.VolumeLost: _lost,
    ev.VolumeMoved: _moved_volume,
    ev.VolumeStuck: _stuck,
    ev.Strayed: _strayed,
    ev.StrayGone: _stray_gone,
    ev.NodeRegistered: _node_registered,
    ev.DiskRegistered: _disk_registered,
    ev.DiskVanished: _disk_vanished,
    ev.DiskUnseen: _disk_unseen,
    ev.DiskFailed: _disk_failed,
    ev.DiskSuspended: _disk_suspended,
    ev.DiskTried: _disk_tried,
    ev.DiskResumed: _disk_resumed,
    ev.NodeSilent: _silent,
    ev.NodeAnswered: _answered,
    ev.Reported: _reported,
    ev.NodeDoubted: _doubted,
    ev.NodeTrusted: _trusted,
    ev.LetGo: _let_go,
    ev.Drained: _drained,
    ev.Undrained: _drained,
    ev.PolicyChanged: _policy_changed,
    ev.RulesChanged: _rules_changed,
    ev.Swept: _swept,
    ev.Forgotten: _forgotten,
}
