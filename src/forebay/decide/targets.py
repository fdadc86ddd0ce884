"""Combines an allocation policy and a placement policy."""

from dataclasses import replace

from forebay.decide.policy import Policy
from forebay.decide.view import View
from forebay.model.decision import Allocation, Never, Placement
from forebay.model.errors import PolicyError


def choose_targets(view: View, allocate: Policy, place: Policy) -> Placement | Never:
    """Ask `allocate` how many targets each application gets, then `place` which ones, and check the answers."""
    allocation = allocate.decide(replace(view, place=place.decide, places=place.name))
    if isinstance(allocation, Never):
        return allocation
    if not isinstance(allocation, Allocation):
        raise PolicyError(f"{allocate.name}: returns {allocation!r}, which is neither an Allocation nor a Never")
    counts, applications = allocation.counts, view.applications
    if len(counts) != len(applications):
        raise PolicyError(f"{allocate.name}: returns {len(counts)} counts for {len(applications)} applications")
    for application, n in zip(applications, counts, strict=True):
        if not application.curve.first <= n <= min(application.curve.last, view.system.targets):
            raise PolicyError(f"{allocate.name}: gives {application.name} {n} targets, which its curve excludes")
    decider, placement = allocate, allocation.placement
    if placement is None:
        decider, placement = place, place.decide(view, counts)
    if len(placement) != len(counts):
        raise PolicyError(f"{decider.name}: places {len(placement)} of {len(counts)} applications")
    for application, n, targets in zip(applications, counts, placement, strict=True):
        if len(targets) != n or len(set(targets)) != n or not all(0 <= t < view.system.targets for t in targets):
            raise PolicyError(f"{decider.name}: {application.name} needs {n} different targets, got {targets}")
    return placement
