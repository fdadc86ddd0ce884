"""Policies by name, with options."""

import pytest

from forebay.decide.policy import Input, allocator
from forebay.decide.registry import BUILT_IN, find, policies
from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Never
from forebay.model.errors import BadInput, UnknownName
from forebay.model.system import System


def test_every_built_in_policy_is_found_by_its_name() -> None:
    for policy in BUILT_IN:
        assert find(policy.kind, policy.name) is policy
        assert policy.summary and policy.source


def test_the_same_name_can_be_an_allocation_and_a_placement_policy() -> None:
    assert find("allocate", "random") is not find("place", "random")


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("allocate", "tpcu", "no allocation policy 'tpcu'; did you mean 'tcpu'?"),
        ("place", "greedy-clairvoiant", "no placement policy 'greedy-clairvoiant'; did you mean 'greedy-clairvoyant'?"),
        ("place", "tcpu", "no placement policy 'tcpu'; use one of: "),
        ("allocate", "", "no allocation policy ''; use one of: "),
    ],
)
def test_an_unknown_name_suggests_the_nearest(kind: str, name: str, message: str) -> None:
    with pytest.raises(UnknownName) as raised:
        find(kind, name)  # type: ignore[arg-type]
    assert str(raised.value).startswith(message)


def test_options_are_set_by_name_and_keep_the_rest() -> None:
    policy = find("allocate", "optimal:most=1:weight=0.5")
    assert policy.name == "optimal:most=1:weight=0.5"
    assert policy.options == {"weight": 0.5, "most": 1}
    assert policy.inputs == find("allocate", "optimal").inputs and policy.simulates
    application = Application(
        name="a", compute_nodes=1, phases=1, compute_seconds=1, volume=1, curve=Curve.of({1: 1.0, 2: 2.0})
    )
    view = View(System(targets=2, compute_nodes=1), (application,), judge=object(), place=object())  # type: ignore[arg-type]
    assert isinstance(policy.decide(view), Never)


def test_an_unknown_option_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no option of policy 'forebay' 'wieght'; did you mean 'weight'"):
        find("allocate", "forebay:wieght=0.3")
    with pytest.raises(UnknownName, match="no option of policy 'static' 'weight'"):
        find("allocate", "static:weight=1")


@pytest.mark.parametrize("spec", ["forebay:weight=heavy", "forebay:weight=", "forebay:weight", "optimal:most=1.5"])
def test_an_option_of_another_type_is_refused(spec: str) -> None:
    with pytest.raises(BadInput, match=r"must be of type (float|int), not"):
        find("allocate", spec)


def test_difficulty_is_that_of_the_hardest_input() -> None:
    by_difficulty = sorted(policies("allocate").values(), key=lambda p: p.difficulty)
    assert [p.name for p in by_difficulty][:3] == ["random", "static", "best-bandwidth"]
    assert find("allocate", "tcpu").difficulty == (3, 4)


def test_a_policy_knows_its_first_line_and_its_options() -> None:
    @allocator("mine", inputs=[Input.PHASES], source="me")
    def mine(view: View, *, scale: float = 2.0) -> Never:  # noqa: ARG001
        """What it does.

        And how.
        """
        return Never(because="no")

    assert (mine.kind, mine.summary, mine.options) == ("allocate", "What it does.", {"scale": 2.0})
