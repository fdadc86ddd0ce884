"""`random`."""

from __future__ import annotations

from typing import Any

from forebay.model.kernels import kernel
from forebay.model.random_numbers import draw


@kernel
def random(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """Any server, any of its nodes, any of its disks, whether there is room or not."""
    server = ledger.servers[draw(turn.chance, ledger.servers.size)]
    node = ledger.nodes[server.first + draw(turn.chance, server.nodes)]
    return node.first + draw(turn.chance, node.disks)  # type: ignore[no-any-return]
