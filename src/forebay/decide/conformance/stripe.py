"""Checks for striping policies."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log2
from typing import Any, get_args

from forebay.decide.conformance.contract import check_answers, expect_kind, fail, is_tuple_of_ints, name_errors
from forebay.decide.policy import STRIPING_INPUTS, Input, Policy
from forebay.decide.stripe.view import PLAIN, Features, Past, Peers, Phase, StripeView, Striping
from forebay.model.file_sizes import SizeClass
from forebay.model.layout import ANY, GRAIN, KIB, MIB, MOST_SIZE, Layout, Target

PROCESSES = 8
_RUNS = 40


@dataclass(frozen=True, slots=True)
class Case:
    """One call: `what` describes it in messages."""

    what: str
    view: StripeView


def check_striping(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is not a valid striping policy."""
    expect_kind(policy, "stripe")
    check_answers(
        policy,
        cases(),
        _decide,
        same="view",
        inputs=(*STRIPING_INPUTS, Input.FILE_SIZES),
        change_input=_with_another_input,
    )
    for shared, what in ((False, "a file per process"), (True, "shared files")):
        _run_on(policy, Case(what, _job(16, shared_file=shared, io_processes=PROCESSES)))


def _decide(policy: Policy, case: Case) -> Striping:
    """Call the policy, and check its answer and that it leaves the view unchanged."""
    view = replace(case.view)
    with name_errors(policy, f"for {case.what}"):
        answer = policy.decide(view)
    if not isinstance(answer, Striping):
        fail(policy, case, f"returns {answer!r}, which is not a Striping, although some targets are usable")
    if view != case.view:
        fail(policy, case, "changes the view, which is read-only")
    _check_layout(policy, case, answer)
    _check_reason(policy, case, answer)
    return answer


def _check_layout(policy: Policy, case: Case, answer: Striping) -> None:
    layout = answer.layout
    usable = [target.index for target in case.view.usable]
    if not isinstance(layout, Layout) or not is_tuple_of_ints((layout.count, layout.size, layout.start)):
        fail(policy, case, f"returns {layout!r}, which is not a Layout of ints")
    if layout.most_targets > case.view.most:
        fail(policy, case, f"returns {layout.most_targets} stripes; at most {case.view.most} are possible")
    _check_components(policy, case, answer)
    start, count = layout.start, layout.count
    if start != ANY and start not in usable:
        fail(policy, case, f"starts at target {start}, which is not usable")
    if start == ANY:
        known = usable if count == len(usable) else []
        if answer.targets and answer.targets != tuple(known):
            fail(policy, case, f"names targets {answer.targets}, but its layout leaves the choice to the file system")
        return
    first = usable.index(start)
    expected = tuple((usable[first:] + usable[:first])[:count])
    if answer.targets != expected or not is_tuple_of_ints(answer.targets):
        what = f"names targets {_short(answer.targets)}"
        fail(policy, case, f"{what}, but {count} stripes from target {start} on lie on {_short(expected)}")


def _check_components(policy: Policy, case: Case, answer: Striping) -> None:
    layout, features = answer.layout, case.view.features
    if layout.pool not in ("", features.pool):
        fail(policy, case, f"returns pool {layout.pool}, which nobody named")
    if not layout.before:
        return
    if not features.progressive:
        fail(policy, case, "returns components, which this file system does not have")
    if not features.mdt_free and not layout.before[0].count:
        fail(policy, case, "returns a part on a metadata target, which has no room")
    if layout.start != ANY:
        fail(policy, case, f"returns components from target {layout.start} on, which could not be undone")


def _check_reason(policy: Policy, case: Case, answer: Striping) -> None:
    if answer.phase not in get_args(Phase):
        fail(policy, case, f"returns phase {answer.phase!r}; expected one of {', '.join(get_args(Phase))}")
    because = answer.because
    if not isinstance(because, str) or because.strip() != because or len(because.splitlines()) != 1:
        fail(policy, case, f"returns reason {because!r}, which is not one line of text")
    known = {run.run for run in case.view.runs}
    if not is_tuple_of_ints(answer.runs) or not known.issuperset(answer.runs):
        fail(policy, case, f"refers to runs {_short(answer.runs)}, which are not in the view")


def _short(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else f"{text[:50]}...{text[-7:]}"


def _run_on(policy: Policy, case: Case) -> None:
    """Run an application repeatedly, without noise, where 4 stripes of 4 MiB are best."""
    runs: list[Past] = []
    for number in range(1, _RUNS + 1):
        view = case.view if runs else replace(case.view, shared_file=None, io_processes=None)
        view = replace(view, runs=tuple(runs), chance=number / (_RUNS + 1))
        layout = _decide(policy, Case(f"run {number} of an application with {case.what}", view)).layout
        off_count, off_size = log2(layout.count / 4), log2(layout.size / (4 * MIB))
        throughput = 1e9 * (1 - off_count**2 / 64 - off_size**2 / 256)  # concave in both logarithms
        runs.append(Past(run=number, processes=PROCESSES, count=layout.count, size=layout.size, throughput=throughput))


def _job(targets: int | Sequence[Target], **known: Any) -> StripeView:
    """Return a job of 8 processes, unless `known` says otherwise. If `targets` is a number, every third is in use."""
    all_targets = _targets(targets) if isinstance(targets, int) else tuple(targets)
    return StripeView(**{"application": "app", "processes": PROCESSES, "targets": all_targets, "chance": 0.7, **known})


def cases() -> Iterable[Case]:
    """Yield every view that the checks use."""
    return chain(_new_applications(), _known_applications(), _file_sizes(), _machines())


def _new_applications() -> Iterable[Case]:
    yield Case("an empty history", _job(256))
    yield Case("an application that never ran", _job(256, peers=_PEERS))
    yield Case("an application that never ran, on one target", _job(1, peers=_PEERS))
    yield Case("a number of processes that no application ran with", _job(256, processes=11, peers=_PEERS))
    yield Case("10**12 processes", _job(256, processes=10**12, peers=_PEERS))
    yield Case("peers without throughput", _job(16, peers=tuple(replace(p, throughput=0.0) for p in _PEERS)))


def _known_applications() -> Iterable[Case]:
    alone = {"shared_file": False, "io_processes": PROCESSES}
    shared = {"shared_file": True, "io_processes": PROCESSES}
    once, twice = _runs((1, MIB, 4e8)), _runs((1, MIB, 4e8), (8, MIB, 9e8))
    yield Case("one run with a file per process", _job(256, runs=once, **alone))
    yield Case("one run with shared files", _job(256, runs=once, **shared))
    yield Case("shared files and a request size", _job(16, runs=once, request_size=3 * MIB, **shared))
    yield Case("one run, now with far more processes", _job(256, processes=10**12, runs=once, **shared))
    yield Case("runs with unknown layouts", _job(256, **shared))
    yield Case("a run in which no process did I/O", _job(16, runs=once, shared_file=True, io_processes=0))
    yield Case("two runs, the second faster", _job(256, runs=twice, peers=_PEERS, **shared))
    yield Case("two runs, the second slower", _job(256, runs=_runs((8, MIB, 9e8), (1, MIB, 4e8)), **alone))
    yield Case("only partial runs", _job(256, runs=tuple(replace(run, partial=True) for run in twice), **shared))
    mixed = _runs((1, MIB, 4e8), (8, MIB, 9e8), (16, MIB, 8e8))
    yield Case("a partial run", _job(256, runs=(mixed[0], replace(mixed[1], partial=True), mixed[2]), **alone))
    yield Case("runs without throughput", _job(16, runs=_runs(*[(n, MIB, 0.0) for n in (1, 2, 4, 2)]), **shared))
    yield Case("equal runs", _job(16, runs=_runs(*[(4, MIB, 5e8)] * 5), **alone))
    yield Case("runs on all targets", _job(16, runs=_runs((8, MIB, 5e8), (16, MIB, 6e8)), **alone))
    yield Case(
        "the largest stripes on all targets", _job(16, runs=_runs((16, MIB, 5e8), (16, MOST_SIZE, 6e8)), **alone)
    )
    yield Case("runs on more targets than exist now", _job(4, runs=_runs((16, MIB, 5e8), (64, MIB, 6e8)), **shared))
    yield Case("runs on one target", _job(1, runs=twice, **shared))
    odd = _runs((3, 1_000_000, 5e8), (7, 5, 6e8), (5, 2**40, 7e8))
    yield Case("runs with stripe sizes of another file system", _job(16, runs=odd, **shared))
    yield Case("many runs", _job(64, runs=_runs(*[(1 << k % 6, MIB << k % 5, 1e9 + k) for k in range(300)]), **shared))


def _file_sizes() -> Iterable[Case]:
    """Files of different sizes, on file systems with different features."""
    runs = _runs((4, MIB, 9e8), (8, MIB, 1e9))
    sizes = (
        SizeClass(below=16 * KIB, shared=False, files=20_000, bytes=20_000 * 10 * KIB),
        SizeClass(below=8 * MIB, shared=False, files=100, bytes=100 * 5 * MIB),
        SizeClass(below=1 << 40, shared=True, files=2, bytes=3 << 39),
    )
    known: dict[str, Any] = {"runs": runs, "shared_file": True, "io_processes": 8, "size_run": runs[-1].run}
    features = {
        "no components": Features(no_progressive="it is old", no_mdt="it is old"),
        "components": Features(progressive=True, no_mdt="it is old"),
        "data on MDTs": Features(progressive=True, mdt_free=1 << 40, pool="flash"),
        "full MDTs": Features(progressive=True, mdt_free=1 << 20),
    }
    for what, which in features.items():
        for number in (1, 2, 3, 16):
            about = f"files of different sizes, {number} targets, {what}"
            yield Case(about, _job(number, file_sizes=sizes, features=which, **known))
        yield Case(f"small files, {what}", _job(16, file_sizes=sizes[:1], file_size=10 * KIB, features=which, **known))
        yield Case(f"large files, {what}", _job(_without_users(_targets(16)), file_sizes=sizes[2:], features=which))


def _machines() -> Iterable[Case]:
    known: dict[str, Any] = {"runs": _runs((1, MIB, 4e8), (4, MIB, 9e8)), "shared_file": True, "io_processes": 4}
    spread = [replace(target, index=3 * target.index + 2) for target in _targets(20)]
    gaps = [replace(target, usable=target.index % 5 > 1) for target in _targets(40)]
    yield Case("indices with gaps, in descending order", _job(spread[::-1], **known))
    yield Case("unusable targets between others", _job(gaps, **known))
    yield Case("unusable targets at both ends", _job([replace(t, usable=3 < t.index < 9) for t in gaps], **known))
    yield Case("no target in use", _job(_without_users(gaps), **known))
    yield Case("fewer stripes allowed than free targets", _job(_without_users(_targets(40)), max_count=4, **known))
    yield Case("one stripe allowed", _job(_without_users(_targets(40)), max_count=1, peers=_PEERS))
    yield Case("every target in use", _job([replace(t, users=t.users + 1) for t in gaps], **known))
    yield Case("targets without free space", _job([replace(t, users=2, free_bytes=0) for t in gaps], **known))
    for chance in (0.0, 1 - 2**-53):
        yield Case(f"chance of {chance}", _job(gaps, chance=chance, **known))


def _with_another_input(case: Case, hidden: Input) -> Case:
    """Change an input that the policy does not declare; unknown values stay unknown."""
    view = case.view
    match hidden:
        case Input.PROCESSES:
            changed: dict[str, Any] = {"processes": 2 * view.processes + 1}
        case Input.FREE_SPACE:
            changed = {"targets": tuple(replace(t, free_bytes=10**12 - t.free_bytes) for t in view.targets)}
        case Input.TARGETS_IN_USE:
            changed = {
                "targets": tuple(
                    replace(t, users=0 if t.users else 2, busy=0.0 if t.users else 1e9 / (t.index + 1))
                    for t in view.targets
                )
            }
        case Input.ACCESS_PATTERN if view.shared_file is not None:
            request = 2 * view.request_size + MIB
            changed = {"shared_file": not view.shared_file, "io_processes": 3, "request_size": request}
        case Input.OWN_RUNS:  # how often it ran, and with how many processes, stays visible
            changed = {"runs": tuple(_change_run(run, k) for k, run in enumerate(view.runs))}
        case Input.FILE_SIZES:
            changed = {"file_sizes": view.file_sizes[1:], "features": PLAIN}
        case Input.RUNS_OF_OTHERS:
            changed = {"peers": () if view.peers else _PEERS}
        case _:
            changed = {}
    return Case(case.what, replace(view, **changed))


def _change_run(run: Past, k: int) -> Past:
    return replace(run, count=1 + k % 3, size=(2 + k % 4) * MIB, throughput=1e9 / (k + 1), io_bytes=10**12 * (k + 1))


def _targets(number: int) -> tuple[Target, ...]:
    """Return targets with different free space; every third is in use."""
    return tuple(
        Target(index=k, free_bytes=10**9 * (1 + 7 * k % number), users=int(k % 3 == 1), busy=1e6 * (k % 3 == 1) * k)
        for k in range(number)
    )


def _without_users(targets: Iterable[Target]) -> list[Target]:
    return [replace(target, users=0, busy=0.0) for target in targets]


def _runs(*layouts: tuple[int, int, float]) -> tuple[Past, ...]:
    """Return runs with these counts, sizes and throughputs; numbers have gaps, as in a history of many applications."""
    return tuple(
        Past(run=11 + 3 * k, processes=PROCESSES, count=count, size=size, throughput=speed, io_bytes=10**9)
        for k, (count, size, speed) in enumerate(layouts)
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
