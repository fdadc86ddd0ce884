"""Doubly linked lists in the queue's array: all that waits in the order of arrival, and a list for each group."""

from __future__ import annotations

from typing import Any

from forebay.decide.order.queue_layout import (
    FIRST,
    G_FIRST,
    G_LAST,
    LAST,
    S_GROUP,
    S_GROUP_NEXT,
    S_GROUP_PREVIOUS,
    S_NEXT,
    S_PREVIOUS,
)
from forebay.model.kernels import kernel


@kernel
def append(q: Any, at: int) -> None:
    """The request at that address arrived last."""
    last = q[LAST]
    q[at + S_PREVIOUS] = last
    q[at + S_NEXT] = 0
    if last:
        q[last + S_NEXT] = at
    else:
        q[FIRST] = at
    q[LAST] = at


@kernel
def unlink(q: Any, at: int) -> None:
    """The request waits no longer."""
    before, behind = q[at + S_PREVIOUS], q[at + S_NEXT]
    if before:
        q[before + S_NEXT] = behind
    else:
        q[FIRST] = behind
    if behind:
        q[behind + S_PREVIOUS] = before
    else:
        q[LAST] = before


@kernel
def append_to_group(q: Any, group: int, at: int) -> bool:
    """Whether the group was empty before."""
    last = q[group + G_LAST]
    q[at + S_GROUP] = group
    q[at + S_GROUP_PREVIOUS] = last
    q[at + S_GROUP_NEXT] = 0
    q[group + G_LAST] = at
    if last:
        q[last + S_GROUP_NEXT] = at
        return False
    q[group + G_FIRST] = at
    return True


@kernel
def unlink_from_group(q: Any, at: int) -> bool:
    """Whether the group is empty now."""
    group = q[at + S_GROUP]
    before, behind = q[at + S_GROUP_PREVIOUS], q[at + S_GROUP_NEXT]
    if before:
        q[before + S_GROUP_NEXT] = behind
    else:
        q[group + G_FIRST] = behind
    if behind:
        q[behind + S_GROUP_PREVIOUS] = before
    else:
        q[group + G_LAST] = before
    return before == 0 and behind == 0  # type: ignore[no-any-return]
