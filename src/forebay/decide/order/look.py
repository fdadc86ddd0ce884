"""How much waits."""

from __future__ import annotations

from typing import Any

from forebay.decide.order.words import G_COUNT, GROUP_SHIFT, IN_FLIGHT, SERVERS_AT, WAITING
from forebay.model.kernels import kernel


@kernel
def waiting(q: Any) -> int:
    """Requests that wait."""
    return q[WAITING]  # type: ignore[no-any-return]


@kernel
def in_flight(q: Any) -> int:
    """Messages that were sent and are not answered yet."""
    return q[IN_FLIGHT]  # type: ignore[no-any-return]


@kernel
def depth(q: Any, server: int) -> int:
    """Requests that wait for one server."""
    return q[q[SERVERS_AT] + (server << GROUP_SHIFT) + G_COUNT]  # type: ignore[no-any-return]
