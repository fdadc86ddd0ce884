"""The answers of policies."""

from dataclasses import dataclass

from forebay.model.reasons import Reason

Placement = tuple[tuple[int, ...], ...]
"""Which targets each application gets, in the order of the applications, each ascending."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """How many targets each application gets, in the order of the applications.

    A policy that decides how many and which together also fills `placement`; no placement policy runs then.
    """

    counts: tuple[int, ...]
    placement: Placement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """Not now; ask again at `until` (seconds)."""

    until: float
    because: str
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Not possible, however long the caller waits."""

    because: str
    reason: Reason = Reason.NONE
