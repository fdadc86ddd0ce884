"""What every allocation policy must do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forebay.decide.conformance.contract import broke, expect_kind, is_tuple_of_ints
from forebay.decide.conformance.place import check_placement
from forebay.decide.conformance.views import Case, cases, check
from forebay.decide.policy import Policy
from forebay.model.decision import Allocation, Never
from forebay.model.errors import PolicyError


def check_allocator(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is no proper allocation policy."""
    expect_kind(policy, "allocate")
    answers = check(policy, list(cases()), _check_allocation)
    if all(isinstance(answer, Never) for answer in answers):
        raise PolicyError(f"{policy.name}: refuses whatever it is asked, even one application on one target")


def _check_allocation(policy: Policy, case: Case, answer: Any) -> None:
    if isinstance(answer, Never):
        return
    if not isinstance(answer, Allocation):
        broke(policy, case, f"answers {answer!r}, which is neither an Allocation nor a Never")
    applications = case.view.applications
    if not is_tuple_of_ints(answer.counts):
        broke(policy, case, f"answers {answer.counts!r}, which is no tuple of ints")
    if len(answer.counts) != len(applications):
        broke(policy, case, f"gives {len(answer.counts)} counts for {len(applications)} applications")
    for application, n in zip(applications, answer.counts, strict=True):
        first, last = application.curve.first, application.curve.last
        if not first <= n <= last:
            broke(policy, case, f"gives {n} targets to an application whose curve knows {first} to {last}")
    if answer.placement is not None:
        check_placement(policy, replace(case, counts=answer.counts), answer.placement)
