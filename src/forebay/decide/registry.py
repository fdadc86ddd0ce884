"""Every policy by name: the built-in ones first, then those that installed packages add.

A package adds policies by entry points of the group `forebay.policies`, each of which loads
to a `Policy` (see docs/writing-a-policy.md).
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
from forebay.decide.storage.policies import STORAGE
from forebay.decide.stripe.dca_io import dca_io
from forebay.decide.stripe.forebay import forebay as forebay_striping
from forebay.decide.stripe.rule import default, tapp_io
from forebay.decide.tune.tuners import TUNERS
from forebay.model.errors import BadInput, UnknownName, UserError

ALLOCATIONS = (*BASELINES, tcpu, mckp, forebay, optimal)
STRIPINGS = (default, tapp_io, dca_io, forebay_striping)
BUILT_IN = (*ALLOCATIONS, *PLACEMENTS, *STORAGE, *STRIPINGS, *ORDERS, *TUNERS)

_LABELS: dict[Kind, str] = {
    "allocate": "allocation policy",
    "place": "placement policy",
    "storage": "storage policy",
    "stripe": "striping policy",
    "order": "request scheduler",
    "tune": "tuner",
}
_TRUTH = {"true": True, "false": False}


class PluginWarning(UserWarning):
    """A package's policy was skipped, as it can't be loaded."""


@cache
def policies(kind: Kind) -> dict[str, Policy]:
    """All policies of one kind by name; a plug-in can't replace a built-in one."""
    by_name = {policy.name: policy for policy in BUILT_IN if policy.kind == kind}
    for policy in _plugins():
        if policy.kind == kind:
            by_name.setdefault(policy.name, policy)
    return by_name


@cache
def _plugins() -> list[Policy]:
    """The policies of installed packages. One that is broken is reported and skipped: the others must still work."""
    loaded = []
    for point in entry_points(group="forebay.policies"):
        try:
            policy = point.load()
        except Exception as error:  # somebody else's code: anything can go wrong
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
    """The policy of that name, with options where `spec` gives them.

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
    decide = policy.decide if kind in ("order", "tune") else partial(policy.decide, **options)
    return replace(policy, name=spec, decide=decide, options={**policy.options, **options})


def given_options(kind: Kind, spec: str) -> dict[str, object]:
    """The options that `spec` itself gives.

    >>> given_options("order", "twins:window=4000000")
    {'window': 4000000}
    """
    policy = find(kind, spec)
    return {name: policy.options[name] for name, _, _ in (word.partition("=") for word in spec.split(":")[1:])}


def check_policy(where: str, kind: Kind, spec: str) -> str:
    """`spec`, if it names a policy."""
    try:
        find(kind, spec)
    except UserError as error:
        raise BadInput(where, str(error)) from None
    return spec
