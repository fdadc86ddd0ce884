"""Every allocation policy keeps the contract, and one that doesn't is told so by name."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from forebay.decide.conformance import check_allocator
from forebay.decide.policy import Input, Policy, allocator
from forebay.decide.registry import policies
from forebay.decide.view import View
from forebay.model.decision import Allocation, Later, Never
from forebay.model.errors import PolicyError


@pytest.mark.parametrize("name", policies("allocate"))
def test_every_registered_allocator_conforms(name: str) -> None:
    check_allocator(policies("allocate")[name])


def smallest(view: View) -> list[int]:
    return [a.curve.first for a in view.applications]


def remembers() -> Callable[[View], Allocation]:
    seen: list[int] = []

    def decide(view: View) -> Allocation:
        seen.append(1)
        last = [a.curve.last for a in view.applications]
        return Allocation(tuple(smallest(view) if len(seen) < 20 else last))

    return decide


def changes_the_view(view: View) -> Allocation:
    view.compute_nodes[0] += 1
    return Allocation(tuple(smallest(view)))


def by_curve(view: View) -> Allocation:
    return Allocation(tuple(a.curve.n_perf for a in view.applications))


def by_bandwidth(view: View) -> Allocation:
    return Allocation(tuple(a.curve.last if a.curve.at(a.curve.last) > 15 else 1 for a in view.applications))


def by_size(view: View) -> Allocation:
    return Allocation(tuple(a.curve.last if a.compute_nodes > 9 else a.curve.first for a in view.applications))


def by_phases(view: View) -> Allocation:
    return Allocation(tuple(a.curve.last if a.phases > 3 else a.curve.first for a in view.applications))


def by_volume(view: View) -> Allocation:
    return Allocation(tuple(a.curve.last if a.volume > 500 else a.curve.first for a in view.applications))


def by_time(view: View) -> Allocation:
    return Allocation(tuple(a.curve.last if a.compute_seconds > 40 else a.curve.first for a in view.applications))


def fails(view: View) -> Allocation:
    return Allocation((1 // (len(view.applications) - 1),) * len(view.applications))


def on_targets_nobody_has(view: View) -> Allocation:
    return Allocation(tuple(smallest(view)), tuple(tuple(range(50, 50 + n)) for n in smallest(view)))


def of_too_few(view: View) -> Allocation:
    return Allocation(tuple(smallest(view)), ((0,),))


BROKEN = {
    "returns 1 counts for 3 applications": lambda _: Allocation((1,)),
    "gives 0 targets to an application": lambda view: Allocation((0,) * len(view.applications)),
    "gives 1 targets to an application whose curve is defined for 2 to 3": lambda view: Allocation(
        (1,) * len(view.applications)
    ),
    "gives 2 targets to an application whose curve is defined for 1 to 1": lambda view: Allocation(
        (2,) * len(view.applications)
    ),
    "not a tuple of ints": lambda view: Allocation(tuple(map(float, smallest(view)))),  # type: ignore[arg-type]
    "which is not a tuple": lambda view: Allocation(tuple(np.array(smallest(view)))),
    "not a tuple of": lambda view: Allocation(smallest(view)),  # type: ignore[arg-type]
    "neither an Allocation nor a Never": lambda _: None,
    "nor a Never": lambda _: Later(until=1.0, because="of the weather"),
    "refuses every view, even one application": lambda _: Never(because="of the weather"),
    "returns different answers": lambda view: Allocation(
        tuple(random.randint(a.curve.first, a.curve.last) for a in view.applications)
    ),
    "for the same view and seed": remembers(),
    "changes the compute_nodes of the view": changes_the_view,
    "raises ZeroDivisionError for one application": fails,
    "depends on the best n": by_curve,
    "depends on the curve": by_bandwidth,
    "depends on the compute nodes": by_size,
    "depends on the phases": by_phases,
    "depends on the I/O volume": by_volume,
    "depends on the compute time": by_time,
    "but targets are 0 to 3": on_targets_nobody_has,
    "places 1 of 3 applications": of_too_few,
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_allocator_is_caught_and_told_what_it_broke(complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint) as raised:
        check_allocator(allocator("mine")(BROKEN[complaint]))
    assert str(raised.value).startswith("mine: ")


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (by_curve, [Input.N_PERF]),
        (by_curve, [Input.CURVE]),
        (by_size, [Input.COMPUTE_NODES]),
        (by_phases, [Input.PHASES]),
        (by_volume, [Input.VOLUME]),
        (by_time, [Input.COMPUTE_SECONDS]),
    ],
)
def test_what_is_declared_may_be_used(function: Callable[[View], Allocation], inputs: list[Input]) -> None:
    check_allocator(allocator("mine", inputs=inputs)(function))


def test_knowing_the_best_n_is_not_knowing_the_curve() -> None:
    with pytest.raises(PolicyError, match="depends on the curve"):
        check_allocator(allocator("mine", inputs=[Input.N_PERF])(by_bandwidth_of_best))


def by_bandwidth_of_best(view: View) -> Allocation:
    return Allocation(
        tuple(a.curve.n_perf if max(a.curve.bandwidths) > 25 else a.curve.first for a in view.applications)
    )


def test_a_placer_is_no_allocator() -> None:
    placer: Policy = policies("place")["random"]
    with pytest.raises(PolicyError, match="random: is of kind 'place', not 'allocate'"):
        check_allocator(placer)
