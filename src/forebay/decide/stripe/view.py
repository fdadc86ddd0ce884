"""What a striping policy sees, and what it returns."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from forebay.model.file_sizes import SizeClass
from forebay.model.layout import Layout, Target
from forebay.model.past_runs import Past, Peers

__all__ = ["PLAIN", "Features", "Gain", "Past", "Peers", "Phase", "StripeView", "Striping"]
Phase = Literal["initial", "rule", "heuristic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a file system has beside stripe count and size, and why it lacks the rest.

    `progressive` layouts have other stripes in the first part of a file. The metadata targets can hold that part if
    `mdt_free`, the bytes free on the fullest of them, is not 0. `pool` is the pool that the folder's files belong to.
    """

    progressive: bool = False
    no_progressive: str = ""
    mdt_free: int = 0
    no_mdt: str = ""
    pool: str = ""

    def without(self, because: str, *, progressive: bool = False) -> "Features":
        """Return the features without data on metadata targets, and unless `progressive`, without components at all."""
        if progressive:
            return replace(self, mdt_free=0, no_mdt=because)
        return Features(no_progressive=because, no_mdt=because, pool=self.pool)


PLAIN = Features()
"""No more than stripe count and size."""


@dataclass(frozen=True, kw_only=True)
class StripeView:
    """A job about to start, earlier runs of its application, and the targets.

    `max_count` is the largest stripe count that the file system or its administrator allows.
    `runs` are the runs with a known layout, oldest first; `known_runs` counts all runs on this file system.
    If there are none, `runs_elsewhere` says whether the application ran on another file system.
    `shared_file` (whether several processes share a file) and `io_processes` (how many did I/O) describe its latest
    run, if possible with the same process count; None if unknown. That run is `pattern_run`, with `pattern_processes`
    (None: the last of `runs`). `file_size` describes the largest files so far: in run `file_size_run`, half of the
    bytes were in files of at least this size. `file_sizes` are the numbers of files of each size in run `size_run`;
    empty if unknown. `request_size` is the typical request in bytes (0 if unknown). `features` are the
    file system's. `chance` in [0, 1) is the only randomness that a policy may use.
    """

    application: str
    processes: int
    targets: tuple[Target, ...]
    max_count: int | None = None
    runs: tuple[Past, ...] = ()
    known_runs: int = 0
    runs_elsewhere: bool = False
    peers: tuple[Peers, ...] = ()
    shared_file: bool | None = None
    io_processes: int | None = None
    pattern_run: int | None = None
    pattern_processes: int | None = None
    file_size: int | None = None
    file_size_run: int | None = None
    file_sizes: tuple[SizeClass, ...] = ()
    size_run: int | None = None
    request_size: int = 0
    features: Features = PLAIN
    chance: float = 0.0

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"processes must be 1 or more, not {self.processes}")
        if not self.usable:
            raise ValueError("no target is usable")

    @cached_property
    def usable(self) -> tuple[Target, ...]:
        """The usable targets, ascending by index."""
        return tuple(sorted((t for t in self.targets if t.usable), key=lambda t: t.index))

    @property
    def most(self) -> int:
        """The largest possible stripe count."""
        return min(len(self.usable), self.max_count or len(self.usable))

    @property
    def telling_run(self) -> tuple[int, int] | None:
        """The run that shows the access pattern, and its number of processes."""
        if self.pattern_run is not None:
            return self.pattern_run, self.pattern_processes or self.processes
        return (self.runs[-1].run, self.runs[-1].processes) if self.runs else None

    def useful(self, size: int) -> int:
        """Return the most stripes of `size` bytes that are possible and that the files can fill."""
        if self.file_size is None:
            return self.most
        return min(self.most, max(1, -(-self.file_size // size)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How many times as fast the run's I/O is predicted to be as with the best layout of one component.

    It is between `low` and `high` if the model's costs of files and objects are wrong by a factor of two.
    """

    factor: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Striping:
    """A layout for the next run, its `targets`, the phase and the `runs` behind it, and why this layout and place.

    `gain` is that of the components of a progressive layout.
    """

    layout: Layout
    phase: Phase
    because: str
    runs: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    where: str = ""
    gain: Gain | None = None

    @property
    def reason(self) -> str:
        """The reasons for the layout and for the targets."""
        return f"{self.because}; {self.where}" if self.where else self.because
