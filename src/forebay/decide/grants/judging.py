"""Is there space for a request, and where? By the storage policies, which the simulator uses too."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.decide.grants.events import Turned
from forebay.decide.grants.machine import LiveDisk, value_of
from forebay.decide.grants.selection import Selection, load_turn, save_turn, select
from forebay.decide.grants.state import Tables
from forebay.decide.grants.words import lasting, some, wanted
from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.storage.choose import OTHER, SPREADS, STORAGE
from forebay.decide.storage.placing import ASK_POLICY, PART, PLACING, most_parts, pieces_of, soonest, try_place
from forebay.decide.storage.turn import REFUSED, Turn
from forebay.model.decision import Later, Never
from forebay.model.errors import PolicyError
from forebay.model.grant import Ask, Grant, Volume, node_of
from forebay.model.ledger import Ledger, survey
from forebay.model.units import format_size, plural

_MOST_PARTS = 10_000
_MOST_DISKS = 5  # on which a volume is tried
_CURSOR = np.dtype(PLACING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Disks and bytes, over [start, end)."""

    parts: tuple[tuple[str, int], ...]
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer, whose turn it is now, and when there should be space (0: not known)."""

    answer: Found | Later | Never
    turned: Turned | None = None
    expected: float = 0.0


def judge(tables: Tables, ask: Ask, now: float) -> Judgement:
    """Where and when a request gets its space, or why it does not."""
    never = _never(tables, ask)
    if never is not None:
        return Judgement(answer=Never(because=never))
    selection = tables.selection(ask.wants)
    until = now + tables.rules.interval
    if selection is None:
        return Judgement(answer=Later(until=until, because=_closed(tables, ask)))
    start = now if ask.start is None else max(now, ask.start)
    end = max(start + ask.seconds, math.nextafter(start, math.inf))
    policy, which = _policy(tables.facts["policy"])
    memory = load_turn(selection, tables.facts["turned"], tables.probed, _first(tables, selection))
    before = memory.disk.copy()
    parts, own = _placed(tables, selection, policy, which, ask.size, start, end, memory, tables.rules.split)
    now_turned = save_turn(selection, memory, before)
    turned = None if now_turned == tables.facts["turned"] else now_turned
    if parts:
        return Judgement(answer=Found(parts=parts, start=start, end=end), turned=turned)
    expected, because = _why(tables, own, memory, ask, start, end)
    return Judgement(answer=Later(until=until, because=because), turned=turned, expected=expected)


def find_other_disk(tables: Tables, grant: Grant, volume: Volume, now: float) -> str | None:
    """Where a volume can be made that could not be made on its disk; rather on another node. None if nowhere."""
    failed = {volume.disk, *volume.failed}
    if len(failed) >= _MOST_DISKS:
        return None
    fitting = [disk for disk in tables.disks.values() if tables.is_open(disk) and tables.has(disk, grant.ask.wants)]
    fitting = [disk for disk in fitting if disk.key not in failed]
    nodes = {node_of(disk) for disk in failed}
    elsewhere = [disk for disk in fitting if disk.node not in nodes]
    # On one node, what is exposed is known by its name alone, whichever disk it is on.
    for disks in (elsewhere, [] if grant.ask.expose else fitting):
        selection = select(disks, tables.nodes, tables.space)
        if selection is None:
            continue
        policy, which = _policy(tables.facts["policy"])
        memory = load_turn(selection, tables.facts["turned"], tables.probed, _first(tables, selection))
        end = max(grant.end, math.nextafter(now, math.inf))
        parts, _ = _placed(tables, selection, policy, which, volume.size, now, end, memory, 0)
        if parts:
            return parts[0][0]
    return None


def _policy(name: str) -> tuple[Policy, int]:
    """The policy, and what the kernels know it by."""
    policy = find("storage", name)
    own = (at for at, known in enumerate(STORAGE) if known is policy)  # to compare them takes longer
    return policy, next(own, OTHER)


def _first(tables: Tables, selection: Selection) -> int:
    """The first of these disks from the one on whose turn it is."""
    current = tables.disks.get(tables.facts["turned"].current)
    if current is None:
        return 0
    return bisect_left(selection.orders, (tables.nodes[current.node].order, current.order)) % len(selection.keys)


def _placed(
    tables: Tables,
    selection: Selection,
    policy: Policy,
    which: int,
    size: int,
    start: float,
    end: float,
    memory: Turn,
    split: int,
) -> tuple[tuple[tuple[str, int], ...], Ledger]:
    """Its parts, none if there is no room; and the ledger of the selection."""
    most = most_parts(size, split, which, len(selection.keys))
    tables.space.make_room(most)
    own = selection.ledger(tables.space, ours=which != OTHER)
    parts, cursor = np.zeros(most, dtype=PART), np.zeros(1, dtype=_CURSOR)
    decide = policy.decide(selection.platform) if policy.prepares else policy.decide
    while True:
        pieces = try_place(own, memory, parts, cursor, size, start, end, end - start, which, split)
        if pieces != ASK_POLICY:
            break
        cursor["answer"], cursor["answered"] = _asked(policy.name, decide, own, cursor[0], memory), True
    selection.put_back(tables.space, own)
    chosen = zip(parts["disk"][:pieces].tolist(), parts["bytes"][:pieces].tolist(), strict=True)
    return tuple((selection.keys[disk], own_size) for disk, own_size in chosen), own


def _asked(name: str, decide: Any, own: Ledger, at: Any, memory: Turn) -> int:
    """What somebody else's policy says."""
    size, start, end, duration = (at[column].item() for column in ("size", "start", "end", "duration"))
    disk = decide(own, size, start, end, duration, memory)
    if not isinstance(disk, int | np.integer) or not REFUSED <= disk < own.disks.size:
        raise PolicyError(f"{name}: answers disk {disk!r}; there are 0 to {own.disks.size - 1}, or {REFUSED}")
    return int(disk)


def _why(tables: Tables, own: Ledger, memory: Turn, ask: Ask, start: float, end: float) -> tuple[float, str]:
    """When there should be space, if that can be said, and why there is none now."""
    what = f"{format_size(ask.size)} for {lasting(ask.seconds)}"
    disks = f"{own.disks.size} disks" if own.disks.size > 1 else "one disk"
    if pieces_of(ask.size, tables.rules.split) > 1:
        survey(own, start, end, True, memory.taken, memory.others)
        free = int(np.maximum(0, own.disks["capacity"] - memory.taken).sum())
        return 0.0, f"no room for all parts of {what}: {disks} have {format_size(free)} free in all"
    first = float(soonest(own, ask.size, start, end - start))
    if first <= start:
        return 0.0, f"the policy {tables.facts['policy']} finds no disk with {what}, though one has the room"
    if math.isinf(first):
        return 0.0, f"no room for {what} on {disks}"
    return first, f"no room for {what} on {disks}; there should be in {lasting(first - start)}"


def _closed(tables: Tables, ask: Ask) -> str:
    """Why no disk at all may be given out now."""
    if not tables.disks:
        return "no storage node has registered yet"
    fitting = [disk for disk in tables.disks.values() if tables.has(disk, ask.wants)]
    reasons = {_shut(tables, disk) for disk in fitting}
    return f"every disk{wanted(ask.wants)} is {' or '.join(sorted(reasons))}"


def _shut(tables: Tables, disk: LiveDisk) -> str:
    node = tables.nodes[disk.node]
    if not disk.there:
        return "gone"
    if node.silent:
        return "on a node that does not answer"
    if disk.unseen:
        return "out of its agent's sight"
    if disk.suspension is not None:
        return "suspended, as volumes can't be made on it"
    return "drained" if disk.drained or node.drained else "without space"


def _never(tables: Tables, ask: Ask) -> str | None:
    """Why it could not be granted even if nobody else held anything; None if it could."""
    if not tables.disks:
        return None
    fitting = tuple(sorted(ask.wants.items()))
    capacities = tables.capacities(fitting)
    if not capacities.disks:
        return _unknown(tables, ask)
    split = tables.rules.split
    pieces = pieces_of(ask.size, split)
    if pieces > _MOST_PARTS:
        return f"{format_size(ask.size)} would be {pieces:,} parts; at most {_MOST_PARTS:,} can be"
    if pieces > 1 and _policy(tables.facts["policy"])[1] == SPREADS:
        if capacities.total < ask.size:
            return f"all disks together have {format_size(capacities.total)}, less than {format_size(ask.size)}"
        return None
    if pieces == 1:
        if capacities.largest < ask.size:
            return f"the largest disk has {format_size(capacities.largest)}, less than {format_size(ask.size)}"
        return None
    last = ask.size - split * (pieces - 1)
    if capacities.slots >= pieces or (capacities.slots == pieces - 1 and capacities.rest >= last):
        return None
    disks = plural(capacities.disks, "disk")
    return f"{pieces} parts of up to {format_size(split)} don't fit on {disks}, even if all were free"


def _unknown(tables: Tables, ask: Ask) -> str:
    """Which of its wishes no disk has, and what there is instead."""
    for name, value in ask.wants.items():
        pairs = ((value_of(disk, tables.nodes[disk.node], name)) for disk in tables.disks.values())
        known = {each for each in pairs if each is not None}
        if not known:
            fields = {f for d in tables.disks.values() for f in (*d.said.fields, *tables.nodes[d.node].fields)}
            return f"no disk says anything of {name!r}; known are: {some(fields) or 'none'}"
        if value not in known:
            return f"no disk has {name} {value!r}; there are: {some(known)}"
    return f"no disk has all of {', '.join(f'{name} {value}' for name, value in ask.wants.items())}"
