"""Every placement policy keeps the contract, and one that doesn't is told so by name."""

import random
from collections.abc import Sequence

import pytest

from forebay.decide.conformance import check_placer
from forebay.decide.policy import Input, placer
from forebay.decide.registry import policies
from forebay.decide.view import View
from forebay.model.decision import Placement
from forebay.model.errors import PolicyError


@pytest.mark.parametrize("name", policies("place"))
def test_every_registered_placer_conforms(name: str) -> None:
    check_placer(policies("place")[name])


def lowest(_: View, counts: Sequence[int]) -> Placement:
    return tuple(tuple(range(n)) for n in counts)


def highest(view: View, counts: Sequence[int]) -> Placement:
    return tuple(tuple(range(view.system.targets - n, view.system.targets)) for n in counts)


def by_volume(view: View, counts: Sequence[int]) -> Placement:
    return lowest(view, counts) if view.volume.sum() > 2000 else highest(view, counts)


def by_curve(view: View, counts: Sequence[int]) -> Placement:
    return lowest(view, counts) if view.bandwidth.max() > 20 else highest(view, counts)


def changes_the_view(view: View, counts: Sequence[int]) -> Placement:
    view.io_stress[0, 0] = 0.0
    return lowest(view, counts)


BROKEN = {
    "places 0 of 1 applications": lambda _, __: (),
    "on 1 targets instead of 4": lambda _, counts: ((0,),) * len(counts),
    "targets must be distinct and ascending": lambda _, counts: tuple((0,) * n for n in counts),
    "must be distinct": lambda view, counts: tuple(own[::-1] for own in lowest(view, counts)),
    r"targets are 0 to 3": lambda _, counts: tuple(tuple(range(1, n + 1)) for n in counts),
    "but targets are": lambda _, counts: tuple(tuple(range(-n, 0)) for n in counts),
    "not a tuple of tuples of ints": lambda _, counts: tuple(range(n) for n in counts),
    "which is not a tuple": lambda view, counts: list(lowest(view, counts)),
    "raises IndexError": lambda _, counts: tuple(tuple(range(counts[1])) for n in counts),
    "returns different answers": lambda view, counts: tuple(
        tuple(sorted(random.sample(range(view.system.targets), n))) for n in counts
    ),
    "depends on the I/O volume": by_volume,
    "depends on the curve": by_curve,
    "changes the io_stress of the view": changes_the_view,
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_placer_is_caught_and_told_what_it_broke(complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint) as raised:
        check_placer(placer("mine")(BROKEN[complaint]))
    assert str(raised.value).startswith("mine: ")


def test_what_is_declared_may_be_used() -> None:
    check_placer(placer("mine", inputs=[Input.VOLUME])(by_volume))
    check_placer(placer("mine", inputs=[Input.CURVE])(by_curve))


def test_an_allocator_is_no_placer() -> None:
    with pytest.raises(PolicyError, match="tcpu: is of kind 'allocate', not 'place'"):
        check_placer(policies("allocate")["tcpu"])
