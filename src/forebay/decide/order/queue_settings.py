"""A new queue, and a queue's settings by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from forebay.decide.order.queue_changes import (
    LONGEST_WINDOW,
    MOST,
    set_aggregate,
    set_patience,
    set_quantum,
    set_scheduler,
    set_window,
)
from forebay.decide.order.queue_layout import (
    FILES,
    FILES_AT,
    FLOW_SHIFT,
    FLOWS,
    FLOWS_AT,
    FREE,
    GROUP_SHIFT,
    HEAP_AT,
    MOST_IN_FLIGHT,
    NEVER,
    NODE,
    NOTES,
    NOTES_AT,
    PATIENT,
    S_NEXT,
    SERVERS,
    SERVERS_AT,
    SLOT_SHIFT,
    SLOTS,
    SLOTS_AT,
    TABLE_AT,
    TABLE_MASK,
    TABLE_SHIFT,
    WAKE,
)
from forebay.decide.order.schedulers import number
from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.model.errors import BadInput

_SETTERS: Mapping[str, Callable[[Any, int], None]] = {
    "window": set_window,
    "quantum": set_quantum,
    "aggregate": set_aggregate,
    "patience": set_patience,
}
_LIMITS = {"window": (1, LONGEST_WINDOW), "quantum": (1, MOST), "aggregate": (0, MOST), "patience": (0, MOST)}
DEFAULTS: Mapping[str, int] = MappingProxyType({"window": 1_000_000, "quantum": 8, "aggregate": 0, "patience": 256})
_SIZES = {  # keeps every address well inside of 64 bits, and a typing error from eating all memory
    "servers": (1, 1 << 16),
    "slots": (1, 1 << 22),
    "files": (1, 1 << 22),
    "flows": (1, 1 << 22),
    "node": (0, 1 << 32),
    "in_flight": (1, 1 << 32),
}


def new_queue(
    scheduler: Policy | str,
    *,
    servers: int,
    slots: int = 4096,
    files: int = 65536,
    flows: int = 1024,
    node: int = 0,
    in_flight: int = 32,
    window: int | None = None,
    quantum: int | None = None,
    aggregate: int | None = None,
    patience: int | None = None,
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An empty queue of one I/O node.

    `slots` requests fit in, waiting and in flight; `files` and `flows` are how many numbers there are for them;
    `in_flight` is how many messages may be unanswered. The settings are those of `use`.
    """
    sizes = {"servers": servers, "slots": slots, "files": files, "flows": flows, "node": node, "in_flight": in_flight}
    for name, value in sizes.items():
        _expect(name, value, *_SIZES[name])
    q = _laid_out(servers, slots, files, flows)
    q[WAKE], q[NODE], q[MOST_IN_FLIGHT] = NEVER, node, in_flight
    for name, value in DEFAULTS.items():
        _SETTERS[name](q, value)
    use(q, scheduler, window=window, quantum=quantum, aggregate=aggregate, patience=patience)
    return q


def use(q: Any, scheduler: Policy | str, **settings: int | None) -> None:
    """Order by that scheduler from now on, with its own options, and the `settings` that are not None.

    `window` is in nanoseconds (twins), `quantum` in messages (hbrr, mlf), `aggregate` in bytes (0: no aggregation),
    `patience` in requests (sjf, and schedulers of others). What it has no option for stays as it is. Take with
    `take_of` that scheduler from now on.
    """
    policy = find("order", scheduler) if isinstance(scheduler, str) else scheduler
    if policy.kind != "order":
        raise BadInput("scheduler", f"{policy.name!r} is no request scheduler")
    wanted = {**policy.options, **{name: value for name, value in settings.items() if value is not None}}
    chosen = {name: _expect(name, value, *_LIMITS[name]) for name, value in wanted.items() if name in _LIMITS}
    set_scheduler(q, number(policy))
    q[NOTES_AT : NOTES_AT + NOTES] = 0
    q[PATIENT] = policy.patient
    for name, value in chosen.items():
        _SETTERS[name](q, value)


def set_option(q: Any, name: str, value: int) -> None:
    """Change one setting by its name (those of `use`); all others stay."""
    if name not in _SETTERS:
        raise BadInput(name, "unknown setting of a scheduler")
    _SETTERS[name](q, _expect(name, value, *_LIMITS[name]))


def _expect(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise BadInput(name, f"must be a whole number from {least} to {most}, not {value!r}")
    return int(value)


def _laid_out(servers: int, slots: int, files: int, flows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An array with all regions, and all slots free."""
    places = 1 << (2 * slots - 1).bit_length()
    heap = SLOTS_AT + (slots << SLOT_SHIFT)
    own = heap + slots
    file = own + (servers << GROUP_SHIFT)
    flow = file + (files << GROUP_SHIFT)
    table = flow + (flows << FLOW_SHIFT)
    q = np.zeros(table + (places << TABLE_SHIFT), dtype=np.int64)
    q[[SERVERS, SLOTS, FILES, FLOWS]] = servers, slots, files, flows
    q[[HEAP_AT, SERVERS_AT, FILES_AT, FLOWS_AT]] = heap, own, file, flow
    q[[TABLE_AT, TABLE_MASK]] = table, places - 1
    records = np.arange(slots) * (1 << SLOT_SHIFT) + SLOTS_AT
    q[records[:-1] + S_NEXT] = records[1:]
    q[FREE] = SLOTS_AT
    return q
