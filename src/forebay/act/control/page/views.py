"""What the page shows, as small documents: the machine, grants, their times, and what was decided.

Whoever looks is an `Eye`: a user's sees own grants and what all have together, an administrator's sees everything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NotRequired, TypedDict

from forebay.act.control.auth.callers import Who
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.views import mode
from forebay.decide.grants.codec import event_of
from forebay.decide.grants.events import EVENTS, Event, Granted
from forebay.decide.grants.machine import LiveDisk, value_of
from forebay.decide.grants.space import ALWAYS
from forebay.history.store.journal import Entry
from forebay.model.grant import ENDED, HELD, LIVE, Grant, NotAllowed, State

Document = dict[str, Any]
Fill = list[int]
"""Bytes that exist on a disk, bytes that are promised for later, and how many volumes that is."""
Eye = int | None
"""The uid whose grants are seen; None for everybody's."""
NO_TIER = ""
_SHOWN_DISKS = 4


def eye_of(who: Who) -> Eye:
    if who.role == "agent":
        raise NotAllowed("the page is for people, not for agents")
    return None if who.role == "administrator" else who.uid


# The machine


def fills(live: Live) -> dict[str, Fill]:
    """How full all disks are."""
    tables = live.control.tables
    found: dict[str, Fill] = {key: [0, 0, 0] for key in tables.disks}
    for disk, start, _, size in tables.space.holds.values():
        own = found[disk]
        own[start != ALWAYS] += size  # what exists holds its space from always on
        own[2] += 1
    return found


def fill(live: Live, disk: str) -> Fill:
    """How full one disk is."""
    tables = live.control.tables
    found, holds = [0, 0, 0], tables.space.holds
    names = [volume.name for volume in tables.on_disk(disk)]
    names += [disk, *(key for key, stray in tables.strays.items() if stray.disk == disk)]
    for name in names:
        hold = holds.get(name)
        if hold is not None:
            found[hold.start != ALWAYS] += hold.size
            found[2] += 1
    return found


def machine(live: Live) -> list[Document]:
    """All nodes with their disks."""
    tables, full = live.control.tables, fills(live)
    disks: dict[str, list[list[Any]]] = {name: [] for name in tables.nodes}
    for key, disk in tables.disks.items():
        disks[disk.node].append(_disk(live, disk, full[key]))
    return [_node(live, name, disks[name]) for name in tables.nodes]


def some_nodes(live: Live, names: Iterable[str]) -> list[Document]:
    """The same of a few nodes."""
    tables = live.control.tables
    own: dict[str, list[list[Any]]] = {name: [] for name in names if name in tables.nodes}
    for key, disk in tables.disks.items():
        if disk.node in own:
            own[disk.node].append(_disk(live, disk, fill(live, key)))
    return [_node(live, name, disks) for name, disks in own.items()]


def _node(live: Live, name: str, disks: list[list[Any]]) -> Document:
    node = live.control.tables.nodes[name]
    return {"name": name, "silent": node.silent, "drained": node.drained, "fields": dict(node.fields), "disks": disks}


def _disk(live: Live, disk: LiveDisk, full: Fill) -> list[Any]:
    """Name, capacity, the three of its fill, tier, flags, bytes per second, kind, means, and why it is suspended or
    can't be looked at. Flags: 1 if it is there, 2 if drained, 4 if suspended, 8 if its agent can't look at it."""
    said, node, suspension = disk.spec, live.control.tables.nodes[disk.node], disk.suspension
    flags = disk.there + 2 * disk.drained + 4 * (suspension is not None) + 8 * (disk.unseen != "")
    return [
        said.name, said.capacity, *full, value_of(disk, node, "tier") or NO_TIER, flags,
        said.write_bandwidth, said.read_bandwidth, str(said.fields.get("kind", "")),
        str(said.fields.get("expose", "none")), disk.unseen or ("" if suspension is None else suspension.because),
    ]  # fmt: skip


States = Counter[tuple[int, str]]
"""How many grants there are, by uid and state."""


def states_of(live: Live) -> States:
    return Counter((grant.ask.uid, grant.state.value) for grant in live.control.tables.grants.values())


class Tally:
    """The same, kept up to date by what changes: all grants are looked at once."""

    def __init__(self, live: Live) -> None:
        grants = live.control.tables.grants.items()
        self._known = {name: (grant.ask.uid, grant.state.value) for name, grant in grants}
        self.counted: States = Counter(self._known.values())

    def follow(self, live: Live, names: Iterable[str]) -> None:
        """Something happened to these."""
        for name in names:
            grant, old = live.control.tables.grants.get(name), self._known.pop(name, None)
            if old is not None:
                self.counted[old] -= 1
            if grant is not None:
                self._known[name] = new = (grant.ask.uid, grant.state.value)
                self.counted[new] += 1


def totals(live: Live, eye: Eye, counted: States) -> Document:
    """Grants by state (an eye's own), and the machine as a whole."""
    tables = live.control.tables
    states: Counter[str] = Counter()
    for (uid, state), count in counted.items():
        if count and (eye is None or uid == eye):
            states[state] += count
    nodes = tables.nodes.values()
    return {
        "states": dict(states),
        "queue": len(tables.queue),
        "grants": len(tables.grants),
        "strays": len(tables.strays),
        "nodes": len(nodes),
        "silent": sum(node.silent for node in nodes),
        "drained": sum(node.drained for node in nodes),
        "suspended": sum(disk.suspension is not None for disk in tables.disks.values()),
        "unseen": sum(disk.unseen != "" for disk in tables.disks.values()),
    }


def head(live: Live, eye: Eye, counted: States) -> Document:
    """What every frame begins with."""
    control = live.control
    told = {"number": live.last, "mode": mode(live), "policy": control.policy, "totals": totals(live, eye, counted)}
    return told | {"rules": asdict(control.rules)}


def snapshot(live: Live, eye: Eye) -> Document:
    """All that the page needs before it shows anything, as of one event's number."""
    return head(live, eye, states_of(live)) | {"nodes": machine(live)}


# Grants


def row(live: Live, grant: Grant) -> Document:
    """A grant in a list; `silent` if a node that it is on does not answer, `marks` what its owner should know."""
    ask, control = grant.ask, live.control
    disks = [volume.disk for volume in control.tables.volumes_of(grant)] if grant.volumes else []
    begin, end = span(grant)
    return {
        "id": grant.id, "state": grant.state.value, "size": ask.size, "uid": ask.uid, "user": ask.user,
        "job": ask.job, "tier": ask.wants.get("tier", ""), "because": grant.because, "reason": grant.reason,
        "policy": grant.policy, "position": control.position(grant.id), "tried": grant.tried,
        "expected": grant.expected, "again": grant.until if grant.state is State.QUEUED else 0.0,
        "seconds": ask.seconds, "created": grant.asked, "changed": live.changed.get(grant.id, grant.asked),
        "begin": begin, "end": end,
        "disks": disks[:_SHOWN_DISKS], "parts": len(disks), "order": grant.order,
        "silent": _is_on_silent_node(live, grant), "marks": control.marks(grant.id),
    }  # fmt: skip


def _is_on_silent_node(live: Live, grant: Grant) -> bool:
    tables = live.control.tables
    return grant.state in HELD and any(tables.nodes[volume.node].silent for volume in tables.volumes_of(grant))


def span(grant: Grant) -> tuple[float, float]:
    """From when to when it is, was, or is planned to be there; the end is 0 for one that waits, if nobody knows."""
    if grant.state in (State.ASKED, State.QUEUED):
        begin = max(grant.asked, grant.ask.start or 0.0)
        return begin, grant.expected + grant.ask.seconds if grant.expected else 0.0
    begin = grant.start or grant.asked
    return begin, (max(begin, grant.ended) if grant.state in ENDED else grant.end)


_GROUPS: dict[str, frozenset[State]] = {
    "live": LIVE,
    "waiting": frozenset({State.ASKED, State.QUEUED}),
    "ended": ENDED,
    **{state.value: frozenset({state}) for state in State},
}
GROUPS = tuple(_GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which grants: all of these; empty for any. `text` is in the id, the job or the user's name."""

    state: str = ""
    owner: str = ""
    disk: str = ""  # its key, or a node's name
    text: str = ""
    offset: int = 0
    limit: int = 200


def list_grants(live: Live, eye: Eye, which: Which) -> Document:
    """Some grants, the newest first (the queue in its order), and how many there are in all."""
    found = sorted(_found(live, eye, which), key=lambda grant: grant.order, reverse=which.state != "queued")
    shown = found[which.offset : which.offset + which.limit]
    rows = [row(live, grant) for grant in shown]
    if which.disk:
        for row_, grant in zip(rows, shown, strict=True):
            row_["here"] = _bytes_on(live, grant, which.disk)
    return {"number": live.last, "total": len(found), "rows": rows}


def _bytes_on(live: Live, grant: Grant, where: str) -> int:
    """Of a grant, on a disk or a node."""
    return sum(v.size for v in live.control.tables.volumes_of(grant) if where in (v.disk, v.node))


def _found(live: Live, eye: Eye, which: Which) -> Iterator[Grant]:
    tables, states = live.control.tables, _GROUPS.get(which.state)
    text = which.text.lower()
    grants: Iterable[Grant] = tables.grants.values()
    if which.disk:
        grants = _on(live, which.disk)
    for grant in grants:
        ask = grant.ask
        if (
            (eye is None or ask.uid == eye)
            and (states is None or grant.state in states)
            and (not which.owner or which.owner in (str(ask.uid), ask.user))
            and (not text or grant.id.startswith(text) or text in ask.job.lower() or text in ask.user.lower())
        ):
            yield grant


def _on(live: Live, where: str) -> list[Grant]:
    """Grants that are on a disk or node now, or are planned to be."""
    tables = live.control.tables
    volumes = tables.on_disk(where) if where in tables.disks else tables.on_node(where)
    return [tables.grants[name] for name in dict.fromkeys(volume.grant for volume in volumes)]


def timeline(live: Live, eye: Eye, begin: float, end: float, most: int = 20_000) -> Document:
    """Columns of all grants that are there at any time of [begin, end); the newest, where there are too many."""
    rows = []
    for grant in live.control.tables.grants.values():
        since, until = span(grant)
        if since < end and (until >= begin or not until) and (eye is None or grant.ask.uid == eye):
            ask = grant.ask
            told = grant.order, grant.id, ask.user or str(ask.uid), grant.state.value, since, until, ask.size, ask.job
            rows.append((*told, _is_on_silent_node(live, grant)))
    rows.sort(reverse=True)
    names = ("order", "id", "owner", "state", "begin", "end", "size", "job", "silent")
    columns = zip(*rows[:most], strict=True) if rows else ((),) * len(names)
    return {"number": live.last, "left_out": max(0, len(rows) - most)} | dict(
        zip(names, map(list, columns), strict=True)
    )


# Decisions


class Line(TypedDict):
    """A line of the feed: an event as a sentence. A decision has `policy` and `parts`, and of a grant that is still
    kept also who asked for what."""

    n: int
    at: float
    kind: str
    grant: str
    text: str
    group: str | None
    worry: bool
    policy: NotRequired[str]
    parts: NotRequired[Sequence[tuple[str, int]]]
    owner: NotRequired[str]
    size: NotRequired[int]
    seconds: NotRequired[float]
    wants: NotRequired[dict[str, str]]
    job: NotRequired[str]


def feed(live: Live, entries: Iterable[Entry], eye: Eye, most: int) -> list[Line]:
    """Events in words, those that say nothing to people left out; `entries` the newest first."""
    found: list[Line] = []
    for entry in entries:
        if len(found) == most:
            break
        if may_see(live, entry, eye):
            document = json.loads(entry.line)
            if EVENTS[document["kind"]].group is not None:
                found.append(_line(live, entry, event_of(document)))
    return found


def may_see(live: Live, entry: Entry, eye: Eye) -> bool:
    if eye is None:
        return True
    grant = live.control.tables.grants.get(entry.grant)
    return grant is not None and grant.ask.uid == eye


def _line(live: Live, entry: Entry, event: Event) -> Line:
    line: Line = {
        "n": entry.number, "at": entry.at, "kind": type(event).__name__, "grant": entry.grant,
        "text": event.sentence(), "group": event.group, "worry": event.is_warning or event.is_refusal,
    }  # fmt: skip
    grant = live.control.tables.grants.get(entry.grant)
    if event.is_decision:
        line["policy"] = event.policy if isinstance(event, Granted) else live.control.policy
        line["parts"] = event.parts if isinstance(event, Granted) else []
    if grant is not None:
        ask = grant.ask
        line["owner"], line["size"], line["seconds"] = ask.user or str(ask.uid), ask.size, ask.seconds
        line["wants"], line["job"] = dict(ask.wants), ask.job
    return line
