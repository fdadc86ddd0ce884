"""Views of applications on a machine, ordinary and awkward, and what holds for every policy that is shown them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from typing import Any

import numpy as np

from forebay.decide.conformance.contract import broke
from forebay.decide.place import greedy_non_clairvoyant
from forebay.decide.policy import Input, Policy
from forebay.decide.view import Judge, Score, View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Placement
from forebay.model.errors import PolicyError
from forebay.model.system import System

# The curve comes before the best n that follows from it.
_INPUTS = (
    Input.CURVE,
    Input.PHASES,
    Input.VOLUME,
    Input.COMPUTE_SECONDS,
    Input.N_PERF,
    Input.COMPUTE_NODES,
)
_ARRAYS = [name for name, member in vars(View).items() if isinstance(member, cached_property)]


@dataclass(frozen=True, slots=True)
class Case:
    """One call: `what` says in words what is special about it; `counts` are for placements only."""

    what: str
    view: View
    counts: tuple[int, ...] = ()


def check(policy: Policy, cases: list[Case], check: Callable[[Policy, Case, Any], None]) -> list[Any]:
    """Every case, each again after all the others, and each with what the policy doesn't ask for changed."""
    answers = [_decide(policy, case) for case in cases]
    for case, answer in zip(cases, answers, strict=True):
        check(policy, case, answer)
    for case, answer in reversed(list(zip(cases, answers, strict=True))):
        if _decide(policy, case) != answer:
            broke(policy, case, "does not give the same answer to the same view and seed again")
    for case, answer in zip(cases, answers, strict=True):
        for hidden in _INPUTS:
            if not _declares(policy, hidden) and _decide(policy, _without(case, hidden)) != answer:
                broke(policy, case, f"depends on the {hidden.label}, which it does not declare as an input")
    return answers


def _decide(policy: Policy, case: Case) -> Any:
    """One call with a new generator; the view must be as it was afterwards."""
    view = replace(case.view, rng=np.random.default_rng(1))
    before = {name: getattr(view, name).copy() for name in _ARRAYS}
    try:
        answer = policy.decide(view) if policy.kind == "allocate" else policy.decide(view, case.counts)
    except Exception as error:  # whatever it is, the author wants to know in which case
        raise PolicyError(f"{policy.name}: raises {type(error).__name__} for {case.what}: {error}") from error
    for name, values in before.items():
        if not np.array_equal(getattr(view, name), values):
            broke(policy, case, f"changes the {name} of the view that it is only to look at")
    return answer


def _declares(policy: Policy, wanted: Input) -> bool:
    return wanted in policy.inputs or (wanted is Input.N_PERF and Input.CURVE in policy.inputs)


def _without(case: Case, hidden: Input) -> Case:
    """The same case with another value of what the policy doesn't ask for; what it may ask a judge stays."""
    changed = tuple(_change_input(a, hidden, i) for i, a in enumerate(case.view.applications))
    return replace(case, view=replace(case.view, applications=changed))


def _change_input(application: Application, hidden: Input, index: int) -> Application:
    match hidden:
        case Input.COMPUTE_NODES:
            return replace(application, compute_nodes=application.compute_nodes * (index + 2) + 1)
        case Input.VOLUME:
            return replace(application, volume=application.volume / (index + 2) + 1)
        case Input.COMPUTE_SECONDS:
            return replace(application, compute_seconds=application.compute_seconds / (index + 2) + 1)
        case Input.PHASES:
            return replace(application, phases=application.phases + index + 1)
        case Input.N_PERF | Input.CURVE:
            return replace(application, curve=_other(application.curve, keep_best=hidden is Input.CURVE))
        case _:
            return application


def _other(curve: Curve, keep_best: bool) -> Curve:
    """Another curve from the same first to the same last n; with the same best n or, if there is one, another."""
    best = curve.n_perf if keep_best else curve.first if curve.n_perf == curve.last else curve.last
    return Curve.of({curve.first: 1.0, curve.last: 1.0} | {best: 2.0})


def cases() -> Iterable[Case]:
    """Every view that policies are checked with."""
    rising, falling = Curve.of({1: 10.0, 2: 19.0, 4: 30.0}), Curve.of({1: 40.0, 4: 11.0})
    dips, late = Curve.of({1: 20.0, 2: 15.0, 3: 26.0, 4: 21.0}), Curve.of({2: 30.0, 3: 35.0})
    one = _application(rising)
    yield _case("one application", 4, [one])
    yield _case("one application on one target", 1, [_application(Curve.of({1: 5.0}))])
    yield _case("many applications on one target", 1, [_application(Curve.of({1: b})) for b in (5.0, 7.0, 5.0)])
    yield _case("fewer applications than targets", 8, [_application(c) for c in (rising, falling, dips)])
    yield _case("more applications than targets", 4, _varied_applications(6, [rising, falling, dips]))
    yield _case("applications that are all equal", 4, [one] * 5)
    yield _case("curves that begin at 2 targets", 4, [_application(late), one, _application(late)])
    yield _case("curves that begin at 2 targets, and too few of those", 4, [_application(late)] * 5)
    yield _case("an application without I/O", 4, [replace(one, volume=0.0), one, _application(falling)])
    yield _case("only applications without I/O", 4, [replace(one, volume=0.0)] * 2)
    yield _case("an application without computing", 4, [replace(one, compute_seconds=0.0), one])
    yield _case("only applications without computing", 4, [replace(one, compute_seconds=0.0)] * 3)
    yield _case("an application without compute nodes", 4, [replace(one, compute_nodes=0.0), one])
    yield _case("150 applications on 40 targets", 40, _varied_applications(150, _random_curves(30)))


def _case(what: str, targets: int, applications: Sequence[Application]) -> Case:
    named = tuple(replace(a, name=f"application {i}") for i, a in enumerate(applications))
    system = System(targets=targets, compute_nodes=sum(a.compute_nodes for a in named))
    view = View(system, named)
    return Case(what, replace(view, judge=_judge(view), place=greedy_non_clairvoyant.decide))


def _application(curve: Curve) -> Application:
    return Application(name="", compute_nodes=8.0, phases=3, compute_seconds=60.0, volume=900.0, curve=curve)


def _varied_applications(count: int, curves: Sequence[Curve]) -> list[Application]:
    rng = np.random.default_rng(0)
    return [
        replace(
            _application(curve),
            compute_nodes=float(rng.integers(1, 64)),
            phases=int(rng.integers(1, 20)),
            compute_seconds=float(rng.uniform(0.0, 500.0)),
            volume=float(rng.uniform(0.0, 3000.0)),
        )
        for curve in islice(cycle(curves), count)
    ]


def _random_curves(count: int) -> list[Curve]:
    rng = np.random.default_rng(0)
    return [Curve.of(dict(zip((1, 2, 4, 8), rng.uniform(5.0, 50.0, 4).tolist(), strict=True))) for _ in range(count)]


def _judge(view: View) -> Judge:
    """No simulator, but enough for a policy to prefer one placement to another: who shares takes turns always."""

    def score(placement: Placement) -> Score:
        users = np.bincount([t for own in placement for t in own], minlength=view.system.targets)
        slowdowns, idle = [], 0.0
        for application, own in zip(view.applications, placement, strict=True):
            turns = max(int(users[t]) for t in own)
            slowdowns.append(turns * max(application.curve.bandwidths) / application.curve.at(len(own)))
            io = turns * application.io_seconds(len(own))
            idle += application.compute_nodes * io / (application.compute_seconds + io)
        return Score(sum(slowdowns) / len(slowdowns), idle / view.system.compute_nodes)

    return Judge(3600.0, score)
