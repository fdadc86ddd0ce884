"""`round-robin`."""

from __future__ import annotations

from typing import Any

from forebay.decide.storage.policy_memory import REFUSED
from forebay.model.kernels import kernel
from forebay.model.ledger import overlapping

_PATIENCE = 5


@kernel
def round_robin(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """The next disk of the next node that has more room than needed; gives up at every fifth that has not."""
    state = turn.state[0]
    while True:
        which = state.server % ledger.servers.size
        state.server += 1
        if which == 0:
            state.node += 1
        server = ledger.servers[which]
        at = server.first + state.node % server.nodes
        node = ledger.nodes[at]
        disk = node.first + turn.disk[at] % node.disks
        turn.disk[at] += 1
        taken, _ = overlapping(ledger, disk, start, end)
        if ledger.disks[disk].capacity - taken > size:
            return disk  # type: ignore[no-any-return]
        state.failed += 1  # StorAlloc counts on from one request to the next
        if state.failed >= _PATIENCE:
            state.failed = 0
            return REFUSED
