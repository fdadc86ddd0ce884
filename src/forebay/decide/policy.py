"""A policy: a named function, and the inputs that it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Literal

from forebay.decide.view import View
from forebay.model.decision import Allocation

Kind = Literal["allocate", "place", "storage", "stripe", "order", "tune", "schedule"]


class Input(Enum):
    """What a policy may need to know about an application, a request or a job, and how hard it is to obtain.

    Difficulties follow Bandet et al. 2024, section IV-C: 1 easy, 2 medium, 3 hard. For striping, the job script and
    the file system provide easy inputs; a history or monitoring of the targets provides medium ones.
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
    FILE_SIZES = ("file sizes", 2)

    def __init__(self, label: str, difficulty: int) -> None:
        self.label = label
        self.difficulty = difficulty


STRIPING_INPUTS = (
    Input.PROCESSES,
    Input.FREE_SPACE,
    Input.TARGETS_IN_USE,
    Input.ACCESS_PATTERN,
    Input.OWN_RUNS,
    Input.RUNS_OF_OTHERS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy. Its kind determines what `decide` takes and returns.

    | kind | `decide` |
    |---|---|
    | allocate | `(View) -> Allocation or Never` |
    | place | `(View, counts) -> Placement` |
    | stripe | `(StripeView) -> Striping` |
    | storage | `(ledger, size, start, end, duration, turn) -> disk`; `(Platform) ->` that function if it `prepares` |
    | order | a kernel `(queue, now) -> slot` |
    | tune | `(bandit, chance) -> arm` |
    | schedule | a kernel `(view, memory, starts)` |

    Users set options with `name:option=value`. Options are the function's keyword-only parameters. For the last three
    kinds, the caller reads them from `options`.
    """

    kind: Kind
    name: str
    decide: Callable[..., Any]
    inputs: frozenset[Input]
    source: str
    summary: str
    options: Mapping[str, object]
    module: str  # that defines it
    simulates: bool = False
    prepares: bool = False
    keeps_file_order: bool = False  # requests to one file at one server leave as they arrived, if not aggregated
    patient: bool = True  # order: the queue sends the oldest request once `patience` others have overtaken it;
    # schedule: every job starts at some time, whatever comes after it
    foresees: bool = False  # schedule: it reads predicted run times
    promises: bool = True  # schedule: a reserved start does not move later while no job comes

    @property
    def difficulty(self) -> tuple[int, int]:
        """The sort key from easy to hard: the hardest input, then the number of inputs."""
        return max((i.difficulty for i in self.inputs), default=0), len(self.inputs)


def make_policy(
    kind: Kind,
    name: str,
    *,
    inputs: Sequence[Input] = (),
    source: str = "",
    options: Mapping[str, object] | None = None,
    **flags: bool,
) -> Callable[[Callable[..., Any]], Policy]:
    """Return a decorator that turns a function into a policy; each kind has its own name for it below.

    >>> @allocator("one-each")
    ... def one_each(view):
    ...     "Every application gets one target."
    ...     return Allocation((1,) * len(view.applications))
    >>> one_each.summary
    'Every application gets one target.'
    """

    def decorate(function: Callable[..., Any]) -> Policy:
        settings = getattr(function, "__kwdefaults__", None) if options is None else options
        return Policy(
            kind=kind,
            name=name,
            decide=function,
            inputs=frozenset(inputs),
            source=source,
            summary=(function.__doc__ or "").strip().split("\n")[0],
            options=dict(settings or {}),
            module=function.__module__,
            **flags,
        )

    return decorate


allocator = partial(make_policy, "allocate")
placer = partial(make_policy, "place")
storage = partial(make_policy, "storage")
striping = partial(make_policy, "stripe")
order = partial(make_policy, "order", options={})
tuner = partial(make_policy, "tune", options={})
scheduler = partial(make_policy, "schedule", options={})


def clip_counts(view: View, counts: Sequence[int]) -> Allocation:
    """Return an allocation with each count moved into the range of the application's curve."""
    return Allocation(
        tuple(min(max(int(n), a.curve.first), a.curve.last) for n, a in zip(counts, view.applications, strict=True))
    )
