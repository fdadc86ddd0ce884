"""The striping of a file over targets, and the state of those targets."""

import math
from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
GRAIN = 64 * KIB
"""Stripe sizes are multiples of this, on Lustre and BeeGFS."""
DEFAULT_SIZE = MIB
MOST_PIECE = 256 * KIB
"""The most bytes of several stripes that an I/O node sends to a server as one piece of a request."""
MOST_SIZE = (4 << 30) - GRAIN
ANY = -1
"""As the first target: the file system chooses it."""
TO_THE_END = -1
"""As the end of a component: the end of the file."""


def _check_stripes(count: int, size: int) -> None:
    if count < 1:
        raise ValueError(f"a stripe count must be 1 or more, not {count}")
    if size < GRAIN or size % GRAIN or size > MOST_SIZE:
        raise ValueError(f"a stripe size must be a multiple of 64 KiB below 4 GiB, not {size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A part of a file, from the end of the component before it to `end`, in bytes, with its own stripes.

    A count of 0 puts it on the metadata target, with the file's name and attributes.
    """

    end: int
    count: int
    size: int = DEFAULT_SIZE

    def __post_init__(self) -> None:
        _check_stripes(self.count or 1, self.size)
        if self.end != TO_THE_END and (self.end < GRAIN or self.end % GRAIN):
            raise ValueError(f"a component must end at a multiple of 64 KiB, not at {self.end}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Stripe count, stripe size in bytes, and the first target (`ANY` leaves it to the file system).

    A progressive layout has other stripes in the first parts of a file, `before` those. An empty `pool` leaves the pool
    of targets as it is.

    >>> Layout(count=8, size=4 * MIB, start=12).components
    (Component(end=-1, count=8, size=4194304),)
    """

    count: int
    size: int = DEFAULT_SIZE
    start: int = ANY
    before: tuple[Component, ...] = ()
    pool: str = ""

    def __post_init__(self) -> None:
        _check_stripes(self.count, self.size)
        if self.start < ANY:
            raise ValueError(f"a first target must be 0 or more, not {self.start}")
        ends = [component.end for component in self.before]
        if ends != sorted(set(ends)) or TO_THE_END in ends:
            raise ValueError("each component must end after the one before it, and only the last at the file's end")
        if any(not component.count for component in self.before[1:]):
            raise ValueError("only the first component can be on the metadata target")

    @property
    def components(self) -> tuple[Component, ...]:
        """All components, the last of which holds the end of the file."""
        return (*self.before, Component(end=TO_THE_END, count=self.count, size=self.size))

    @property
    def most_targets(self) -> int:
        """How many targets a file has if all its components hold data: Lustre takes others for each of them."""
        return sum(component.count for component in self.components)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The current state of an OST or storage target.

    `users` is the number of running jobs known to have files on it, `busy` the bytes per second that it last served.
    A target that is not `usable` (down, full, read-only, drained) is never chosen; `because` says why.
    """

    index: int
    free_bytes: int = 0
    users: int = 0
    busy: float = 0.0
    usable: bool = True
    because: str = ""

    def __post_init__(self) -> None:
        if self.index < 0 or self.users < 0 or self.free_bytes < 0 or not (self.busy >= 0 and math.isfinite(self.busy)):
            raise ValueError(f"target {self.index}: index, users, free_bytes and busy must be finite and not negative")
