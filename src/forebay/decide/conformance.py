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
from itertools import count, cycle, islice, pairwise
from typing import Any, NoReturn

import numpy as np

from forebay.decide.place.greedy_non_clairvoyant import greedy_non_clairvoyant
from forebay.decide.policy import Input, Kind, Policy
from forebay.decide.storage.turn import REFUSED, turn
from forebay.decide.view import Judge, Score, View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Allocation, Never, Placement
from forebay.model.errors import PolicyError
from forebay.model.ledger import Ledger, book, ledger, survey
from forebay.model.system import Disk, Node, Platform, Server, System

_OF_STORAGE = (Input.BOOKED, Input.DISK_BANDWIDTH)
_OF_APPLICATIONS = [i for i in Input if i not in _OF_STORAGE]
_ARRAYS = [name for name, member in vars(View).items() if isinstance(member, cached_property)]


@dataclass(frozen=True, slots=True)
class _Case:
    """One call: `what` says in words what is special about it; `counts` are for placements only."""

    what: str
    view: View
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Space:
    """Requests (size, start, end, duration), one after the other, where (disk, start, end, size) is booked."""

    what: str
    platform: Platform
    asked: tuple[tuple[int, float, float, float], ...]
    booked: tuple[tuple[int, float, float, int], ...] = ()
    now: float = -np.inf  # nobody asks for anything before


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


def check_storage(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is no proper storage policy."""
    _expect_kind(policy, "storage")
    cases = list(_spaces())
    answers = [_choose(policy, case) for case in cases]
    for case, answer in reversed(list(zip(cases, answers, strict=True))):
        if _choose(policy, case) != answer:
            _broke(policy, case, "does not give the same answer to the same ledger, request and seed again")
        if not case.booked and REFUSED in answer and _all_fit(case):
            _broke(policy, case, "refuses a request although nothing is booked and every disk has room for it")
        for hidden in _OF_STORAGE:
            if hidden not in policy.inputs and _choose(policy, _space_without(case, hidden)) != answer:
                _broke(policy, case, f"depends on the {hidden.label}, which it does not declare as an input")


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
        # The curve comes before the best n that follows from it.
        for hidden in sorted(_OF_APPLICATIONS, key=lambda i: -i.difficulty):
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


def _choose(policy: Policy, case: _Space) -> list[int]:
    """What it answers to a case's requests, with a new ledger and turn; the ledger must tell the same afterwards."""
    space = ledger(case.platform)
    for booking in case.booked:
        book(space, *booking)
    space.horizon[0] = case.now
    state = turn(space, seed=1)
    told = _told(space, case)
    answers = []
    for ask in case.asked:
        try:
            disk = policy.decide(space, *ask, state)
        except Exception as error:  # whatever it is, the author wants to know in which case
            raise PolicyError(f"{policy.name}: raises {type(error).__name__} for {case.what}: {error}") from error
        if isinstance(disk, bool) or not isinstance(disk, int | np.integer):
            _broke(policy, case, f"answers {disk!r}, which is no int")
        if not REFUSED <= disk < space.disks.size:
            _broke(policy, case, f"answers disk {disk}; there are 0 to {space.disks.size - 1}, or {REFUSED}")
        if _told(space, case) != told:
            _broke(policy, case, "changes the ledger that it is only to look at")
        answers.append(int(disk))
    return answers


def _told(space: Ledger, case: _Space) -> list[Any]:
    """All that a policy could learn of the ledger: what it is made of, and what is booked between any two times."""
    times = sorted({time for _, start, end, _ in case.booked for time in (start, end) if time >= case.now})
    spans = [(max(case.now, -1.0), 1e9), *((start, end) for _, start, end, _ in case.asked), *pairwise(times)]
    found: list[Any] = [space.horizon.tolist(), space.nodes.tolist(), space.servers.tolist()]
    found += [space.disks[name].tolist() for name in ("capacity", "write_bandwidth", "read_bandwidth", "node")]
    taken, others = np.zeros(space.disks.size, dtype=np.int64), np.zeros(space.disks.size, dtype=np.int64)
    for start, end in spans:
        for at_most in (True, False):
            survey(space, start, end, at_most, taken, others)
            found += [taken.tolist(), others.tolist()]
    return found


def _all_fit(case: _Space) -> bool:
    """Whether every disk has room to spare for each of the requests."""
    return max(size for size, *_ in case.asked) < min(disk.capacity for disk in case.platform.disks)


def _space_without(case: _Space, hidden: Input) -> _Space:
    """The same case with other bookings, or other bandwidths."""
    if hidden is Input.BOOKED:
        disks = len(case.platform.disks)
        held = tuple((k // 2, 0.0, 5000.0, case.platform.disks[k // 2].capacity // 2) for k in range(2 * disks - 2))
        return replace(case, booked=() if case.booked else held)
    rising = count(1)
    return replace(case, platform=_with_disks(case.platform, lambda disk: _as_fast(disk, next(rising) * 1e8)))


def _with_disks(platform: Platform, change: Callable[[Disk], Disk]) -> Platform:
    return replace(
        platform,
        servers=tuple(
            replace(
                server,
                nodes=tuple(replace(node, disks=tuple(change(disk) for disk in node.disks)) for node in server.nodes),
            )
            for server in platform.servers
        ),
    )


def _as_fast(disk: Disk, bandwidth: float) -> Disk:
    return replace(disk, write_bandwidth=bandwidth, read_bandwidth=bandwidth)


def _broke(policy: Policy, case: _Case | _Space, what: str) -> NoReturn:
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
        case _:
            return application


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


def _spaces() -> Iterable[_Space]:
    few, many = [100, 7, 30, 100, 64], list(range(1, 40))
    one, alike = _storage([[[1000]]]), _storage([[[1000] * 2] * 4])
    mixed = _storage([[[1000, 200], [50]], [[700], [3000, 1], [40] * 3]])
    yield _Space("one disk", one, _asks(few))
    yield _Space("disks that are all equal", alike, _asks(few))
    yield _Space("many nodes", _storage([[[1000] * 2] * 30]), _asks(many))
    yield _Space("several servers", _storage([[[500], [500] * 2], [[500]]]), _asks(many))
    yield _Space("one disk, partly booked", one, _asks(few), _bookings(one))
    yield _Space("disks that are all equal, partly booked", alike, _asks(many), _bookings(alike))
    yield _Space("disks of all kinds", mixed, _asks(few))
    yield _Space("disks of all kinds, partly booked", mixed, _asks(many), _bookings(mixed))
    yield _Space("bookings that began before now", mixed, _asks(many), _bookings(mixed), now=300.0)
    yield _Space("requests larger than any disk", mixed, _asks([3001, 10_000]), _bookings(mixed))
    yield _Space("requests for no time at all", mixed, _asks(few, seconds=0.0), _bookings(mixed))
    yield _Space("a request for no time at all on an empty disk", one, _asks(few, seconds=0.0))
    yield _Space("starts that were put off", mixed, _asks(few, put_off=300.0), _bookings(mixed))
    full = tuple((disk, 0.0, 5000.0, what.capacity) for disk, what in enumerate(alike.disks))
    yield _Space("disks that are full", alike, _asks(few), full)
    endless = _with_disks(alike, lambda disk: _as_fast(disk, np.inf))
    yield _Space("disks without a limit of bandwidth", endless, _asks(few), _bookings(endless))


def _storage(servers: Sequence[Sequence[Sequence[int]]]) -> Platform:
    """Servers of nodes of disks of such capacities; the faster, the smaller."""
    return Platform(
        name="conformance",
        servers=tuple(
            Server(
                name=f"S-{s}",
                nodes=tuple(
                    Node(
                        name=f"node-{s}-{n}",
                        network_bandwidth=12.5e9,
                        disks=tuple(Disk(capacity=c, write_bandwidth=3e12 / c, read_bandwidth=4e12 / c) for c in own),
                    )
                    for n, own in enumerate(nodes)
                ),
            )
            for s, nodes in enumerate(servers)
        ),
    )


def _asks(sizes: Sequence[int], *, seconds: float = 600.0, put_off: float = 0.0) -> tuple[Any, ...]:
    """Requests that start every 30 seconds from 300 on; who was put off ends no later."""
    starts = [300.0 + 30.0 * k for k, _ in enumerate(sizes)]
    return tuple((size, start + put_off, start + seconds, seconds) for size, start in zip(sizes, starts, strict=True))


def _bookings(platform: Platform) -> tuple[tuple[int, float, float, int], ...]:
    """Some on every disk but the last, some of them one after the other."""
    return tuple(
        (disk, 60.0 * k, 60.0 * k + 400.0, 1 + (31 * disk + 17 * k) % 97 * what.capacity // 400)
        for disk, what in enumerate(platform.disks[:-1])
        for k in range(0, 15, 1 + disk % 4)
    )


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
