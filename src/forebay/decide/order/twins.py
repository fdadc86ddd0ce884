"""`twins` and `twins-work-conserving`: one server at a time, for a window of time each."""

from __future__ import annotations

from typing import Any

from forebay.decide.order.lists import append_to_group
from forebay.decide.order.queue_layout import (
    G_FIRST,
    GROUP_SHIFT,
    NODE,
    NONE,
    S_SERVER,
    SERVERS,
    SERVERS_AT,
    WAKE,
    WINDOW,
    WINDOW_BEGIN,
    WINDOW_END,
    WINDOW_SERVER,
)
from forebay.decide.order.slots import slot_at
from forebay.model.kernels import kernel

# Bez et al. 2019, section 2. Windows are cut from absolute time, so that nodes whose clocks agree change together,
# and the node's number is its translation rule: as long as there are at least as many servers as nodes, no two
# nodes are on the same server.


@kernel
def twins(q: Any, now: int) -> int:
    """One server for a window of time, then the next; waits where the current server has no requests."""
    at = q[_current(q, now) + G_FIRST]
    if at == 0:
        q[WAKE] = q[WINDOW_END] + q[WINDOW] * _count_idle_servers(q)
    return slot_at(at)


@kernel
def twins_work_conserving(q: Any, now: int) -> int:
    """Like twins, but where the current server has no requests the next one that has some is served."""
    at = q[_current(q, now) + G_FIRST]
    if at == 0:
        ahead = 1 + _count_idle_servers(q)
        server = (q[WINDOW_SERVER] + ahead) % q[SERVERS]
        at = q[q[SERVERS_AT] + (server << GROUP_SHIFT) + G_FIRST]
    return slot_at(at)


@kernel
def _current(q: Any, now: int) -> int:
    """The record of the server whose window it is; divides only when a window is over."""
    if now < q[WINDOW_BEGIN] or now >= q[WINDOW_END]:
        window = q[WINDOW]
        turn = now // window
        q[WINDOW_BEGIN] = turn * window
        q[WINDOW_END] = turn * window + window
        q[WINDOW_SERVER] = (turn + q[NODE]) % q[SERVERS]
    return q[SERVERS_AT] + (q[WINDOW_SERVER] << GROUP_SHIFT)  # type: ignore[no-any-return]


@kernel
def _count_idle_servers(q: Any) -> int:
    """How many servers after the current one have no requests either, before the first that has some."""
    servers, server = q[SERVERS], q[WINDOW_SERVER]
    for skipped in range(servers):
        server += 1
        if server == servers:
            server = 0
        if q[q[SERVERS_AT] + (server << GROUP_SHIFT) + G_FIRST]:
            return skipped
    return NONE  # not while anything waits


@kernel
def enter_server(q: Any, at: int) -> None:
    """A request joins those to its server."""
    append_to_group(q, q[SERVERS_AT] + (q[at + S_SERVER] << GROUP_SHIFT), at)
