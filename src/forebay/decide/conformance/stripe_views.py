"""Jobs about to start, ordinary and awkward, that striping policies are checked with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forebay.decide.policy import Input
from forebay.decide.stripe.view import Past, Peers, StripeView
from forebay.model.layout import GRAIN, KIB, MIB, MOST_SIZE, Target

PROCESSES = 8


@dataclass(frozen=True, slots=True)
class Case:
    """One call: `what` says in words what is special about it."""

    what: str
    view: StripeView


def job(targets: int | Sequence[Target], **known: Any) -> StripeView:
    """A job of 8 processes, unless said otherwise; of targets given by number every third is in use."""
    own = _targets(targets) if isinstance(targets, int) else tuple(targets)
    return StripeView(**{"application": "app", "processes": PROCESSES, "targets": own, "chance": 0.7, **known})


def cases() -> Iterable[Case]:
    """Every view that policies are checked with."""
    yield from _strangers()
    yield from _acquaintances()
    yield from _machines()


def _strangers() -> Iterable[Case]:
    yield Case("nothing known of anybody", job(256))
    yield Case("an application that never ran", job(256, peers=_PEERS))
    yield Case("an application that never ran, on one target", job(1, peers=_PEERS))
    yield Case("a number of processes that nobody ran with", job(256, processes=11, peers=_PEERS))
    yield Case("more processes than can be", job(256, processes=10**12, peers=_PEERS))
    yield Case("others without throughput", job(16, peers=tuple(replace(p, throughput=0.0) for p in _PEERS)))


def _acquaintances() -> Iterable[Case]:
    alone = {"shared_file": False, "io_processes": PROCESSES}
    shared = {"shared_file": True, "io_processes": PROCESSES}
    one, two = _runs((1, MIB, 4e8)), _runs((1, MIB, 4e8), (8, MIB, 9e8))
    yield Case("one run with files of its own", job(256, runs=one, **alone))
    yield Case("one run with shared files", job(256, runs=one, **shared))
    yield Case("shared files and a request size", job(16, runs=one, request_size=3 * MIB, **shared))
    yield Case("one run of a few processes, now far more", job(256, processes=10**12, runs=one, **shared))
    yield Case("runs whose layouts are not known", job(256, **shared))
    yield Case("a run without processes that do I/O", job(16, runs=one, shared_file=True, io_processes=0))
    yield Case("two runs, the second faster", job(256, runs=two, peers=_PEERS, **shared))
    yield Case("two runs, the second slower", job(256, runs=_runs((8, MIB, 9e8), (1, MIB, 4e8)), **alone))
    yield Case("only partial runs", job(256, runs=tuple(replace(run, partial=True) for run in two), **shared))
    mixed = _runs((1, MIB, 4e8), (8, MIB, 9e8), (16, MIB, 8e8))
    yield Case("a partial run", job(256, runs=(mixed[0], replace(mixed[1], partial=True), mixed[2]), **alone))
    yield Case("runs without throughput", job(16, runs=_runs(*[(n, MIB, 0.0) for n in (1, 2, 4, 2)]), **shared))
    yield Case("equal runs", job(16, runs=_runs(*[(4, MIB, 5e8)] * 5), **alone))
    yield Case("runs on all targets", job(16, runs=_runs((8, MIB, 5e8), (16, MIB, 6e8)), **alone))
    yield Case("the largest stripes on all targets", job(16, runs=_runs((16, MIB, 5e8), (16, MOST_SIZE, 6e8)), **alone))
    yield Case("runs on more targets than there are now", job(4, runs=_runs((16, MIB, 5e8), (64, MIB, 6e8)), **shared))
    yield Case("runs on one target", job(1, runs=two, **shared))
    odd = _runs((3, 1_000_000, 5e8), (7, 5, 6e8), (5, 2**40, 7e8))
    yield Case("runs with stripe sizes of another file system", job(16, runs=odd, **shared))
    yield Case("many runs", job(64, runs=_runs(*[(1 << k % 6, MIB << k % 5, 1e9 + k) for k in range(300)]), **shared))


def _machines() -> Iterable[Case]:
    known: dict[str, Any] = {"runs": _runs((1, MIB, 4e8), (4, MIB, 9e8)), "shared_file": True, "io_processes": 4}
    spread = [replace(target, index=3 * target.index + 2) for target in _targets(20)]
    gaps = [replace(target, usable=target.index % 5 > 1) for target in _targets(40)]
    yield Case("indices that don't follow each other, the last first", job(spread[::-1], **known))
    yield Case("unusable targets in between", job(gaps, **known))
    yield Case("unusable targets at both ends", job([replace(t, usable=3 < t.index < 9) for t in gaps], **known))
    yield Case("no target in use", job(_without_users(gaps), **known))
    yield Case("fewer stripes allowed than targets are free", job(_without_users(_targets(40)), max_count=4, **known))
    yield Case("one stripe allowed", job(_without_users(_targets(40)), max_count=1, peers=_PEERS))
    yield Case("every target in use", job([replace(t, users=t.users + 1) for t in gaps], **known))
    yield Case("targets without free space", job([replace(t, users=2, free_bytes=0) for t in gaps], **known))
    for chance in (0.0, 1 - 2**-53):
        yield Case(f"chance of {chance}", job(gaps, chance=chance, **known))


def without(case: Case, hidden: Input) -> Case:
    """The same case with another value of what the policy doesn't ask for; what isn't known stays unknown."""
    return Case(case.what, replace(case.view, **_change_input(case.view, hidden)))


def _change_input(view: StripeView, hidden: Input) -> dict[str, Any]:
    match hidden:
        case Input.PROCESSES:
            return {"processes": 2 * view.processes + 1}
        case Input.FREE_SPACE:
            free = [target.free_bytes for target in view.targets]
            return {"targets": _each(view, [{"free_bytes": 10**12 - n} for n in free])}
        case Input.TARGETS_IN_USE:
            used = [
                {"users": 0 if t.users else 2, "busy": 0.0 if t.users else 1e9 / (t.index + 1)} for t in view.targets
            ]
            return {"targets": _each(view, used)}
        case Input.ACCESS_PATTERN if view.shared_file is not None:
            pattern = {"shared_file": not view.shared_file, "io_processes": 3}
            return {**pattern, "request_size": 2 * view.request_size + MIB}
        case Input.OWN_RUNS:
            return {"runs": tuple(_other(run, k) for k, run in enumerate(view.runs))}
        case Input.RUNS_OF_OTHERS:
            return {"peers": () if view.peers else _PEERS}
        case _:
            return {}


def _each(view: StripeView, changes: Sequence[dict[str, Any]]) -> tuple[Target, ...]:
    return tuple(replace(target, **change) for target, change in zip(view.targets, changes, strict=True))


def _other(run: Past, k: int) -> Past:
    """Another layout, throughput and volume; that it ran, and with how many processes, is no secret."""
    return replace(run, count=1 + k % 3, size=(2 + k % 4) * MIB, throughput=1e9 / (k + 1), io_bytes=10**12 * (k + 1))


def _targets(number: int) -> tuple[Target, ...]:
    """Each with other free space, every third in use."""
    return tuple(
        Target(index=k, free_bytes=10**9 * (1 + 7 * k % number), users=int(k % 3 == 1), busy=1e6 * (k % 3 == 1) * k)
        for k in range(number)
    )


def _without_users(targets: Iterable[Target]) -> list[Target]:
    return [replace(target, users=0, busy=0.0) for target in targets]


def _runs(*made: tuple[int, int, float]) -> tuple[Past, ...]:
    """Runs with such counts, sizes and throughputs, numbered as a history that knows other applications would."""
    return tuple(
        Past(run=11 + 3 * k, processes=PROCESSES, count=count, size=size, throughput=speed, io_bytes=10**9)
        for k, (count, size, speed) in enumerate(made)
    )


_PEERS = tuple(
    Peers(processes=processes, count=count, size=size, runs=runs, throughput=throughput)
    for processes, count, size, runs, throughput in (
        (1, 1, MIB, 900, 2e8),
        (1, 128, MIB, 3, 6e8),
        (8, 1, MIB, 5000, 3e8),
        (8, 4, 4 * MIB, 20, 8e8),
        (8, 4, 64 * KIB, 1, 1e7),
        (8, 1000, MOST_SIZE // GRAIN * GRAIN, 1, 9e8),
        (64, 64, 16 * MIB, 7, 5e9),
        (64, 64, 1_000_000, 1, 6e9),
    )
)
