"""Finds space for a request, or the reason why there is none, with the same storage policies as the simulator."""

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from forebay.decide.grants.machine import LiveDisk, describe_wants, field_value
from forebay.decide.grants.shared_parts import (
    candidate_groups,
    count_servers,
    equal_part,
    explain_impossible_parts,
    explain_no_parts,
    unequal_parts,
)
from forebay.decide.grants.space import Selection, Turned, select
from forebay.decide.grants.state import Tables
from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.storage import request_placement as kernels
from forebay.decide.storage.policies import OTHER, SPREADS, STORAGE
from forebay.decide.storage.policy_memory import REFUSED, TURN, Turn
from forebay.model.decision import Later, Never
from forebay.model.errors import PolicyError
from forebay.model.grant import Ask, Grant, Volume, node_of
from forebay.model.ledger import Ledger, survey
from forebay.model.reasons import Because, Reason
from forebay.model.units import format_duration, format_size, plural

_MOST_PARTS = 10_000
MOST_DISKS = 5  # tried for one volume
_MOST_NAMES = 8  # of tiers, fields and the like in a sentence
_CURSOR = np.dtype(kernels.PLACING)


class Judgement(NamedTuple):
    """Where a request gets its space over [start, end), as disks and bytes; without `parts`, why it gets none.

    `turned` is the policy's memory, if it changed. `expected` is when space should be free (0: unknown).
    """

    parts: tuple[tuple[str, int], ...] = ()
    start: float = 0.0
    end: float = 0.0
    refusal: Later | Never | None = None
    turned: Turned | None = None
    expected: float = 0.0


def place_request(tables: Tables, ask: Ask, now: float, failed: tuple[str, ...] = ()) -> Judgement:
    """Where and when a request gets its space, not on a disk where this failed before; or why it does not."""
    impossible = explain_impossible(tables, ask)
    if impossible is not None:
        return Judgement(refusal=Never(because=impossible.text, reason=impossible.reason))
    selection = tables.selection(ask.wants, failed)
    until = now + tables.rules.interval
    if selection is None:
        return Judgement(refusal=Later(until=until, because=_explain_closed(tables, ask), reason=Reason.CLOSED))
    start = now if ask.start is None else max(now, ask.start)
    end = max(start + ask.seconds, math.nextafter(start, math.inf))
    if ask.is_shared:
        return _place_shared(tables, ask, failed, start, end, until)
    memory = _recall_turn(tables, selection, tables.facts.turned)
    before = memory.disk.copy()
    parts, ledger = _place(tables, selection, ask.size, start, end, memory, tables.rules.split)
    turn_now = _save_turn(selection, memory, before)
    turned = None if turn_now == tables.facts.turned else turn_now
    if parts:
        return Judgement(parts, start, end, turned=turned)
    expected, because = _explain_no_room(tables, ledger, memory, ask, start, end)
    refusal = Later(until=until, because=because, reason=Reason.NO_ROOM)
    return Judgement(refusal=refusal, turned=turned, expected=expected)


def _place_shared(
    tables: Tables, ask: Ask, failed: tuple[str, ...], start: float, end: float, until: float
) -> Judgement:
    """All parts of a shared file system at once, each on another disk that the policy chooses, or the reason why not.

    The policy gets to choose among the disks of the nodes with the fewest parts. If equal parts are not required and
    have no room, the parts follow the free space.
    """
    disks = [disk for disk in tables.open_disks(ask.wants) if disk.key not in failed]
    servers = count_servers(ask, tables.capacities(ask.wants).disks, tables.rules.split)
    part, turned = equal_part(ask, servers), tables.facts.turned
    used, parts, probed = Counter[str](), dict[str, int](), dict[str, int]()
    while len(parts) < servers:
        for group in candidate_groups(disks, used, set(parts)):
            selection = select(group, tables.nodes, tables.space)
            assert selection is not None
            memory = _recall_turn(tables, selection, turned)
            before = memory.disk.copy()
            placed, _ = _place(tables, selection, part, start, end, memory, 0)
            turned = _save_turn(selection, memory, before)
            probed |= turned.probed
            if placed:
                parts |= placed
                used[node_of(placed[0][0])] += 1
                break
        else:
            break
    chosen = tuple(parts.items()) if len(parts) == servers else ()
    if not chosen and not ask.equal:
        chosen = unequal_parts(tables, disks, ask, servers, start, end)
    if chosen:
        turned = replace(turned, probed=tuple(probed.items()))
        return Judgement(chosen, start, end, turned=None if turned == tables.facts.turned else turned)
    why = explain_no_parts(tables, disks, ask, servers, start, end)
    return Judgement(refusal=Later(until=until, because=why.text, reason=why.reason))


def find_other_disk(tables: Tables, grant: Grant, volume: Volume, now: float) -> str | None:
    """Another disk for a volume that failed on its own, preferably on another node; None if no disk has room."""
    failed = {volume.disk, *volume.failed, *grant.avoids}
    if len(failed) >= MOST_DISKS:
        return None
    siblings = {each.disk for each in tables.volumes_of(grant)} if grant.ask.is_shared else set()
    fitting = [disk for disk in tables.open_disks(grant.ask.wants) if disk.key not in failed | siblings]
    nodes = {node_of(disk) for disk in failed}
    elsewhere = [disk for disk in fitting if disk.node not in nodes]
    # A node identifies an exposed volume by its name alone, whichever disk it is on.
    for disks in (elsewhere, [] if grant.ask.expose else fitting):
        selection = select(disks, tables.nodes, tables.space)
        if selection is not None:
            end = max(grant.end, math.nextafter(now, math.inf))
            memory = _recall_turn(tables, selection, tables.facts.turned)
            parts, _ = _place(tables, selection, volume.size, now, end, memory, 0)
            if parts:
                return parts[0][0]
    return None


def _find_policy(name: str) -> tuple[Policy, int]:
    """The policy, and its number in the kernels."""
    policy = find("storage", name)
    numbers = (number for number, known in enumerate(STORAGE) if known is policy)  # `==` takes longer
    return policy, next(numbers, OTHER)


def _recall_turn(tables: Tables, selection: Selection, turned: Turned) -> Turn:
    """The policy's memory, in terms of this selection."""
    first, current = 0, tables.disks.get(turned.current)
    if current is not None:  # the first disk of the selection from the current one on
        order = tables.nodes[current.node].order, current.order
        first = bisect_left(selection.orders, order) % len(selection.keys)
    state = np.array([(turned.server, turned.node, turned.failed, first, False)], dtype=TURN)
    probed = np.zeros(len(selection.names), dtype=np.int64)
    if tables.probed:  # only some policies probe
        probed[:] = [tables.probed.get(name, 0) for name in selection.names]
    return selection.scratch._replace(state=state, disk=probed, chance=np.array([turned.chance], dtype=np.uint64))


def _save_turn(selection: Selection, memory: Turn, before: Any) -> Turned:
    """The policy's memory after a decision; `before` holds the counts of probes before it."""
    server, node, failed, current, _ = memory.state.item()
    probed = () if (memory.disk == before).all() else np.flatnonzero(memory.disk != before)
    return Turned(
        server=server,
        node=node,
        failed=failed,
        current=selection.keys[current] if 0 < current < len(selection.keys) else "",
        chance=memory.chance.item(),
        probed=tuple((selection.names[at], int(memory.disk[at])) for at in probed),
    )


def _place(
    tables: Tables, selection: Selection, size: int, start: float, end: float, memory: Turn, split: int
) -> tuple[tuple[tuple[str, int], ...], Ledger]:
    """The parts (none if there is no room), and the ledger of the selection."""
    policy, number = _find_policy(tables.facts.policy)
    most = kernels.most_parts(size, split, number, len(selection.keys))
    tables.space.make_room(most)
    ledger = selection.ledger(tables.space, ours=number != OTHER)
    parts, cursor = np.zeros(most, dtype=kernels.PART), np.zeros(1, dtype=_CURSOR)
    decide = policy.decide(selection.platform) if policy.prepares else policy.decide
    while True:
        pieces = kernels.try_place(ledger, memory, parts, cursor, size, start, end, number, split)
        if pieces != kernels.ASK_POLICY:
            break
        cursor["answer"], cursor["answered"] = _ask_policy(policy.name, decide, ledger, cursor[0], memory), True
    selection.put_back(tables.space, ledger)
    chosen = zip(parts["disk"][:pieces].tolist(), parts["bytes"][:pieces].tolist(), strict=True)
    return tuple((selection.keys[disk], part_size) for disk, part_size in chosen), ledger


def _ask_policy(name: str, decide: Any, ledger: Ledger, cursor: Any, memory: Turn) -> int:
    """The disk that a policy without a kernel chooses."""
    size, start, end, duration = (cursor[column].item() for column in ("size", "start", "end", "duration"))
    disk = decide(ledger, size, start, end, duration, memory)
    if not isinstance(disk, int | np.integer) or not REFUSED <= disk < ledger.disks.size:
        most = ledger.disks.size - 1
        raise PolicyError(f"{name}: returned disk {disk!r}; it must return 0 to {most}, or {REFUSED} for no disk")
    return int(disk)


# Why not


def _explain_no_room(
    tables: Tables, ledger: Ledger, memory: Turn, ask: Ask, start: float, end: float
) -> tuple[float, str]:
    """When space should be free (0: unknown), and why there is none now."""
    what = f"{format_size(ask.size)} for {format_duration(ask.seconds)}"
    disks = f"{ledger.disks.size} disks" if ledger.disks.size > 1 else "one disk"
    if kernels.pieces_of(ask.size, tables.rules.split) > 1:
        survey(ledger, start, end, True, memory.taken, memory.others)
        free = int(np.maximum(0, ledger.disks["capacity"] - memory.taken).sum())
        return 0.0, f"no room for all parts of {what}: {disks} have {format_size(free)} free in all"
    first = float(kernels.soonest(ledger, ask.size, start, end - start))
    if first <= start:
        return 0.0, f"policy {tables.facts.policy} does not place {what}, although a disk has room"
    if math.isinf(first):
        return 0.0, f"no room for {what} on {disks}"
    return first, f"no room for {what} on {disks}; expected in {format_duration(first - start)}"


def _explain_closed(tables: Tables, ask: Ask) -> str:
    """Why no suitable disk takes new grants now."""
    if not tables.disks:
        return "no storage node has registered yet"
    reasons = {_explain_shut(tables, disk) for disk in tables.disks.values() if tables.has_fields(disk, ask.wants)}
    return f"every disk{describe_wants(ask.wants)} is {' or '.join(sorted(reasons))}"


def _explain_shut(tables: Tables, disk: LiveDisk) -> str:
    node = tables.nodes[disk.node]
    reasons = {
        "gone": not disk.there,
        "on a node that does not answer": node.silent,
        "inaccessible to its agent": disk.unseen,
        "suspended because volumes cannot be made on it": disk.suspension,
        "drained": disk.drained or node.drained,
    }
    return next((reason for reason, applies in reasons.items() if applies), "without space")


def explain_impossible(tables: Tables, ask: Ask, failed: tuple[str, ...] = ()) -> Because | None:
    """Why the request cannot be granted even on empty disks, without the failed ones; None if it can."""
    if not tables.disks:
        return None
    capacities = tables.capacities(ask.wants, failed)
    if not capacities.disks:
        return Because(Reason.NO_SUCH_DISK, _explain_unknown(tables, ask))
    if ask.is_shared:
        return explain_impossible_parts(ask, capacities, tables.rules.split)
    split, because = tables.rules.split, ""
    pieces = kernels.pieces_of(ask.size, split)
    if pieces > _MOST_PARTS:
        because = f"{format_size(ask.size)} would be {pieces:,} parts; the limit is {_MOST_PARTS:,}"
    elif pieces == 1:
        if capacities.largest < ask.size:
            because = f"the largest disk has {format_size(capacities.largest)}, less than {format_size(ask.size)}"
    elif _find_policy(tables.facts.policy)[1] == SPREADS:
        if capacities.total < ask.size:
            because = f"all disks together have {format_size(capacities.total)}, less than {format_size(ask.size)}"
    elif capacities.slots < pieces and not (
        capacities.slots == pieces - 1 and capacities.rest >= ask.size - split * (pieces - 1)
    ):
        disks = plural(capacities.disks, "disk")
        because = f"{pieces} parts of up to {format_size(split)} do not fit on {disks}, even if all were free"
    return Because(Reason.TOO_LARGE, because) if because else None


def _explain_unknown(tables: Tables, ask: Ask) -> str:
    """Which requested field no disk has, and which fields or values exist."""
    for name, value in ask.wants.items():
        values = (field_value(disk, tables.nodes[disk.node], name) for disk in tables.disks.values())
        known = {each for each in values if each is not None}
        if not known:
            fields = {f for d in tables.disks.values() for f in (*d.spec.fields, *tables.nodes[d.node].fields)}
            return f"no disk has the field {name!r}; known fields: {_join_names(fields) or 'none'}"
        if value not in known:
            return f"no disk has {name} {value!r}; known values: {_join_names(known)}"
    return f"no disk has all of {', '.join(f'{name} {value}' for name, value in ask.wants.items())}"


def _join_names(names: set[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(sorted(names)[:_MOST_NAMES]) + more
