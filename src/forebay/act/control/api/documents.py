"""What the service tells of grants, nodes and actions: plain documents, times in seconds since 1970."""

from __future__ import annotations

from typing import Any

from forebay.act.control.auth.volume_keys import MEANS, Keys, without_key
from forebay.act.control.service.journal_identity import seen_of
from forebay.act.control.service.live_state import Live
from forebay.decide.grants.action import Action
from forebay.decide.grants.machine import LiveDisk
from forebay.model.grant import Grant, Volume

Document = dict[str, Any]


def grant_view(live: Live, grant: Grant) -> Document:
    """A grant with its volumes, its place in the queue, and what its owner should know."""
    ask, control = grant.ask, live.control
    volumes = [_volume_view(volume) for volume in control.tables.volumes_of(grant)]
    paths = [volume["path"] for volume in volumes if volume["path"]]
    return {
        "id": grant.id,
        "state": grant.state.value,
        "size": ask.size,
        "seconds": ask.seconds,
        "start": grant.start or ask.start or 0.0,
        "until": grant.end,
        "uid": ask.uid,
        "gid": ask.gid,
        "user": ask.user,
        "job": ask.job,
        "key": ask.key,
        "tier": ask.wants.get("tier", ""),
        "fields": {name: value for name, value in ask.wants.items() if name != "tier"},
        "expose": ask.expose,
        "because": grant.because,
        "reason": grant.reason.value,
        "policy": grant.policy,
        "position": control.position(grant.id),
        "tried": grant.tried,
        "expected": grant.expected,
        "marks": control.marks(grant.id),
        "path": paths[0] if paths else "",
        "paths": paths,
        "volumes": volumes,
        "created": grant.asked,
        "changed": live.changed.get(grant.id, grant.asked),
    }


def _volume_view(volume: Volume) -> Document:
    return {
        "number": int(volume.name.rpartition(".")[2]),
        "name": volume.name,
        "node": volume.node,
        "disk": volume.disk[len(volume.node) + 1 :],
        "size": volume.size,
        "state": volume.state.value,
        "path": volume.path,
        "device": volume.device,
        "settings": without_key(volume.settings),
        "because": volume.because,
    }


def nodes_view(live: Live) -> list[Document]:
    """All nodes with their disks; `used` is bytes that exist on a disk."""
    tables, used = live.control.tables, live.control.used()
    disks: dict[str, list[Document]] = {name: [] for name in tables.nodes}
    for key, disk in tables.disks.items():
        disks[disk.node].append(_disk_view(disk, used[key]))
    return [
        {
            "name": node.name,
            "silent": node.silent,
            "drained": node.drained,
            "network_bandwidth": node.network_bandwidth,
            "fields": dict(node.fields),
            "report": node.report,
            "doubted": node.doubted > 0,
            "disks": disks[node.name],
        }
        for node in tables.nodes.values()
    ]


def _disk_view(disk: LiveDisk, used: int) -> Document:
    return {
        "name": disk.said.name,
        "capacity": disk.said.capacity,
        "used": used,
        "read_bandwidth": disk.said.read_bandwidth,
        "write_bandwidth": disk.said.write_bandwidth,
        "identity": disk.said.identity,
        "fields": dict(disk.said.fields),
        "there": disk.there,
        "drained": disk.drained,
        "unseen": disk.unseen,
        "suspended": "" if disk.suspension is None else disk.suspension.because,
    }


def actions_view(live: Live, node: str, keys: Keys) -> Document:
    """What a node's agent is to do, and the number of its last report that was heeded (0: of none)."""
    known = live.control.tables.nodes.get(node)
    return {
        "actions": [_action_view(action, keys) for action in live.control.actions(node)],
        "report": known.report if known is not None else 0,
        "mode": mode(live),
        "seen": seen_of(live),
    }


def _action_view(action: Action, keys: Keys) -> Document:
    return {
        "kind": action.kind,
        "volume": action.volume,
        "disk": action.disk,
        "size": action.size,
        "uid": action.uid,
        "gid": action.gid,
        "mode": action.mode,
        "ceiling": action.ceiling,
        "expose": action.expose,
        "hosts": list(action.hosts),
        "key": keys.of(action.volume) if action.expose in MEANS else "",
    }


def mode(live: Live) -> str:
    return "shadow" if live.control.rules.shadow else "enforce"
