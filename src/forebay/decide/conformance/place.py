"""What every placement policy must do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle
from typing import Any

from forebay.decide.conformance.contract import broke, expect_kind, is_tuple_of_ints
from forebay.decide.conformance.views import Case, cases, check
from forebay.decide.policy import Policy


def check_placer(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is no proper placement policy."""
    expect_kind(policy, "place")
    check(policy, [with_counts for case in cases() for with_counts in _view_with_counts(case)], check_placement)


def _view_with_counts(case: Case) -> Iterable[Case]:
    curves = [a.curve for a in case.view.applications]
    ends = cycle((True, False, False))
    yield replace(case, what=f"{case.what}, each on as few as it can", counts=tuple(c.first for c in curves))
    yield replace(case, what=f"{case.what}, each on as many as it can", counts=tuple(c.last for c in curves))
    yield replace(
        case,
        what=f"{case.what}, some on few and some on many",
        counts=tuple(c.first if few else c.last for c, few in zip(curves, ends, strict=False)),
    )


def check_placement(policy: Policy, case: Case, answer: Any) -> None:
    """Raise a `PolicyError` if `answer` is no placement of `case.counts`."""
    if not isinstance(answer, tuple) or not all(is_tuple_of_ints(own) for own in answer):
        broke(policy, case, f"answers {answer!r}, which is no tuple of tuples of ints")
    if len(answer) != len(case.counts):
        broke(policy, case, f"places {len(answer)} applications of {len(case.counts)}")
    targets = case.view.system.targets
    for own, n in zip(answer, case.counts, strict=True):
        if len(own) != n:
            broke(policy, case, f"places an application on {len(own)} targets that was to have {n}")
        if not all(0 <= t < targets for t in own):
            broke(policy, case, f"places an application on {own}, but targets are 0 to {targets - 1}")
        if list(own) != sorted(set(own)):
            broke(policy, case, f"places an application on {own}, which are not different ones, ascending")
