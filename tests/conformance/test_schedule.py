"""Every scheduling policy keeps the contract, and one that doesn't is told so by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forebay.decide.conformance import check_schedule
from forebay.decide.policy import scheduler
from forebay.decide.registry import find, policies
from forebay.decide.schedule.view import start_at
from forebay.model.errors import PolicyError
from forebay.model.kernels import kernel

Decide = Callable[..., None]


@pytest.mark.parametrize("name", policies("schedule"))
def test_every_registered_policy_conforms(name: str) -> None:
    check_schedule(policies("schedule")[name])


def in_turn(view: Any, _: Any, starts: Any) -> None:
    """One job at a time."""
    if view.running.size == 0 and view.queue.size > 0:
        start_at(starts, view.queue[0], view.machine[0]["now"])


@kernel
def in_turn_compiled(view: Any, _memory: Any, starts: Any) -> None:
    """One job at a time."""
    if view.running.size == 0 and view.queue.size > 0:
        start_at(starts, view.queue[0], view.machine[0].now)


def test_functions_and_kernels_will_do() -> None:
    check_schedule(scheduler("mine")(in_turn))
    check_schedule(scheduler("mine")(in_turn_compiled))


def greedy(view: Any, _: Any, starts: Any) -> None:
    for row in view.queue:
        start_at(starts, row, view.machine[0]["now"])


def lazy(view: Any, _: Any, starts: Any) -> None:
    for row in view.queue[:1]:
        start_at(starts, row, view.machine[0]["now"] + 1.0)


def twice(view: Any, _: Any, starts: Any) -> None:
    for row in [*view.queue, *view.queue]:
        start_at(starts, row, np.inf)


def too_early(view: Any, _: Any, starts: Any) -> None:
    for row in view.queue:
        start_at(starts, row, view.machine[0]["now"] - 1.0)


def runners(view: Any, memory: Any, starts: Any) -> None:
    for row in view.running:
        start_at(starts, row, np.inf)
    in_turn(view, memory, starts)


def scribbler(view: Any, _memory: Any, _starts: Any) -> None:
    view.jobs["walltime"] = 1.0


def fickle() -> Decide:
    calls: list[int] = []

    def decide(view: Any, _memory: Any, starts: Any) -> None:
        calls.append(1)
        if view.running.size == 0 and view.queue.size > 0:
            start_at(starts, view.queue[len(calls) % view.queue.size], view.machine[0]["now"])

    return decide


def breaks_promises(view: Any, memory: Any, starts: Any) -> None:
    in_turn(view, memory, starts)
    for row in view.queue[1:]:
        start_at(starts, row, view.machine[0]["now"] + 10.0)


def fails(_view: Any, _memory: Any, _starts: Any) -> None:
    raise ValueError("no licence\nat all")


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (greedy, r"mine: holds \d+ of \d+ (nodes|bytes) at .* s \("),
        (lazy, "mine: leaves job 0 waiting on an idle machine \\("),
        (twice, "mine: mentions a job twice"),
        (too_early, "mine: plans job 0 for -1 s, which is before now"),
        (runners, "mine: plans job 0, which does not wait"),
        (scribbler, "mine: changes the view, which is read-only"),
        (fickle(), "mine: starts jobs at other times for the same view"),
        (breaks_promises, "mine: moves the reserved start of job"),
        (fails, "mine: raises ValueError for .*: no licence"),
        (find("schedule", "sjf-bb").decide, "mine: starves job 2"),
    ],
)
def test_a_policy_that_breaks_a_rule_is_named(decide: Decide, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        check_schedule(scheduler("mine")(decide))
