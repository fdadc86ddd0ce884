"""What a striping policy sees, and what it answers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from forebay.model.layout import Layout, Target
from forebay.model.past_runs import Past, Peers

__all__ = ["Past", "Peers", "Phase", "StripeView", "Striping"]
Phase = Literal["initial", "rule", "heuristic"]


@dataclass(frozen=True, kw_only=True)
class StripeView:
    """A job about to start, what its application did before, and the targets there are.

    `max_count` is the largest stripe count that the file system or its administrator allows.
    `runs` are oldest first, those of which the layout is known; `known_runs` is how many there are in all.
    If there are none, `runs_elsewhere` says whether it ran on another file system.
    `shared_file` and `io_processes` describe its latest run, with as many processes if it had one (None if nothing
    tells): whether several processes share a file, and how many did I/O. That run is `pattern_run`, with
    `pattern_processes` (None: the last of `runs`). `file_size` is that of the largest files so far, in bytes: in run
    `file_size_run`, half of the bytes were in files of this size or larger ones. `request_size` is the typical request
    in bytes (0 if not known). `chance` in [0, 1) is the only randomness that a policy may use.
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
    request_size: int = 0
    chance: float = 0.0

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"processes must be 1 or more, not {self.processes}")
        if not self.usable:
            raise ValueError("there is no usable target")

    @cached_property
    def usable(self) -> tuple[Target, ...]:
        """The targets that can be chosen, ascending by index."""
        return tuple(sorted((t for t in self.targets if t.usable), key=lambda t: t.index))

    @property
    def most(self) -> int:
        """The largest stripe count possible."""
        return min(len(self.usable), self.max_count or len(self.usable))

    @property
    def telling_run(self) -> tuple[int, int] | None:
        """The run that tells how files are used, and its number of processes."""
        if self.pattern_run is not None:
            return self.pattern_run, self.pattern_processes or self.processes
        return (self.runs[-1].run, self.runs[-1].processes) if self.runs else None

    def useful(self, size: int) -> int:
        """The most stripes of `size` bytes that are possible, and that its files are large enough to fill."""
        if self.file_size is None:
            return self.most
        return min(self.most, max(1, -(-self.file_size // size)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Striping:
    """A layout for the next run, on which `targets`, which phase decided it, by which runs, and why so and there."""

    layout: Layout
    phase: Phase
    because: str
    runs: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    where: str = ""

    @property
    def reason(self) -> str:
        """All of it."""
        return f"{self.because}; {self.where}" if self.where else self.because
