"""Policies by name: built-in ones and those of installed packages.

A package adds policies by entry points of the group `forebay.policies`. Each one loads
a `Policy` (see docs/writing-a-policy.md).
"""

import warnings
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any

from forebay.decide.allocate.baselines import BASELINES, mckp
from forebay.decide.allocate.forebay import forebay
from forebay.decide.allocate.optimal import optimal
from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.order.schedulers import ORDERS
from forebay.decide.place import PLACEMENTS
from forebay.decide.policy import Kind, Policy
from forebay.decide.schedule.policies import SCHEDULES
from forebay.decide.storage.policies import STORAGE
from forebay.decide.stripe.dca_io import dca_io
from forebay.decide.stripe.forebay import forebay as forebay_striping
from forebay.decide.stripe.rule import default, tapp_io
from forebay.decide.tune.tuners import TUNERS
from forebay.model.errors import BadInput, UnknownName, UserError

ALLOCATIONS = (*BASELINES, tcpu, mckp, forebay, optimal)
STRIPINGS = (default, tapp_io, dca_io, forebay_striping)
BUILT_IN = (*ALLOCATIONS, *PLACEMENTS, *STORAGE, *STRIPINGS, *ORDERS, *TUNERS, *SCHEDULES)

_LABELS: dict[Kind, str] = {
    "allocate": "allocation policy",
    "place": "placement policy",
    "storage": "storage policy",
    "stripe": "striping policy",
    "order": "request scheduler",
    "tune": "tuner",
    "schedule": "scheduling policy",
}
_TRUTH = {"true": True, "false": False}


class PluginWarning(UserWarning):
    """Forebay skips a policy of a package because it cannot load it."""


@cache
def policies(kind: Kind) -> dict[str, Policy]:
    """Return all policies of one kind by name; a plug-in cannot replace a built-in one."""
    by_name = {policy.name: policy for policy in BUILT_IN if policy.kind == kind}
    for policy in _plugins():
        if policy.kind == kind:
            by_name.setdefault(policy.name, policy)
    return by_name


@cache
def _plugins() -> list[Policy]:
    """Load the policies of installed packages. A broken one causes a warning, and the others still work."""
    loaded = []
    for point in entry_points(group="forebay.policies"):
        try:
            policy = point.load()
        except Exception as error:  # code of another package can raise anything
            problem = f"cannot be loaded: {error!r}"
        else:
            if isinstance(policy, Policy):
                loaded.append(policy)
                continue
            problem = "is not a forebay Policy"
        source = f"policy {point.name!r} ({point.value}) of package {point.dist.name if point.dist else 'unknown'}"
        warnings.warn(f"{source} {problem}; it is skipped", PluginWarning, stacklevel=2)
    return loaded


def find(kind: Kind, spec: str) -> Policy:
    """Find the policy that `spec` names, and set the options that it gives.

    >>> find("allocate", "forebay:weight=0.3").name
    'forebay:weight=0.3'
    """
    name, *settings = spec.split(":")
    by_name = policies(kind)
    if name not in by_name:
        raise UnknownName(_LABELS[kind], name, by_name)
    policy = by_name[name]
    options: dict[str, Any] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        if key not in policy.options:
            raise UnknownName(f"option of policy {policy.name!r}", key, policy.options)
        type_: Any = type(policy.options[key])
        try:
            options[key] = _TRUTH[text.lower()] if type_ is bool else type_(text)
        except (KeyError, TypeError, ValueError):
            raise BadInput(f"policy {spec!r}", f"{key} must be of type {type_.__name__}, not {text!r}") from None
    if not settings:
        return policy
    decide = policy.decide if kind in ("order", "tune", "schedule") else partial(policy.decide, **options)
    return replace(policy, name=spec, decide=decide, options={**policy.options, **options})


def given_options(kind: Kind, spec: str) -> dict[str, object]:
    """Return the options that `spec` sets.

    >>> given_options("order", "twins:window=4000000")
    {'window': 4000000}
    """
    policy = find(kind, spec)
    return {name: policy.options[name] for name, _, _ in (word.partition("=") for word in spec.split(":")[1:])}


def check_policy(where: str, kind: Kind, spec: str) -> str:
    """Return `spec` if it names a policy."""
    try:
        find(kind, spec)
    except UserError as error:
        raise BadInput(where, str(error)) from None
    return spec
