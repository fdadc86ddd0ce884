"""Every policy by name: the built-in ones first, then those that installed packages add.

A package adds policies by entry points of the group `forebay.policies`, each of which loads
to a `Policy` (see docs/writing-a-policy.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import entry_points

from forebay.decide.allocate.best_bandwidth import best_bandwidth
from forebay.decide.allocate.forebay import forebay
from forebay.decide.allocate.mckp import mckp
from forebay.decide.allocate.nsys import nsys
from forebay.decide.allocate.optimal import optimal
from forebay.decide.allocate.random import random as random_allocation
from forebay.decide.allocate.static import static
from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.order.schedulers import ORDERS
from forebay.decide.place.greedy_clairvoyant import greedy_clairvoyant
from forebay.decide.place.greedy_non_clairvoyant import greedy_non_clairvoyant
from forebay.decide.place.random import random as random_placement
from forebay.decide.policy import Kind, Policy
from forebay.decide.storage.policies import STORAGE
from forebay.decide.stripe.dca_io import dca_io
from forebay.decide.stripe.default import default
from forebay.decide.stripe.forebay import forebay as forebay_striping
from forebay.decide.stripe.tapp_io import tapp_io
from forebay.decide.tune.tuners import TUNERS
from forebay.model.errors import BadInput, UnknownName, UserError

BUILT_IN = (
    random_allocation,
    static,
    best_bandwidth,
    nsys,
    tcpu,
    mckp,
    forebay,
    optimal,
    random_placement,
    greedy_non_clairvoyant,
    greedy_clairvoyant,
    *STORAGE,
    default,
    tapp_io,
    dca_io,
    forebay_striping,
    *ORDERS,
    *TUNERS,
)

_LABELS: dict[Kind, str] = {
    "allocate": "allocation policy",
    "place": "placement policy",
    "storage": "storage policy",
    "stripe": "striping policy",
    "order": "request scheduler",
    "tune": "tuner",
}
_READ = ("order", "tune")  # kinds whose options are read by whoever uses the policy, not given to it


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
    known = policies(kind)
    if name not in known:
        raise UnknownName(_LABELS[kind], name, known)
    policy = known[name]
    return _with_options(policy, spec, settings) if settings else policy


def given_options(kind: Kind, spec: str) -> dict[str, object]:
    """The options that `spec` itself gives.

    >>> given_options("order", "twins:window=4000000")
    {'window': 4000000}
    """
    policy = find(kind, spec)
    return {name: policy.options[name] for name, _, _ in (word.partition("=") for word in spec.split(":")[1:])}


def known(where: str, kind: Kind, spec: str) -> str:
    """`spec`, if it names a policy."""
    try:
        find(kind, spec)
    except UserError as error:
        raise BadInput(where, str(error)) from None
    return spec


_TRUTH = {"true": True, "false": False}
_PARSERS: dict[type, Callable[[str], object]] = {
    bool: lambda text: _TRUTH[text.lower()],
    int: int,
    float: float,
    str: str,
}


def _with_options(policy: Policy, spec: str, settings: list[str]) -> Policy:
    options: dict[str, object] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        if key not in policy.options:
            raise UnknownName(f"option of policy {policy.name!r}", key, policy.options)
        kind = type(policy.options[key])
        try:
            options[key] = _PARSERS[kind](text)
        except (KeyError, ValueError):
            raise BadInput(f"policy {spec!r}", f"{key} must be of type {kind.__name__}, not {text!r}") from None
    decide = policy.decide if policy.kind in _READ else partial(policy.decide, **options)
    return replace(policy, name=spec, decide=decide, options={**policy.options, **options})
