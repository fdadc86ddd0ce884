"""`hbrr` and `mlf`: files take turns, in a ring of those that have requests."""

from __future__ import annotations

from typing import Any

from forebay.decide.order.lists import append_to_group, unlink_from_group
from forebay.decide.order.queue_layout import (
    CURRENT,
    FILES_AT,
    G_FIRST,
    G_LEVEL,
    G_NEXT,
    G_PREVIOUS,
    G_TURN,
    GROUP_SHIFT,
    QUANTUM,
    S_FILE,
    S_GROUP,
)
from forebay.decide.order.slots import slot_at
from forebay.model.kernels import kernel

TOP_LEVEL = 6  # of mlf: 64 times the quantum


@kernel
def hbrr(q: Any, now: int) -> int:  # noqa: ARG001
    """Files take turns of `quantum` messages each; contiguous requests are one message."""
    return _next(q, 0)


@kernel
def mlf(q: Any, now: int) -> int:  # noqa: ARG001
    """Files take turns; the turn doubles, up to 64-fold, each time that it was not enough."""
    return _next(q, TOP_LEVEL)


@kernel
def _next(q: Any, top: int) -> int:
    file = q[CURRENT]
    if q[file + G_TURN] <= 0:
        q[file + G_LEVEL] = min(q[file + G_LEVEL] + 1, top)
        file = q[file + G_NEXT]
        _begin_turn(q, file)
    q[file + G_TURN] -= 1
    return slot_at(q[file + G_FIRST])


@kernel
def _begin_turn(q: Any, file: int) -> None:
    q[CURRENT] = file
    q[file + G_TURN] = q[QUANTUM] << q[file + G_LEVEL]


@kernel
def enter_file(q: Any, at: int) -> None:
    """A request joins those of its file; a file that had none joins the ring as the last to have its turn."""
    file = q[FILES_AT] + (q[at + S_FILE] << GROUP_SHIFT)
    if not append_to_group(q, file, at):
        return
    q[file + G_LEVEL] = 0
    current = q[CURRENT]
    if current == 0:
        q[file + G_NEXT] = q[file + G_PREVIOUS] = file
        _begin_turn(q, file)
        return
    last = q[current + G_PREVIOUS]
    q[file + G_PREVIOUS], q[file + G_NEXT] = last, current
    q[last + G_NEXT] = q[current + G_PREVIOUS] = file


@kernel
def leave_file(q: Any, at: int) -> None:
    """A request leaves those of its file; a file that has no more leaves the ring."""
    if not unlink_from_group(q, at):
        return
    file = q[at + S_GROUP]
    before, behind = q[file + G_PREVIOUS], q[file + G_NEXT]
    if behind == file:
        q[CURRENT] = 0
        return
    q[before + G_NEXT], q[behind + G_PREVIOUS] = behind, before
    if q[CURRENT] == file:
        _begin_turn(q, behind)
