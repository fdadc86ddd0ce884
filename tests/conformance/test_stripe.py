"""Every striping policy keeps the contract, and one that doesn't is told so by name."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forebay.decide.conformance import check_striping
from forebay.decide.policy import Input, striping
from forebay.decide.registry import find, policies
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import place, start_anywhere
from forebay.decide.stripe.view import StripeView, Striping
from forebay.model.decision import Never
from forebay.model.errors import PolicyError
from forebay.model.layout import ANY, MIB, Layout

Decide = Callable[[StripeView], Any]
ALL = [
    Input.PROCESSES,
    Input.FREE_SPACE,
    Input.TARGETS_IN_USE,
    Input.ACCESS_PATTERN,
    Input.OWN_RUNS,
    Input.RUNS_OF_OTHERS,
]


@pytest.mark.parametrize("name", [*policies("stripe"), "dca-io:interference=false"])
def test_every_registered_striping_policy_conforms(name: str) -> None:
    check_striping(find("stripe", name))


def answer(view: StripeView, count: int = 1, **changes: Any) -> Striping:
    """`count` stripes from the target on that chance picks, or another answer."""
    proper = Choice(count=count, phase="rule", because="of the weather").at(start_anywhere(view, count))
    return replace(proper, **changes)


def of(count: Any, size: Any = MIB, start: Any = ANY) -> Striping:
    layout = Layout(count=1)
    for name, value in (("count", count), ("size", size), ("start", start)):
        object.__setattr__(layout, name, value)
    return Striping(layout=layout, phase="rule", because="of the weather")


def remembers() -> Decide:
    seen: list[int] = []

    def decide(view: StripeView) -> Striping:
        seen.append(1)
        return answer(view, 1 if len(seen) < 40 else view.most)

    return decide


def changes_the_view(view: StripeView) -> Striping:
    object.__setattr__(view, "processes", view.processes + 1)
    return answer(view)


def by_processes(view: StripeView) -> Striping:
    return answer(view, min(view.processes, view.most))


def by_pattern(view: StripeView) -> Striping:
    return answer(view, view.most if view.shared_file else 1)


def by_requests(view: StripeView) -> Striping:
    return of(1, size=2 * MIB if view.request_size > 4 * MIB else MIB)


def by_own_runs(view: StripeView) -> Striping:
    return answer(view, min(max((run.count for run in view.runs), default=1), view.most))


def by_own_volume(view: StripeView) -> Striping:
    return answer(view, view.most if any(run.io_bytes > 10**10 for run in view.runs) else 1)


def by_others(view: StripeView) -> Striping:
    return answer(view, min(max((peers.count for peers in view.peers), default=1), view.most))


def by_users(view: StripeView) -> Striping:
    return answer(view, max(sum(target.users > 0 for target in view.usable), 1))


def by_load(view: StripeView) -> Striping:
    return answer(view, 1 if any(target.busy > 0 for target in view.usable) else view.most)


def by_free_space(view: StripeView) -> Striping:
    emptiest = max(view.usable, key=lambda target: target.free_bytes).index
    return Striping(layout=Layout(count=1, start=emptiest), phase="rule", because="of room", targets=(emptiest,))


def unless_all_are_in_use(view: StripeView) -> Striping:
    free = [target for target in view.usable if not target.users]
    return answer(view, because=f"of target {free[0].index}")


def doubles(view: StripeView) -> Striping:
    return answer(view, min(2 ** len(view.runs), 99))


BROKEN: dict[str, Decide] = {
    "returns None, which is not a Striping": lambda _: None,
    "which is not a Striping, although some targets are usable": lambda _: Never(because="of the weather"),
    "which is not a Layout of ints": lambda view: answer(view, layout=(1, MIB, 0)),
    r"Layout\(count=1.0.*, which is not a Layout": lambda _: of(1.0),
    "not a Layout of": lambda _: of(np.int64(1)),
    "returns 257 stripes; at most 256 are possible": lambda _: of(257),
    "returns 2 stripes; at most 1 are possible": lambda _: of(2),
    r"starts at target 0, which is not usable \(indices": lambda _: replace(of(1, start=0), targets=(0,)),
    r"names targets \(\), but 1 stripes from target 179 on": lambda view: answer(view, targets=()),
    r"names targets \(0,\), but its layout leaves the choice": lambda _: replace(of(1), targets=(0,)),
    r"lie on \(179, 180, .*, 178\)": lambda view: answer(view, view.most, targets=tuple(t.index for t in view.usable)),
    "returns phase 'guess'; expected one of initial, rule, heuristic": lambda view: answer(view, phase="guess"),
    "returns reason '', which is not one line": lambda view: answer(view, because=""),
    "which is not one line of text": lambda view: answer(view, because="one\ntwo"),
    "not one line": lambda view: answer(view, because=None),
    r"refers to runs \(99,\), which are not in the view": lambda view: answer(view, runs=(99,)),
    "returns different answers": lambda view: answer(view, random.randint(1, view.most)),
    "for the same view": remembers(),
    "changes the view, which is read-only": changes_the_view,
    "raises IndexError for every target in use": unless_all_are_in_use,
    "raises ValueError for .* runs": doubles,
    "depends on the processes": by_processes,
    "depends on the access pattern": by_pattern,
    "on the access pattern": by_requests,
    "depends on the earlier runs": by_own_runs,
    "on the earlier runs": by_own_volume,
    "depends on the runs of others": by_others,
    "depends on the targets in use": by_users,
    "on the targets in use": by_load,
    "depends on the free space": by_free_space,
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_striping_policy_is_caught_and_told_what_it_broke(complaint: str) -> None:
    inputs = [] if "on the " in complaint else ALL
    with pytest.raises(PolicyError, match=complaint) as raised:
        check_striping(striping("mine", inputs=inputs)(BROKEN[complaint]))
    assert str(raised.value).startswith("mine: ")


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (by_processes, [Input.PROCESSES]),
        (by_pattern, [Input.ACCESS_PATTERN]),
        (by_requests, [Input.ACCESS_PATTERN]),
        (by_own_runs, [Input.OWN_RUNS]),
        (by_own_volume, [Input.OWN_RUNS]),
        (by_others, [Input.RUNS_OF_OTHERS]),
        (by_users, [Input.TARGETS_IN_USE]),
        (by_load, [Input.TARGETS_IN_USE]),
        (by_free_space, [Input.FREE_SPACE]),
    ],
)
def test_what_is_declared_may_be_used(function: Decide, inputs: list[Input]) -> None:
    check_striping(striping("mine", inputs=inputs)(function))


def test_leaving_the_first_target_to_the_file_system_will_do() -> None:
    check_striping(striping("mine")(lambda view: of(min(2, view.most))))


def test_on_all_targets_it_is_known_where_the_files_lie_whatever_comes_first() -> None:
    def everywhere(view: StripeView) -> Striping:
        every = tuple(target.index for target in view.usable)
        return replace(of(view.most), targets=every if view.most == len(every) else ())

    check_striping(striping("mine")(everywhere))


def test_a_policy_that_only_goes_wrong_after_many_runs_is_caught() -> None:
    def late(view: StripeView) -> Striping:
        return answer(view) if len(view.runs) != 37 else of(view.most + 1)

    with pytest.raises(PolicyError, match="run 38 of an application with a file per process"):
        check_striping(striping("mine", inputs=[Input.OWN_RUNS])(late))


def test_placing_by_procedure_3_needs_both_of_its_inputs() -> None:
    def two(view: StripeView) -> Striping:
        return Choice(count=min(2, view.most), phase="rule", because="two").at(place(view, min(2, view.most)))

    check_striping(striping("mine", inputs=[Input.TARGETS_IN_USE, Input.FREE_SPACE])(two))
    with pytest.raises(PolicyError, match="depends on the free space"):
        check_striping(striping("mine", inputs=[Input.TARGETS_IN_USE])(two))


def test_a_placer_is_no_striping_policy() -> None:
    with pytest.raises(PolicyError, match="random: is of kind 'place', not 'stripe'"):
        check_striping(policies("place")["random"])
