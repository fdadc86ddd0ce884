"""What a policy is: a function with a name, and what it needs to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal

from forebay.decide.stripe.view import Striping
from forebay.decide.view import View
from forebay.model.decision import Allocation, Never, Placement

Kind = Literal["allocate", "place", "storage", "stripe", "order", "tune"]
Allocate = Callable[..., Allocation | Never]
Place = Callable[..., Placement]
Stripe = Callable[..., Striping | Never]


class Input(Enum):
    """What a policy can need to know of an application, a request or a job, and how hard that is to come by.

    Difficulties are those of Bandet et al. 2024, section IV-C: 1 easy, 2 medium, 3 hard. For striping, what the
    job script or the file system tells is easy, and what a history or a watch over the targets tells is medium.
    """

    BOOKED = ("space booked", 1)
    DISK_BANDWIDTH = ("disk bandwidths", 1)
    COMPUTE_NODES = ("compute nodes", 1)
    VOLUME = ("I/O volume", 2)
    COMPUTE_SECONDS = ("compute time", 2)
    N_PERF = ("best n", 2)
    CURVE = ("curve b(n)", 3)
    PHASES = ("phases", 3)
    PROCESSES = ("processes", 1)
    FREE_SPACE = ("free space", 1)
    TARGETS_IN_USE = ("targets in use", 2)
    ACCESS_PATTERN = ("access pattern", 2)
    OWN_RUNS = ("earlier runs", 2)
    RUNS_OF_OTHERS = ("runs of others", 2)

    def __init__(self, label: str, difficulty: int) -> None:
        self.label = label
        self.difficulty = difficulty


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy of one kind.

    `decide` is `(View) -> Allocation | Never` for kind "allocate",
    `(View, counts) -> Placement` for kind "place", `(StripeView) -> Striping` for kind "stripe" and
    `(ledger, size, start, end, duration, turn) -> disk` for kind "storage" (see decide/storage);
    one that `prepares` is `(Platform) -> such a function` instead, and so sees all fields of all disks.
    `(queue, now) -> slot` for kind "order" (see decide/order), and for kind "tune" see decide/tune.
    Keyword-only parameters of policies of the first, second and fourth kind are options that a user can set by
    `name:option=value`. Those of the last two kinds are kernels, which have no such parameters: their options are
    values that whoever uses them reads here.
    """

    kind: Kind
    name: str
    decide: Callable[..., Any]
    inputs: frozenset[Input]
    source: str
    summary: str
    options: Mapping[str, object]
    module: str  # where its code is
    simulates: bool = False
    prepares: bool = False
    keeps_file_order: bool = False  # requests to one file at one server leave as they came, if none are aggregated
    patient: bool = False  # the queue lets the oldest request go first when `patience` others have overtaken it

    @property
    def difficulty(self) -> tuple[int, int]:
        """Orders policies from easy to hard: the hardest input, then how many there are."""
        return max((i.difficulty for i in self.inputs), default=0), len(self.inputs)


def allocator(
    name: str, *, inputs: Sequence[Input] = (), source: str = "", simulates: bool = False
) -> Callable[[Allocate], Policy]:
    """Make an allocation policy of a function `(View) -> Allocation`.

    >>> @allocator("one-each")
    ... def one_each(view):
    ...     "Every application gets one target."
    ...     return Allocation((1,) * len(view.applications))
    >>> one_each.summary
    'Every application gets one target.'
    """
    return lambda function: _policy("allocate", name, function, inputs, source, simulates)


def placer(name: str, *, inputs: Sequence[Input] = (), source: str = "") -> Callable[[Place], Policy]:
    """Make a placement policy of a function `(View, counts) -> Placement`."""
    return lambda function: _policy("place", name, function, inputs, source, False)


def storage(
    name: str, *, inputs: Sequence[Input] = (), source: str = "", prepares: bool = False
) -> Callable[[Callable[..., Any]], Policy]:
    """Make a storage policy of a function `(ledger, size, start, end, duration, turn) -> disk`, a kernel or not.

    If it `prepares`, of a function that makes one such function for each platform.
    """
    return lambda function: replace(_policy("storage", name, function, inputs, source, False), prepares=prepares)


def striping(name: str, *, inputs: Sequence[Input] = (), source: str = "") -> Callable[[Stripe], Policy]:
    """Make a striping policy of a function `(StripeView) -> Striping`."""
    return lambda function: _policy("stripe", name, function, inputs, source, False)


def order(
    name: str,
    *,
    keeps_file_order: bool = False,
    patient: bool = True,
    source: str = "",
    options: Mapping[str, object] = MappingProxyType({}),
) -> Callable[[Callable[..., Any]], Policy]:
    """Make a request scheduler of a kernel `(queue, now) -> slot`; `options` are settings of the queue (decide/order).

    Without `patient`, it is the scheduler itself that lets no request wait for ever.
    """
    return lambda function: replace(
        _policy("order", name, function, (), source, False),
        options=dict(options),
        keeps_file_order=keeps_file_order,
        patient=patient,
    )


def tuner(
    name: str, *, source: str = "", options: Mapping[str, object] = MappingProxyType({})
) -> Callable[[Callable[..., Any]], Policy]:
    """Make a tuner of a function that chooses one of several values of a parameter (see decide/tune)."""
    return lambda function: replace(_policy("tune", name, function, (), source, False), options=dict(options))


def _policy(
    kind: Kind, name: str, function: Callable[..., Any], inputs: Sequence[Input], source: str, simulates: bool
) -> Policy:
    return Policy(
        kind=kind,
        name=name,
        decide=function,
        inputs=frozenset(inputs),
        source=source,
        summary=(function.__doc__ or "").strip().split("\n")[0],
        options=dict(getattr(function, "__kwdefaults__", None) or {}),
        module=function.__module__,
        simulates=simulates,
    )


def bounded(view: View, counts: Sequence[int]) -> Allocation:
    """`counts`, each moved into what the application's curve is defined for."""
    return Allocation(
        tuple(min(max(int(n), a.curve.first), a.curve.last) for n, a in zip(counts, view.applications, strict=True))
    )
