"""The striping of a file over targets, and the state of those targets."""

import math
from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
GRAIN = 64 * KIB
"""Stripe sizes are multiples of this, on Lustre and BeeGFS."""
DEFAULT_SIZE = MIB
MOST_SIZE = (4 << 30) - GRAIN
ANY = -1
"""As the first target: the file system chooses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Stripe count, stripe size in bytes, and the first target (`ANY` leaves it to the file system).

    >>> Layout(count=8, size=4 * MIB, start=12)
    Layout(count=8, size=4194304, start=12)
    """

    count: int
    size: int = DEFAULT_SIZE
    start: int = ANY

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a stripe count must be 1 or more, not {self.count}")
        if self.size < GRAIN or self.size % GRAIN or self.size > MOST_SIZE:
            raise ValueError(f"a stripe size must be a multiple of 64 KiB below 4 GiB, not {self.size}")
        if self.start < ANY:
            raise ValueError(f"a first target must be 0 or more, not {self.start}")


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
