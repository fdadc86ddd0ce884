"""What every policy must do, to be called from the tests of whoever writes one.

    from forebay.decide.conformance import check_allocator

    def test_it_conforms():
        check_allocator(my_policy)

A policy that breaks its contract gets a `PolicyError` that names it, the case and what it broke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from typing import Any, NoReturn

import numpy as np

from forebay.decide.place.greedy_non_clairvoyant import greedy_non_clairvoyant
from forebay.decide.policy import Input, Kind, Policy
from forebay.decide.view import Judge, Score, View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Allocation, Never, Placement
from forebay.model.errors import PolicyError
from forebay.model.system import System

_ARRAYS = [name for name, member in vars(View).items() if isinstance(member, cached_property)]


@dataclass(frozen=True, slots=True)
class _Case:
    """One call: `what` says in words what is special about it; `counts` are for placements only."""

    what: str
    view: View
    counts: tuple[int, ...] = ()


def check_allocator(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is no proper allocation policy."""
    _expect_kind(policy, "allocate")
    answers = _check(policy, list(_cases()), _check_allocation)
    if all(isinstance(answer, Never) for answer in answers):
        raise PolicyError(f"{policy.name}: refuses whatever it is asked, even one application on one target")


def check_placer(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is no proper placement policy."""
    _expect_kind(policy, "place")
    _check(policy, [with_counts for case in _cases() for with_counts in _counted(case)], _check_placement)


def _expect_kind(policy: Policy, kind: Kind) -> None:
    if policy.kind != kind:
        raise PolicyError(f"{policy.name}: is of kind {policy.kind!r}, not {kind!r}")


def _check(policy: Policy, cases: list[_Case], check: Callable[[Policy, _Case, Any], None]) -> list[Any]:
    """Every case, each again after all the others, and each with what the policy doesn't ask for changed."""
    answers = [_decide(policy, case) for case in cases]
    for case, answer in zip(cases, answers, strict=True):
        check(policy, case, answer)
    for case, answer in reversed(list(zip(cases, answers, strict=True))):
        if _decide(policy, case) != answer:
            _broke(policy, case, "does not give the same answer to the same view and seed again")
    for case, answer in zip(cases, answers, strict=True):
        for hidden in sorted(Input, key=lambda i: -i.difficulty):  # the curve before the best n that follows from it
            if not _declared(policy, hidden) and _decide(policy, _without(case, hidden)) != answer:
                _broke(policy, case, f"depends on the {hidden.label}, which it does not declare as an input")
    return answers


def _decide(policy: Policy, case: _Case) -> Any:
    """One call with a new generator; the view must be as it was afterwards."""
    view = replace(case.view, rng=np.random.default_rng(1))
    before = {name: getattr(view, name).copy() for name in _ARRAYS}
    try:
        answer = policy.decide(view) if policy.kind == "allocate" else policy.decide(view, case.counts)
    except Exception as error:  # whatever it is, the author wants to know in which case
        raise PolicyError(f"{policy.name}: raises {type(error).__name__} for {case.what}: {error}") from error
    for name, values in before.items():
        if not np.array_equal(getattr(view, name), values):
            _broke(policy, case, f"changes the {name} of the view that it is only to look at")
    return answer


def _broke(policy: Policy, case: _Case, what: str) -> NoReturn:
    raise PolicyError(f"{policy.name}: {what} ({case.what})")


def _check_allocation(policy: Policy, case: _Case, answer: Any) -> None:
    if isinstance(answer, Never):
        return
    if not isinstance(answer, Allocation):
        _broke(policy, case, f"answers {answer!r}, which is neither an Allocation nor a Never")
    applications = case.view.applications
    if not _is_tuple_of_ints(answer.counts):
        _broke(policy, case, f"answers {answer.counts!r}, which is no tuple of ints")
    if len(answer.counts) != len(applications):
        _broke(policy, case, f"gives {len(answer.counts)} counts for {len(applications)} applications")
    for application, n in zip(applications, answer.counts, strict=True):
        first, last = application.curve.first, application.curve.last
        if not first <= n <= last:
            _broke(policy, case, f"gives {n} targets to an application whose curve knows {first} to {last}")
    if answer.placement is not None:
        _check_placement(policy, replace(case, counts=answer.counts), answer.placement)


def _check_placement(policy: Policy, case: _Case, answer: Any) -> None:
    if not isinstance(answer, tuple) or not all(_is_tuple_of_ints(own) for own in answer):
        _broke(policy, case, f"answers {answer!r}, which is no tuple of tuples of ints")
    if len(answer) != len(case.counts):
        _broke(policy, case, f"places {len(answer)} applications of {len(case.counts)}")
    targets = case.view.system.targets
    for own, n in zip(answer, case.counts, strict=True):
        if len(own) != n:
            _broke(policy, case, f"places an application on {len(own)} targets that was to have {n}")
        if not all(0 <= t < targets for t in own):
            _broke(policy, case, f"places an application on {own}, but targets are 0 to {targets - 1}")
        if list(own) != sorted(set(own)):
            _broke(policy, case, f"places an application on {own}, which are not different ones, ascending")


def _is_tuple_of_ints(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(n) is int for n in value)


def _declared(policy: Policy, wanted: Input) -> bool:
    return wanted in policy.inputs or (wanted is Input.N_PERF and Input.CURVE in policy.inputs)


def _without(case: _Case, hidden: Input) -> _Case:
    """The same case with another value of what the policy doesn't ask for; what it may ask a judge stays."""
    changed = tuple(_changed(a, hidden, i) for i, a in enumerate(case.view.applications))
    return replace(case, view=replace(case.view, applications=changed))


def _changed(application: Application, hidden: Input, index: int) -> Application:
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


def _other(curve: Curve, keep_best: bool) -> Curve:
    """Another curve from the same first to the same last n; with the same best n or, if there is one, another."""
    best = curve.n_perf if keep_best else curve.first if curve.n_perf == curve.last else curve.last
    return Curve.of({curve.first: 1.0, curve.last: 1.0} | {best: 2.0})


def _cases() -> Iterable[_Case]:
    rising, falling = Curve.of({1: 10.0, 2: 19.0, 4: 30.0}), Curve.of({1: 40.0, 4: 11.0})
    dips, late = Curve.of({1: 20.0, 2: 15.0, 3: 26.0, 4: 21.0}), Curve.of({2: 30.0, 3: 35.0})
    one = _application(rising)
    yield _case("one application", 4, [one])
    yield _case("one application on one target", 1, [_application(Curve.of({1: 5.0}))])
    yield _case("many applications on one target", 1, [_application(Curve.of({1: b})) for b in (5.0, 7.0, 5.0)])
    yield _case("fewer applications than targets", 8, [_application(c) for c in (rising, falling, dips)])
    yield _case("more applications than targets", 4, _varied(6, [rising, falling, dips]))
    yield _case("applications that are all equal", 4, [one] * 5)
    yield _case("curves that begin at 2 targets", 4, [_application(late), one, _application(late)])
    yield _case("curves that begin at 2 targets, and too few of those", 4, [_application(late)] * 5)
    yield _case("an application without I/O", 4, [replace(one, volume=0.0), one, _application(falling)])
    yield _case("only applications without I/O", 4, [replace(one, volume=0.0)] * 2)
    yield _case("an application without computing", 4, [replace(one, compute_seconds=0.0), one])
    yield _case("only applications without computing", 4, [replace(one, compute_seconds=0.0)] * 3)
    yield _case("an application without compute nodes", 4, [replace(one, compute_nodes=0.0), one])
    yield _case("150 applications on 40 targets", 40, _varied(150, _random_curves(30)))


def _counted(case: _Case) -> Iterable[_Case]:
    curves = [a.curve for a in case.view.applications]
    ends = cycle((True, False, False))
    yield replace(case, what=f"{case.what}, each on as few as it can", counts=tuple(c.first for c in curves))
    yield replace(case, what=f"{case.what}, each on as many as it can", counts=tuple(c.last for c in curves))
    yield replace(
        case,
        what=f"{case.what}, some on few and some on many",
        counts=tuple(c.first if few else c.last for c, few in zip(curves, ends, strict=False)),
    )


def _case(what: str, targets: int, applications: Sequence[Application]) -> _Case:
    named = tuple(replace(a, name=f"application {i}") for i, a in enumerate(applications))
    system = System(targets=targets, compute_nodes=sum(a.compute_nodes for a in named))
    view = View(system, named)
    return _Case(what, replace(view, judge=_judge(view), place=greedy_non_clairvoyant.decide))


def _application(curve: Curve) -> Application:
    return Application(name="", compute_nodes=8.0, phases=3, compute_seconds=60.0, volume=900.0, curve=curve)


def _varied(count: int, curves: Sequence[Curve]) -> list[Application]:
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
