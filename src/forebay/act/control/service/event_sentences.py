"""What happened, in words: one sentence for each kind of event in the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from forebay.decide.grants.words import lasting, wanted
from forebay.model.units import format_size

Told = Mapping[str, Any]
"""An event as the journal has it."""


def sentence(event: Told) -> str:
    """
    >>> sentence({"kind": "Drained", "what": "storage1/nvme0"})
    'storage1/nvme0 is drained: no new grants there'
    """
    kind = event["kind"]
    return _MADE[kind](event) if kind in _MADE else _SENTENCES[kind].format_map(event)


def _asked(event: Told) -> str:
    ask = event["ask"]
    what = format_size(ask["size"]) + wanted(ask.get("wants", {}))
    job = f" for job {ask['job']}" if ask.get("job") else ""
    return f"uid {ask['uid']} asks for {what} for {lasting(ask['seconds'])}{job}"


def _queued(event: Told) -> str:
    tried = f" after {event['tried']} more tries" if event.get("tried") else ""
    return f"waits{tried}: {event['because']}"


def _extended(event: Told) -> str:
    return f"extended until {datetime.fromtimestamp(event['end']).strftime('%Y-%m-%d %H:%M:%S')}"


def _ended(event: Told) -> str:
    state, because = event["state"], event["because"]
    return str(because) if because.startswith(state) else f"{state}: {because}"


def _made(event: Told) -> str:
    path = event.get("path")
    return f"volume {event['volume']} is made" + (f": {path}" if path else "")


def _disk(event: Told) -> str:
    disk = event["disk"]
    return f"node {event['node']} has disk {disk['name']} of {format_size(disk['capacity'])}"


def _rules(event: Told) -> str:
    return "rules: " + ", ".join(f"{name} {value}" for name, value in event["rules"].items())


def _forgotten(event: Told) -> str:
    return f"{len(event['grants'])} ended grants are not listed any more"


_MADE: dict[str, Callable[[Told], str]] = {
    "Asked": _asked,
    "Queued": _queued,
    "Extended": _extended,
    "Ended": _ended,
    "VolumeMade": _made,
    "DiskRegistered": _disk,
    "RulesChanged": _rules,
    "Forgotten": _forgotten,
}
_SENTENCES = {
    "Granted": "granted: {because}",
    "TurnedDown": "refused: {because}",
    "Making": "its volumes are to be made",
    "Ready": "ready",
    "InUse": "in use",
    "Declined": "not done: {what}: {because}",
    "Releasing": "being released: {because}",
    "Told": "its owner is to know: {words}",
    "VolumeHalf": "volume {volume} is only half there: {because}",
    "VolumeGone": "volume {volume} is gone",
    "VolumeLost": "volume {volume} is lost: {because}",
    "VolumeMoved": "volume {volume} is to be made on {disk}, as it could not be made where it was to be: {because}",
    "VolumeStuck": "volume {volume} can't be removed: {because}",
    "Strayed": "volume {stray[name]} on {stray[disk]} has no owner",
    "StrayGone": "volume {stray[name]} on {stray[disk]} had no owner and is gone",
    "NodeRegistered": "node {node} is there",
    "DiskVanished": "disk {disk} is gone: {because}",
    "DiskUnseen": "disk {disk} can't be looked at, no new grants there: {because}",
    "DiskFailed": "a volume could not be made on disk {disk} (failures in a row: {failures}): {because}",
    "DiskSuspended": "disk {disk} is suspended, no new grants there: {because}",
    "DiskTried": "disk {disk} is tried: volume {volume} is to be made there for nobody",
    "DiskResumed": "disk {disk} is open for new grants again: {because}",
    "NodeSilent": "node {node} is silent: no new grants there",
    "NodeAnswered": "node {node} answers again",
    "NodeDoubted": "node {node} is in doubt, what is on it is kept: {because}",
    "NodeTrusted": "node {node} is in doubt no more: what nobody owns there may be removed",
    "LetGo": "what is kept of grant {grant} may be removed",
    "Reported": "node {node} told what it has",
    "Drained": "{what} is drained: no new grants there",
    "Undrained": "{what} is open for new grants",
    "PolicyChanged": "policy {policy} decides from now on",
    "Swept": "the queue was tried",
}
