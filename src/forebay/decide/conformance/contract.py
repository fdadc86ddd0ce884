"""What the suites of all kinds share."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from forebay.decide.policy import Input, Kind, Policy
from forebay.model.errors import PolicyError


class Special(Protocol):
    """One call: `what` says in words what is special about it."""

    @property
    def what(self) -> str: ...


C = TypeVar("C", bound=Special)
A = TypeVar("A")


def expect_kind(policy: Policy, kind: Kind) -> None:
    """Raise a `PolicyError` if `policy` is of another kind."""
    if policy.kind != kind:
        raise PolicyError(f"{policy.name}: is of kind {policy.kind!r}, not {kind!r}")


def broke(policy: Policy, case: Special, what: str) -> NoReturn:
    """Raise a `PolicyError` that names the policy, what it did, and in which case."""
    raise PolicyError(f"{policy.name}: {what} ({case.what})")


@contextmanager
def name_errors(policy: Policy, what: str) -> Iterator[None]:
    """Let whatever the policy raises, say in which case, on one line."""
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
    """Every case, each again after all the others, and each with what the policy doesn't ask for changed."""
    answers = [(case, decide(policy, case)) for case in cases]
    for case, answer in reversed(answers):
        if decide(policy, case) != answer:
            broke(policy, case, f"does not give the same answer to the same {same} again")
    for case, answer in answers:
        for hidden in inputs:
            declared = hidden in policy.inputs or (hidden is Input.N_PERF and Input.CURVE in policy.inputs)
            if not declared and decide(policy, change_input(case, hidden)) != answer:
                broke(policy, case, f"depends on the {hidden.label}, which it does not declare as an input")
    return answers


def is_int(value: Any) -> bool:
    """Whether it is a whole number, of Python's or of numpy's."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_tuple_of_ints(value: Any) -> bool:
    """Whether it is a tuple of Python's own ints, which everything downstream can print and store."""
    return isinstance(value, tuple) and all(type(n) is int for n in value)
