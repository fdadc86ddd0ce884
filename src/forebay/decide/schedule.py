"""An allocation and a placement together: how many, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forebay.decide.policy import Policy
from forebay.decide.view import View
from forebay.model.decision import Allocation, Never, Placement
from forebay.model.errors import PolicyError


def schedule(view: View, allocate: Policy, place: Policy) -> Placement | Never:
    """Ask `allocate` how many targets each application gets, then `place` which ones; check what they answer."""
    allocation = allocate.decide(replace(view, place=place.decide, places=place.name))
    if isinstance(allocation, Never):
        return allocation
    if not isinstance(allocation, Allocation):
        raise PolicyError(f"{allocate.name}: answered {allocation!r}, neither an Allocation nor a Never")
    _check_counts(view, allocate, allocation.counts)
    if allocation.placement is not None:
        return _check_placement(view, allocate, allocation.counts, allocation.placement)
    return _check_placement(view, place, allocation.counts, place.decide(view, allocation.counts))


def _check_counts(view: View, policy: Policy, counts: Sequence[int]) -> None:
    if len(counts) != len(view.applications):
        raise PolicyError(f"{policy.name}: {len(counts)} counts for {len(view.applications)} applications")
    for application, n in zip(view.applications, counts, strict=True):
        if not application.curve.first <= n <= min(application.curve.last, view.system.targets):
            raise PolicyError(f"{policy.name}: {application.name} has no bandwidth on {n} targets")


def _check_placement(view: View, policy: Policy, counts: Sequence[int], placement: Placement) -> Placement:
    if len(placement) != len(counts):
        raise PolicyError(f"{policy.name}: placed {len(placement)} of {len(counts)} applications")
    for application, n, own in zip(view.applications, counts, placement, strict=True):
        if len(own) != n or len(set(own)) != n or not all(0 <= t < view.system.targets for t in own):
            raise PolicyError(f"{policy.name}: {application.name} needs {n} different targets, got {own}")
    return placement
