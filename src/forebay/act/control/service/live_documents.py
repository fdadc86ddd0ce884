"""Grants, their stories, nodes and actions of the live state as documents."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TypedDict, cast

from forebay.act.control import documents
from forebay.act.control.auth.volume_keys import MEANS, Keys, public, without_key
from forebay.act.control.service.live_state import Live
from forebay.decide.grants.codec import event_of
from forebay.decide.grants.space import ALWAYS
from forebay.history.store import Connection
from forebay.history.store.journal import Entry, LogLine, list_entries, list_log_lines
from forebay.model.grant import AVAILABLE, SHARED, SHARED_FOLDER, Grant
from forebay.model.staging import Staging

VOLUMES = "volumes"
"""The type of a grant whose volumes are mounted or attached one by one; the other type is SHARED."""
_NOT_IN_STORIES = ("v", "kind", "at", "turned", "grant")


def grant_summary(live: Live, grant: Grant) -> documents.GrantSummary:
    ask, control = grant.ask, live.control
    return {
        "id": grant.id, "state": grant.state.value, "size": ask.size, "seconds": ask.seconds,
        "uid": ask.uid, "user": ask.user, "job": ask.job, "tier": ask.wants.get("tier", ""),
        "because": grant.because, "reason": grant.reason.value, "policy": grant.policy,
        "position": control.position(grant.id), "tried": grant.tried, "expected": grant.expected,
        "staging": None if grant.staging is None else staging_document(grant.staging),
        "marks": control.marks(grant.id),
        "created": grant.asked, "changed": live.changed.get(grant.id, grant.asked),
    }  # fmt: skip


def staging_document(staging: Staging) -> documents.StagingDocument:
    return {
        "key": staging.key, "way": staging.way, "pairs": [list(pair) for pair in staging.pairs],
        "state": staging.state.value, "because": staging.because, "said": staging.describe(),
        "files": staging.files, "bytes": staging.bytes, "total": staging.total, "nodes": list(staging.nodes),
        "begun": staging.begun, "moved": staging.moved, "ended": staging.ended, "limit": staging.limit,
    }  # fmt: skip


def grant_document(live: Live, grant: Grant) -> documents.GrantDocument:
    ask = grant.ask
    volumes: list[documents.VolumeDocument] = []
    for volume in live.control.tables.volumes_of(grant):
        node, _, disk = volume.disk.partition("/")
        volumes.append({
            "number": int(volume.name.rpartition(".")[2]), "name": volume.name, "node": node, "disk": disk,
            "size": volume.size, "state": volume.state.value, "path": volume.path, "device": volume.device,
            "settings": without_key(volume.settings), "because": volume.because,
        })  # fmt: skip
    paths = [volume["path"] for volume in volumes if volume["path"]]
    if ask.is_shared:
        paths = [f"{SHARED_FOLDER}/{grant.id}"] if grant.state in AVAILABLE else []
    return {
        **grant_summary(live, grant),
        "start": grant.start or ask.start or 0.0, "until": grant.end, "gid": ask.gid, "key": ask.key,
        "fields": {name: value for name, value in ask.wants.items() if name != "tier"},
        "type": SHARED if ask.is_shared else VOLUMES, "servers": grant.volumes if ask.is_shared else 0,
        "equal": ask.equal, "expose": ask.expose, "path": paths[0] if paths else "", "paths": paths, "volumes": volumes,
    }  # fmt: skip


class Fill(TypedDict):
    """Used and planned bytes of a disk, and its number of volumes."""

    used: int
    planned: int
    volumes: int


def fills(live: Live, keys: Iterable[str] | None = None) -> dict[str, Fill]:
    """How full these disks are; without `keys`, all disks."""
    tables, holds = live.control.tables, live.control.tables.space.holds
    disks = {key: Fill(used=0, planned=0, volumes=0) for key in (tables.disks if keys is None else keys)}
    names: Iterable[str] = holds
    if keys is not None:  # the test volume of a suspended disk is held by the disk's key
        strays = (key for key, stray in tables.strays.items() if stray.disk in disks)
        names = [*(volume.name for key in disks for volume in tables.on_disk(key)), *disks, *strays]
    for hold in (holds[name] for name in names if name in holds):
        total = disks[hold.disk]
        total["used" if hold.start == ALWAYS else "planned"] += hold.size  # volumes that exist
        total["volumes"] += 1
    return disks


def node_documents(live: Live) -> list[documents.NodeDocument]:
    tables, full = live.control.tables, fills(live)
    disks: dict[str, list[documents.DiskDocument]] = {name: [] for name in tables.nodes}
    for key, disk in tables.disks.items():
        spec = disk.spec
        disks[disk.node].append({
            "name": spec.name, "capacity": spec.capacity, "used": full[key]["used"],
            "read_bandwidth": spec.read_bandwidth, "write_bandwidth": spec.write_bandwidth, "identity": spec.identity,
            "fields": dict(spec.fields), "there": disk.there, "drained": disk.drained, "unseen": disk.unseen,
            "suspended": "" if disk.suspension is None else disk.suspension.because,
        })  # fmt: skip
    return [
        {
            "name": node.name, "silent": node.silent, "drained": node.drained,
            "network_bandwidth": node.network_bandwidth, "fields": dict(node.fields), "report": node.report,
            "doubted": node.doubted > 0, "disks": disks[node.name],
        }
        for node in tables.nodes.values()
    ]  # fmt: skip


def action_list(live: Live, node: str, keys: Keys) -> documents.ActionList:
    known = live.control.tables.nodes.get(node)
    actions = [cast(documents.ActionDocument, asdict(action)) for action in live.control.actions(node)]
    for action in actions:
        if action["expose"] in MEANS:
            action["key"] = keys.of(action["expose"], action["volume"])
    copies = [cast(documents.CopyDocument, asdict(copy)) for copy in live.control.copies(node)]
    for copy in copies:
        if copy["servers"]:
            copy["secret"] = keys.of(SHARED, copy["grant"])
    report = known.report if known is not None else 0
    return {"actions": actions, "copies": copies, "report": report, "mode": mode(live), "seen": live.stamp}


def mode(live: Live) -> str:
    return "shadow" if live.control.rules.shadow else "enforce"


def story_of(connection: Connection, grant: str) -> list[documents.StoryLine]:
    """The events and log lines of a grant, by time."""
    return tell_story(list_entries(connection, grant), list_log_lines(connection, grant))


def tell_story(entries: Iterable[Entry], logs: Iterable[LogLine]) -> list[documents.StoryLine]:
    """Merge events and log lines by time; `what` is the kind of event, or "log" for a line of `node`'s agent."""
    lines: list[documents.StoryLine] = []
    for entry in entries:
        event = json.loads(public(entry.line))
        more = {name: value for name, value in event.items() if name not in _NOT_IN_STORIES}
        lines.append({
            "time": entry.at, "what": event["kind"], "number": entry.number, "node": "", "level": "info",
            "text": event_of(event).sentence(), "more": more,
        })  # fmt: skip
    for log in logs:
        lines.append({
            "time": log.at, "what": "log", "number": 0, "node": log.node, "level": log.level, "text": log.text,
            "more": {},
        })  # fmt: skip
    return sorted(lines, key=lambda line: line["time"])  # a stable sort
