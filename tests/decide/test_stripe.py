"""The striping policies as a whole: which procedure decides, and where the stripes go."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.decide.registry import find
from forebay.decide.stripe.view import Past, Peers, StripeView
from forebay.model.errors import BadInput, UnknownName
from forebay.model.layout import MIB, Target

PEERS = (
    Peers(processes=8, count=1, size=MIB, runs=50, throughput=2e8),
    Peers(processes=8, count=4, size=2 * MIB, runs=5, throughput=5e8),
)


def view(users: str = "0000", **known: Any) -> StripeView:
    """Targets with such numbers of users, x for those that can't be used."""
    targets = tuple(
        Target(index=k, users=0 if c == "x" else int(c), usable=c != "x", free_bytes=k) for k, c in enumerate(users)
    )
    return StripeView(**{"application": "app", "processes": 8, "targets": targets, **known})


def past(run: int, count: int, throughput: float) -> Past:
    return Past(run=run, processes=8, count=count, size=MIB, throughput=throughput)


@pytest.mark.parametrize(("chance", "index"), [(0.0, 1), (0.49, 1), (0.5, 3), (0.99, 3)])
def test_default_puts_one_stripe_on_a_usable_target_at_random(chance: float, index: int) -> None:
    known = {"runs": (past(1, 4, 1e9), past(2, 8, 2e9)), "shared_file": True, "io_processes": 8, "peers": PEERS}
    answer = find("stripe", "default").decide(view("x5x0", chance=chance, **known))
    assert (answer.layout.count, answer.layout.size, answer.layout.start) == (1, MIB, index)
    assert (answer.phase, answer.targets, answer.runs) == ("rule", (index,), ())


def test_tapp_io_does_not_know_an_application_that_never_ran() -> None:
    answer = find("stripe", "tapp-io").decide(view(peers=PEERS))
    assert (answer.layout.count, answer.layout.size, answer.phase) == (1, MIB, "initial")
    assert "it never ran, so it gets the default layout" in answer.because


@pytest.mark.parametrize(("shared", "processes", "count"), [(False, 3, 1), (True, 3, 3), (True, 8, 4)])
def test_tapp_io_goes_by_the_pattern_alone(shared: bool, processes: int, count: int) -> None:
    runs = (past(1, 1, 1e9), past(2, 2, 2e9), past(3, 4, 3e9))
    answer = find("stripe", "tapp-io").decide(view(runs=runs, shared_file=shared, io_processes=processes))
    assert (answer.layout.count, answer.layout.size, answer.phase, answer.runs) == (count, MIB, "rule", (3,))


def test_tapp_io_does_not_care_who_uses_the_targets() -> None:
    known: dict[str, Any] = {"shared_file": True, "io_processes": 2, "chance": 0.3}
    free, used = (find("stripe", "tapp-io").decide(view(users, **known)) for users in ("0000", "0990"))
    assert free == used
    assert used.targets == (1, 2)


def test_dca_io_goes_from_others_to_the_rule_to_its_own_runs() -> None:
    decide = find("stripe", "dca-io").decide
    first = decide(view(peers=PEERS))
    assert (first.phase, first.layout.count, first.layout.size) == ("initial", 4, 2 * MIB)
    known: dict[str, Any] = {"peers": PEERS, "shared_file": True, "io_processes": 2}
    second = decide(view(runs=(past(1, 4, 5e8),), **known))
    assert (second.phase, second.layout.count, second.layout.size) == ("rule", 2, MIB)
    third = decide(view(runs=(past(1, 1, 5e8), past(2, 2, 6e8)), **known))
    assert (third.phase, third.layout.count, third.layout.size) == ("heuristic", 4, MIB)


def test_dca_io_stays_out_of_the_way_of_others_unless_told_not_to() -> None:
    busy = view("01100", shared_file=True, io_processes=3, chance=0.5)
    assert find("stripe", "dca-io").decide(busy).targets == (3, 4, 0)
    assert find("stripe", "dca-io:interference=false").decide(busy).targets == (2, 3, 4)
    assert find("stripe", "dca-io:interference=true").decide(busy).targets == (3, 4, 0)


def test_the_reason_says_how_many_and_where() -> None:
    answer = find("stripe", "dca-io").decide(view("1001", runs=(past(1, 1, 5e8), past(2, 2, 4e8)), shared_file=False))
    assert answer.reason == (
        "its run 2 with 2 stripes of 1 MiB reached 400.00 MB/s, no more than the 500.00 MB/s of run 1 with 1, "
        "so it tries 1 stripe of 2 MiB; no running job uses this target"
    )


@pytest.mark.parametrize("name", ["default", "tapp-io", "dca-io"])
def test_targets_may_come_in_any_order(name: str) -> None:
    known = view("012x3450", runs=(past(1, 1, 5e8), past(2, 2, 6e8)), shared_file=True, io_processes=3, chance=0.6)
    turned = replace(known, targets=known.targets[::-1])
    assert find("stripe", name).decide(turned) == find("stripe", name).decide(known)


def test_an_unknown_striping_policy_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no striping policy 'dcaio'; did you mean 'dca-io'"):
        find("stripe", "dcaio")
    with pytest.raises(BadInput, match="interference must be of type bool, not 'maybe'"):
        find("stripe", "dca-io:interference=maybe")
