"""Checks for allocation policies and placement policies."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from typing import Any

import numpy as np

from forebay.decide.conformance.contract import check_answers, expect_kind, fail, is_tuple_of_ints, name_errors
from forebay.decide.place import greedy_non_clairvoyant
from forebay.decide.policy import Input, Policy
from forebay.decide.view import Judge, Score, View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Allocation, Never, Placement
from forebay.model.errors import PolicyError
from forebay.model.system import System

# The curve comes before the best n that follows from it.
_INPUTS = (Input.CURVE, Input.PHASES, Input.VOLUME, Input.COMPUTE_SECONDS, Input.N_PERF, Input.COMPUTE_NODES)
_ARRAYS = [name for name, member in vars(View).items() if isinstance(member, cached_property)]


@dataclass(frozen=True, slots=True)
class Case:
    """One call: `what` describes it in messages; only placements use `counts`."""

    what: str
    view: View
    counts: tuple[int, ...] = ()


def check_allocator(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is not a valid allocation policy."""
    expect_kind(policy, "allocate")
    if all(isinstance(answer, Never) for answer in _check(policy, cases(), _check_allocation)):
        raise PolicyError(f"{policy.name}: refuses every view, even one application on one target")


def check_placer(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is not a valid placement policy."""
    expect_kind(policy, "place")
    _check(policy, (with_counts for case in cases() for with_counts in _with_counts(case)), _check_placement)


def _check(policy: Policy, cases: Iterable[Case], check: Callable[[Policy, Case, Any], None]) -> list[Any]:
    def decide(policy: Policy, case: Case) -> Any:
        """Call the policy with a new generator, and check that it leaves the view unchanged."""
        view = replace(case.view, rng=np.random.default_rng(1))
        before = {name: getattr(view, name).copy() for name in _ARRAYS}
        with name_errors(policy, f"for {case.what}"):
            answer = policy.decide(view) if policy.kind == "allocate" else policy.decide(view, case.counts)
        for name, values in before.items():
            if not np.array_equal(getattr(view, name), values):
                fail(policy, case, f"changes the {name} of the view, which is read-only")
        check(policy, case, answer)
        return answer

    answers = check_answers(
        policy, cases, decide, same="view and seed", inputs=_INPUTS, change_input=_with_another_input
    )
    return [answer for _, answer in answers]


def _check_allocation(policy: Policy, case: Case, answer: Any) -> None:
    if isinstance(answer, Never):
        return
    if not isinstance(answer, Allocation):
        fail(policy, case, f"returns {answer!r}, which is neither an Allocation nor a Never")
    applications = case.view.applications
    if not is_tuple_of_ints(answer.counts):
        fail(policy, case, f"returns {answer.counts!r}, which is not a tuple of ints")
    if len(answer.counts) != len(applications):
        fail(policy, case, f"returns {len(answer.counts)} counts for {len(applications)} applications")
    for application, n in zip(applications, answer.counts, strict=True):
        first, last = application.curve.first, application.curve.last
        if not first <= n <= last:
            fail(policy, case, f"gives {n} targets to an application whose curve is defined for {first} to {last}")
    if answer.placement is not None:
        _check_placement(policy, replace(case, counts=answer.counts), answer.placement)


def _check_placement(policy: Policy, case: Case, answer: Any) -> None:
    """Raise a `PolicyError` if `answer` is not a placement of `case.counts`."""
    if not isinstance(answer, tuple) or not all(is_tuple_of_ints(targets) for targets in answer):
        fail(policy, case, f"returns {answer!r}, which is not a tuple of tuples of ints")
    if len(answer) != len(case.counts):
        fail(policy, case, f"places {len(answer)} of {len(case.counts)} applications")
    most = case.view.system.targets
    for targets, n in zip(answer, case.counts, strict=True):
        if len(targets) != n:
            fail(policy, case, f"places an application on {len(targets)} targets instead of {n}")
        if not all(0 <= t < most for t in targets):
            fail(policy, case, f"places an application on {targets}, but targets are 0 to {most - 1}")
        if list(targets) != sorted(set(targets)):
            fail(policy, case, f"places an application on {targets}; targets must be distinct and ascending")


def _with_counts(case: Case) -> Iterable[Case]:
    curves = [a.curve for a in case.view.applications]
    few, many = tuple(c.first for c in curves), tuple(c.last for c in curves)
    mixed = tuple(many[k] if k % 3 else few[k] for k in range(len(curves)))
    yield replace(case, what=f"{case.what}, each on the fewest targets possible", counts=few)
    yield replace(case, what=f"{case.what}, each on the most targets possible", counts=many)
    yield replace(case, what=f"{case.what}, some on few and some on many", counts=mixed)


def _with_another_input(case: Case, hidden: Input) -> Case:
    """Change an input that the policy does not declare; the judge stays the same."""
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
    # Another curve over the same n. A hidden curve keeps the best n; a hidden best n changes if the curve allows it.
    curve = application.curve
    best = curve.first if curve.n_perf == curve.last else curve.last
    best = curve.n_perf if hidden is Input.CURVE else best
    return replace(application, curve=Curve.of({curve.first: 1.0, curve.last: 1.0} | {best: 2.0}))


def cases() -> Iterable[Case]:
    """Yield every view that the checks use."""
    rising, falling = Curve.of({1: 10.0, 2: 19.0, 4: 30.0}), Curve.of({1: 40.0, 4: 11.0})
    dips, late = Curve.of({1: 20.0, 2: 15.0, 3: 26.0, 4: 21.0}), Curve.of({2: 30.0, 3: 35.0})
    app = _application(rising)
    yield _case("one application", 4, [app])
    yield _case("one application on one target", 1, [_application(Curve.of({1: 5.0}))])
    yield _case("many applications on one target", 1, [_application(Curve.of({1: b})) for b in (5.0, 7.0, 5.0)])
    yield _case("fewer applications than targets", 8, [_application(c) for c in (rising, falling, dips)])
    yield _case("more applications than targets", 4, _varied_applications(6, [rising, falling, dips]))
    yield _case("applications that are all equal", 4, [app] * 5)
    yield _case("curves that begin at 2 targets", 4, [_application(late), app, _application(late)])
    yield _case("curves that begin at 2 targets, and too few targets", 4, [_application(late)] * 5)
    yield _case("an application without I/O", 4, [replace(app, volume=0.0), app, _application(falling)])
    yield _case("only applications without I/O", 4, [replace(app, volume=0.0)] * 2)
    yield _case("an application without computing", 4, [replace(app, compute_seconds=0.0), app])
    yield _case("only applications without computing", 4, [replace(app, compute_seconds=0.0)] * 3)
    yield _case("an application without compute nodes", 4, [replace(app, compute_nodes=0.0), app])
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
    """Stand in for the simulator: applications that share a target always take turns."""

    def score(placement: Placement) -> Score:
        users = np.bincount([t for targets in placement for t in targets], minlength=view.system.targets)
        slowdowns, idle = [], 0.0
        for application, targets in zip(view.applications, placement, strict=True):
            turns = max(int(users[t]) for t in targets)
            slowdowns.append(turns * max(application.curve.bandwidths) / application.curve.at(len(targets)))
            io = turns * application.io_seconds(len(targets))
            idle += application.compute_nodes * io / (application.compute_seconds + io)
        return Score(sum(slowdowns) / len(slowdowns), idle / view.system.compute_nodes)

    return Judge(3600.0, score)
