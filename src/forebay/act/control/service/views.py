"""Grants, nodes and actions of the live state as documents."""

from __future__ import annotations

from forebay.act.control.auth.volume_keys import MEANS, Keys, without_key
from forebay.act.control.documents import (
    ActionDocument,
    ActionList,
    DiskDocument,
    GrantDocument,
    NodeDocument,
    VolumeDocument,
)
from forebay.act.control.service.journal_identity import journal_stamp
from forebay.act.control.service.live_state import Live
from forebay.decide.grants.machine import Action, LiveDisk
from forebay.model.grant import Grant, Volume


def grant_document(live: Live, grant: Grant) -> GrantDocument:
    ask, control = grant.ask, live.control
    volumes = [_volume_document(volume) for volume in control.tables.volumes_of(grant)]
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


def _volume_document(volume: Volume) -> VolumeDocument:
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


def node_documents(live: Live) -> list[NodeDocument]:
    """All nodes with their disks."""
    tables, used = live.control.tables, live.control.used()
    disks: dict[str, list[DiskDocument]] = {name: [] for name in tables.nodes}
    for key, disk in tables.disks.items():
        disks[disk.node].append(_disk_document(disk, used[key]))
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


def _disk_document(disk: LiveDisk, used: int) -> DiskDocument:
    return {
        "name": disk.spec.name,
        "capacity": disk.spec.capacity,
        "used": used,
        "read_bandwidth": disk.spec.read_bandwidth,
        "write_bandwidth": disk.spec.write_bandwidth,
        "identity": disk.spec.identity,
        "fields": dict(disk.spec.fields),
        "there": disk.there,
        "drained": disk.drained,
        "unseen": disk.unseen,
        "suspended": "" if disk.suspension is None else disk.suspension.because,
    }


def action_list(live: Live, node: str, keys: Keys) -> ActionList:
    """What a node's agent must do."""
    known = live.control.tables.nodes.get(node)
    return {
        "actions": [_action_document(action, keys) for action in live.control.actions(node)],
        "report": known.report if known is not None else 0,
        "mode": mode(live),
        "seen": journal_stamp(live),
    }


def _action_document(action: Action, keys: Keys) -> ActionDocument:
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
