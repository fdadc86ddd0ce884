"""The page's views as small documents: the machine, grants, their times, and decisions.

`Eye` is the viewer: a user sees their own grants and the totals, an administrator sees everything.
"""

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from forebay.act.control.auth.callers import Who
from forebay.act.control.service.live_documents import fills, grant_summary, mode
from forebay.act.control.service.live_state import Live
from forebay.decide.grants.codec import event_of
from forebay.decide.grants.events import EVENTS, Event, Granted
from forebay.decide.grants.machine import field_value
from forebay.history.store.journal import Entry
from forebay.model.grant import ENDED, HELD, LIVE, Grant, NotAllowed, State

Eye = int | None  # the uid whose grants are visible; None for all grants
Document = Mapping[str, object]
_SHOWN_DISKS = 4
_MOST_ROWS = 20_000  # of a timeline
_GROUPS: dict[str, frozenset[State]] = {
    "live": LIVE,
    "waiting": frozenset({State.ASKED, State.QUEUED}),
    "ended": ENDED,
    **{state.value: frozenset({state}) for state in State},
}
GROUPS = tuple(_GROUPS)


def eye_of(who: Who) -> Eye:
    if who.role == "agent":
        raise NotAllowed("the page is for people, not for agents")
    return None if who.is_administrator else who.uid


# The machine


def nodes(live: Live, names: Container[str] | None = None) -> list[Document]:
    """These nodes, or all, with their disks."""
    tables = live.control.tables
    shown = {name: node for name, node in tables.nodes.items() if names is None or name in names}
    full = fills(live, None if names is None else [key for key, disk in tables.disks.items() if disk.node in shown])
    disks: dict[str, list[Document]] = {name: [] for name in shown}
    for key, disk in tables.disks.items():
        if disk.node in disks:
            spec, node, suspension = disk.spec, tables.nodes[disk.node], disk.suspension
            disks[disk.node].append({
                "name": spec.name, "capacity": spec.capacity, **full[key],
                "tier": field_value(disk, node, "tier") or "", "there": disk.there, "drained": disk.drained,
                "suspended": suspension is not None, "unseen": disk.unseen != "",
                "because": disk.unseen or ("" if suspension is None else suspension.because),
                "write": spec.write_bandwidth, "read": spec.read_bandwidth, "kind": str(spec.fields.get("kind", "")),
                "expose": str(spec.fields.get("expose", "none")),
            })  # fmt: skip
    return [
        {"name": name, "silent": node.silent, "drained": node.drained, "fields": node.fields, "disks": disks[name]}
        for name, node in shown.items()
    ]


States = Counter[tuple[int, str]]  # the number of grants by uid and state


class Tally:
    """The number of grants by state. It follows changes, so that it counts all grants only once."""

    def __init__(self, live: Live) -> None:
        grants = live.control.tables.grants.items()
        self._known = {name: (grant.ask.uid, grant.state.value) for name, grant in grants}
        self.counted: States = Counter(self._known.values())

    def follow(self, live: Live, names: Iterable[str]) -> None:
        """Update the counts after these grants have changed."""
        for name in names:
            grant, old = live.control.tables.grants.get(name), self._known.pop(name, None)
            if old is not None:
                self.counted[old] -= 1
            if grant is not None:
                self._known[name] = new = (grant.ask.uid, grant.state.value)
                self.counted[new] += 1


def head(live: Live, eye: Eye, counted: States) -> dict[str, object]:
    """The head of a snapshot and of every update: totals, and the number of visible grants by state."""
    tables, states = live.control.tables, Counter[str]()
    for (uid, state), count in counted.items():
        if count and (eye is None or uid == eye):
            states[state] += count
    nodes = tables.nodes.values()
    totals = {
        "states": dict(states), "queue": len(tables.queue), "grants": len(tables.grants),
        "strays": len(tables.strays), "nodes": len(nodes),
        "silent": sum(node.silent for node in nodes), "drained": sum(node.drained for node in nodes),
        "suspended": sum(disk.suspension is not None for disk in tables.disks.values()),
        "unseen": sum(disk.unseen != "" for disk in tables.disks.values()),
    }  # fmt: skip
    rules = asdict(live.control.rules)
    return {"number": live.last, "mode": mode(live), "policy": live.control.policy, "totals": totals, "rules": rules}


def snapshot(live: Live, eye: Eye) -> Document:
    """Everything that the page needs at its start, as of one number of the journal."""
    return {**head(live, eye, Tally(live).counted), "nodes": nodes(live)}


# Grants


def row(live: Live, grant: Grant) -> Document:
    """A grant in a list; `silent` if one of its nodes does not answer."""
    disks = [volume.disk for volume in live.control.tables.volumes_of(grant)] if grant.volumes else []
    begin, end = span(grant)
    return {
        **grant_summary(live, grant), "again": grant.until if grant.state is State.QUEUED else 0.0,
        "begin": begin, "end": end, "disks": disks[:_SHOWN_DISKS], "parts": len(disks), "order": grant.order,
        "silent": _is_on_silent_node(live, grant),
    }  # fmt: skip


def _is_on_silent_node(live: Live, grant: Grant) -> bool:
    tables = live.control.tables
    return grant.state in HELD and any(tables.nodes[volume.node].silent for volume in tables.volumes_of(grant))


def span(grant: Grant) -> tuple[float, float]:
    """When a grant begins and ends; the end is 0 if it waits and its end is unknown."""
    if grant.state in (State.ASKED, State.QUEUED):
        begin = max(grant.asked, grant.ask.start or 0.0)
        return begin, grant.expected + grant.ask.seconds if grant.expected else 0.0
    begin = grant.start or grant.asked
    return begin, (max(begin, grant.ended) if grant.state in ENDED else grant.end)


def list_grants(
    live: Live, eye: Eye, *, state: str = "", owner: str = "", disk: str = "", text: str = "", offset: int = 0,
    limit: int = 200,
) -> Document:  # fmt: skip
    """Some grants, the newest first (the queue in its order), and their total number.

    A grant must meet all conditions; an empty condition matches all. `disk` is NODE/DISK or NODE; each grant then also
    has its bytes `here`. `text` matches the id, the job or the user's name.
    """
    tables, states, text = live.control.tables, _GROUPS.get(state), text.lower()
    candidates: Iterable[Grant] = tables.grants.values()
    if disk:  # the grants that are on it, or planned there
        volumes = tables.on_disk(disk) if disk in tables.disks else tables.on_node(disk)
        candidates = [tables.grants[name] for name in dict.fromkeys(volume.grant for volume in volumes)]
    grants = [
        grant
        for grant in candidates
        if (eye is None or grant.ask.uid == eye)
        and (states is None or grant.state in states)
        and (not owner or owner in (str(grant.ask.uid), grant.ask.user))
        and (not text or grant.id.startswith(text) or text in grant.ask.job.lower() or text in grant.ask.user.lower())
    ]
    grants.sort(key=lambda grant: grant.order, reverse=state != "queued")
    rows: list[Document] = []
    for grant in grants[offset : offset + limit]:
        rows.append(row(live, grant))
        if disk:
            here = sum(volume.size for volume in tables.volumes_of(grant) if disk in (volume.disk, volume.node))
            rows[-1] = {**rows[-1], "here": here}
    return {"number": live.last, "total": len(grants), "rows": rows}


def timeline(live: Live, eye: Eye, begin: float, end: float) -> Document:
    """Columns of all grants that exist at any time in [begin, end); if there are too many, the newest."""
    names = ("order", "id", "owner", "state", "begin", "end", "size", "job", "silent")
    rows: list[tuple[object, ...]] = []
    for grant in live.control.tables.grants.values():
        since, until = span(grant)
        if since < end and (until >= begin or not until) and (eye is None or grant.ask.uid == eye):
            ask, silent = grant.ask, _is_on_silent_node(live, grant)
            owner = ask.user or str(ask.uid)
            rows.append((grant.order, grant.id, owner, grant.state.value, since, until, ask.size, ask.job, silent))
    rows.sort(reverse=True)
    columns = zip(*rows[:_MOST_ROWS], strict=True) if rows else ((),) * len(names)
    named = {name: list(column) for name, column in zip(names, columns, strict=True)}
    return {"number": live.last, "left_out": max(0, len(rows) - _MOST_ROWS), **named}


# Decisions


Line = dict[str, Any]  # an event for people, see `_line`


def feed(live: Live, entries: Iterable[Entry], eye: Eye, most: int) -> list[Line]:
    """The events that people care about, as sentences; `entries` are the newest first."""
    lines: list[Line] = []
    for entry in entries:
        if len(lines) == most:
            break
        if may_see(live, entry, eye):
            document = json.loads(entry.line)
            if EVENTS[document["kind"]].group is not None:
                lines.append(_line(live, entry, event_of(document)))
    return lines


def entries_after(live: Live, after: int) -> Sequence[Entry] | None:
    """The entries after a number, from memory; None if memory does not reach back or forward to it."""
    count = live.last - after
    if count < 0 or count > len(live.recent):
        return None
    first = len(live.recent) - count
    return [live.recent[at] for at in range(first, len(live.recent))]


def may_see(live: Live, entry: Entry, eye: Eye) -> bool:
    if eye is None:
        return True
    grant = live.control.tables.grants.get(entry.grant)
    return grant is not None and grant.ask.uid == eye


def _line(live: Live, entry: Entry, event: Event) -> Line:
    """The event as a sentence; a decision with its parts, and the request, if the grant is still known."""
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
        line |= {"owner": ask.user or str(ask.uid), "size": ask.size, "seconds": ask.seconds}
        line |= {"wants": dict(ask.wants), "job": ask.job}
    return line
