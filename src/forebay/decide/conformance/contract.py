"""What the suites of all kinds share."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from forebay.decide.policy import Kind, Policy
from forebay.model.errors import PolicyError


class Special(Protocol):
    """One call: `what` says in words what is special about it."""

    @property
    def what(self) -> str: ...


def expect_kind(policy: Policy, kind: Kind) -> None:
    """Raise a `PolicyError` if `policy` is of another kind."""
    if policy.kind != kind:
        raise PolicyError(f"{policy.name}: is of kind {policy.kind!r}, not {kind!r}")


def broke(policy: Policy, case: Special, what: str) -> NoReturn:
    """Raise a `PolicyError` that names the policy, what it did, and in which case."""
    raise PolicyError(f"{policy.name}: {what} ({case.what})")


def is_tuple_of_ints(value: Any) -> bool:
    """Whether it is a tuple of Python's own ints, which everything downstream can print and store."""
    return isinstance(value, tuple) and all(type(n) is int for n in value)
