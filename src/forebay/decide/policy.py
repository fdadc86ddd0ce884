"""What a policy is: a function with a name, and what it needs to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from forebay.decide.view import View
from forebay.model.decision import Allocation, Never, Placement

Kind = Literal["allocate", "place"]
Allocate = Callable[..., Allocation | Never]
Place = Callable[..., Placement]


class Input(Enum):
    """What a policy can need to know of an application, and how hard that is to come by.

    Difficulties are those of Bandet et al. 2024, section IV-C: 1 easy, 2 medium, 3 hard.
    """

    COMPUTE_NODES = ("compute nodes", 1)
    VOLUME = ("I/O volume", 2)
    COMPUTE_SECONDS = ("compute time", 2)
    N_PERF = ("best n", 2)
    CURVE = ("curve b(n)", 3)
    PHASES = ("phases", 3)

    def __init__(self, label: str, difficulty: int) -> None:
        self.label = label
        self.difficulty = difficulty


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy of one kind.

    `decide` is `(View) -> Allocation | Never` for kind "allocate" and
    `(View, counts) -> Placement` for kind "place"; its keyword-only parameters are options
    that a user can set by `name:option=value`.
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
        options=dict(function.__kwdefaults__ or {}),
        module=function.__module__,
        simulates=simulates,
    )


def bounded(view: View, counts: Sequence[int]) -> Allocation:
    """`counts`, each moved into what the application's curve is defined for."""
    return Allocation(
        tuple(min(max(int(n), a.curve.first), a.curve.last) for n, a in zip(counts, view.applications, strict=True))
    )
