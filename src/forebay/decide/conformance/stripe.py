"""What every striping policy must do."""

from __future__ import annotations

from dataclasses import replace
from math import log2
from typing import Any, get_args

from forebay.decide.conformance.contract import broke, expect_kind, is_tuple_of_ints
from forebay.decide.conformance.stripe_views import PROCESSES, Case, cases, job, without
from forebay.decide.policy import Input, Policy
from forebay.decide.stripe.view import Past, Phase, Striping
from forebay.model.errors import PolicyError
from forebay.model.layout import ANY, MIB, Layout

_INPUTS = (
    Input.PROCESSES,
    Input.FREE_SPACE,
    Input.TARGETS_IN_USE,
    Input.ACCESS_PATTERN,
    Input.OWN_RUNS,
    Input.RUNS_OF_OTHERS,
)
_RUNS = 40


def check_striping(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is no proper striping policy."""
    expect_kind(policy, "stripe")
    views = list(cases())
    answers = [_decide(policy, case) for case in views]
    for case, answer in reversed(list(zip(views, answers, strict=True))):
        if _decide(policy, case) != answer:
            broke(policy, case, "does not give the same answer to the same view again")
        for hidden in _INPUTS:
            if hidden not in policy.inputs and _decide(policy, without(case, hidden)) != answer:
                broke(policy, case, f"depends on the {hidden.label}, which it does not declare as an input")
    for shared, what in ((False, "files of its own"), (True, "shared files")):
        _run_on(policy, Case(what, job(16, shared_file=shared, io_processes=PROCESSES)))


def _decide(policy: Policy, case: Case) -> Striping:
    """One call and its answer, which has to be one; the view must be as it was afterwards."""
    shown = replace(case.view)
    try:
        answer = policy.decide(shown)
    except Exception as error:  # whatever it is, the author wants to know in which case
        raise PolicyError(f"{policy.name}: raises {type(error).__name__} for {case.what}: {error}") from error
    if not isinstance(answer, Striping):
        broke(policy, case, f"answers {answer!r}, which is no Striping, although there are usable targets")
    if shown != case.view:
        broke(policy, case, "changes the view that it is only to look at")
    _check_layout(policy, case, answer.layout)
    _check_targets(policy, case, answer)
    _check_reason(policy, case, answer)
    return answer


def _check_layout(policy: Policy, case: Case, layout: Layout) -> None:
    if not isinstance(layout, Layout) or not is_tuple_of_ints((layout.count, layout.size, layout.start)):
        broke(policy, case, f"answers {layout!r}, which is no Layout of ints")
    if layout.count > case.view.most:
        broke(policy, case, f"gives {layout.count} stripes where there are {case.view.most} usable targets")
    if layout.start != ANY and layout.start not in {target.index for target in case.view.usable}:
        broke(policy, case, f"starts at target {layout.start}, which is not usable")


def _check_targets(policy: Policy, case: Case, answer: Striping) -> None:
    usable = [target.index for target in case.view.usable]
    start, count = answer.layout.start, answer.layout.count
    if start == ANY:
        known = usable if count == len(usable) else []
        if answer.targets and answer.targets != tuple(known):
            broke(policy, case, f"says the files will lie on {answer.targets}, but leaves that to the file system")
        return
    first = usable.index(start)
    expected = tuple((usable[first:] + usable[:first])[:count])
    if answer.targets != expected or not is_tuple_of_ints(answer.targets):
        what = f"says the files will lie on {_short(answer.targets)}"
        broke(policy, case, f"{what}, but {count} from {start} on are {_short(expected)}")


def _check_reason(policy: Policy, case: Case, answer: Striping) -> None:
    if answer.phase not in get_args(Phase):
        broke(policy, case, f"names a phase {answer.phase!r}; there are {', '.join(get_args(Phase))}")
    because = answer.because
    if not isinstance(because, str) or because.strip() != because or len(because.splitlines()) != 1:
        broke(policy, case, f"gives the reason {because!r}, which is not one line of text")
    known = {run.run for run in case.view.runs}
    if not is_tuple_of_ints(answer.runs) or not known.issuperset(answer.runs):
        broke(policy, case, f"rests on runs {_short(answer.runs)}, which are not those it was shown")


def _short(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else f"{text[:50]}...{text[-7:]}"


def _run_on(policy: Policy, case: Case) -> None:
    """One run after the other on a machine where 4 stripes of 4 MiB are best and nothing varies."""
    runs: list[Past] = []
    for number in range(1, _RUNS + 1):
        seen = case.view if runs else replace(case.view, shared_file=None, io_processes=None)
        now = replace(seen, runs=tuple(runs), chance=number / (_RUNS + 1))
        layout = _decide(policy, Case(f"run {number} of an application with {case.what}", now)).layout
        runs.append(_past(number, layout))


def _past(number: int, layout: Layout) -> Past:
    """A run with this layout; its throughput is concave in the logarithms of count and size."""
    off_count, off_size = log2(layout.count / 4), log2(layout.size / (4 * MIB))
    throughput = 1e9 * (1 - off_count**2 / 64 - off_size**2 / 256)
    return Past(run=number, processes=PROCESSES, count=layout.count, size=layout.size, throughput=throughput)
