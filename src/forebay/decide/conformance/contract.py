"""Helpers that the checks of all kinds of policies share."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from forebay.decide.policy import Input, Kind, Policy
from forebay.model.errors import PolicyError


class Special(Protocol):
    """One call: `what` describes it in messages."""

    @property
    def what(self) -> str: ...


C = TypeVar("C", bound=Special)
A = TypeVar("A")


def expect_kind(policy: Policy, kind: Kind) -> None:
    """Raise a `PolicyError` if `policy` is not of this kind."""
    if policy.kind != kind:
        raise PolicyError(f"{policy.name}: is of kind {policy.kind!r}, not {kind!r}")


def fail(policy: Policy, case: Special, what: str) -> NoReturn:
    """Raise a `PolicyError` that names the policy, the violation and the case."""
    raise PolicyError(f"{policy.name}: {what} ({case.what})")


@contextmanager
def name_errors(policy: Policy, what: str) -> Iterator[None]:
    """Turn any error of the policy into a one-line `PolicyError` that names the case."""
    try:
        yield
    except PolicyError:
        raise
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise PolicyError(f"{policy.name}: raises {type(error).__name__} {what}: {reason}") from error


def check_answers(
    policy: Policy,
    cases: Iterable[C],
    decide: Callable[[Policy, C], A],
    *,
    same: str,
    inputs: Iterable[Input],
    change_input: Callable[[C, Input], C],
) -> list[tuple[C, A]]:
    """Run every case, again in reverse order, and with each undeclared input changed; answers must stay the same."""
    answers = [(case, decide(policy, case)) for case in cases]
    for case, answer in reversed(answers):
        if decide(policy, case) != answer:
            fail(policy, case, f"returns different answers for the same {same}")
    for case, answer in answers:
        for hidden in inputs:
            declared = hidden in policy.inputs or (hidden is Input.N_PERF and Input.CURVE in policy.inputs)
            if not declared and decide(policy, change_input(case, hidden)) != answer:
                fail(policy, case, f"depends on the {hidden.label}; declare it in `inputs`")
    return answers


def is_int(value: Any) -> bool:
    """Whether `value` is an integer of Python or numpy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_tuple_of_ints(value: Any) -> bool:
    """Whether `value` is a tuple of Python ints; callers print and store them, so numpy integers don't count."""
    return isinstance(value, tuple) and all(type(n) is int for n in value)
