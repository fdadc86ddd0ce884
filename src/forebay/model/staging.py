"""Staging: the copies between a grant's space and paths outside it, which its storage nodes make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from forebay.model.errors import BadInput
from forebay.model.units import format_size, plural

Way = str
"""Into the space ("in") or out of it ("out")."""
Pairs = tuple[tuple[str, str], ...]
WAYS: tuple[Way, ...] = ("in", "out")
MOST_PAIRS = 1000
LIMIT = 600.0
"""Seconds after which a staging fails if nothing has moved."""
_LONGEST_PATH = 4096
_LONGEST_LIMIT = 86_400.0


class StagingState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Step(StrEnum):
    """What a node of a staging has done. No node settles before all have copied."""

    COPYING = "copying"
    COPIED = "copied"
    SETTLED = "settled"  # its copies are on the disk, and folders have their modes and times


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one node has copied so far; `total` is the number of files, 0 while it is unknown.

    `missing` are the numbers of pairs of whose source the node has nothing.
    """

    step: Step = Step.COPYING
    files: int = 0
    bytes: int = 0
    total: int = 0
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Copies of `pairs`: into the space, a path outside and a name in it; out of it, a name and a path.

    `nodes` are those that copy. Times are seconds since 1970; it fails if nothing has `moved` for `limit` seconds.
    """

    key: str
    way: Way
    pairs: Pairs
    limit: float
    begun: float
    moved: float
    nodes: Mapping[str, Progress] = field(default_factory=dict)
    state: StagingState = StagingState.RUNNING
    because: str = ""
    ended: float = 0.0

    @property
    def files(self) -> int:
        return sum(part.files for part in self.nodes.values())

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.nodes.values())

    @property
    def total(self) -> int:
        """The number of files, once all nodes know theirs; until then 0."""
        numbers = [part.total for part in self.nodes.values()]
        return sum(numbers) if all(numbers) else 0

    @property
    def is_copied(self) -> bool:
        return all(part.step is not Step.COPYING for part in self.nodes.values())

    def describe(self) -> str:
        """Describe the progress or the result in one line."""
        of = f" of {self.total:,}" if self.total and self.state is not StagingState.DONE else ""
        amount = (
            f"{self.files:,}{of} files, {format_size(self.bytes)}"
            if of
            else (f"{plural(self.files, 'file')}, {format_size(self.bytes)}")
        )
        if self.state is StagingState.FAILED:
            return f"stage-{self.way} failed after {amount}: {self.because}"
        verb = "staged" if self.state is StagingState.DONE else "staging"
        return f"{verb} {self.way}: {amount}"


def check_pairs(way: str, pairs: Pairs) -> None:
    """Check the paths of a staging; BadInput names the wrong one."""
    if way not in WAYS:
        raise BadInput("way", f"must be 'in' or 'out', not {way[:40]!r}")
    if not 0 < len(pairs) <= MOST_PAIRS:
        raise BadInput("pairs", f"must be 1 to {MOST_PAIRS:,} pairs of a source and a target, not {len(pairs):,}")
    for source, target in pairs:
        outside, name = (source, target) if way == "in" else (target, source)
        for path in (outside, name):
            if len(path.encode(errors="surrogateescape")) > _LONGEST_PATH or "\0" in path:
                raise BadInput(path[:80], f"must be a path of at most {_LONGEST_PATH:,} bytes")
        check_outside(outside)
        check_name(name)


def check_outside(path: str) -> None:
    if not path.startswith("/"):
        raise BadInput(path, "must be an absolute path")
    if not path.strip("/"):
        raise BadInput(path, "is the root folder; name a file or folder in it")


def check_name(name: str) -> None:
    """Check a name in the space: a relative path without `..`."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or name.startswith("/") or ".." in parts:
        raise BadInput(name, "must be a path inside the burst buffer")


def check_limit(limit: float) -> None:
    if not (math.isfinite(limit) and 0 < limit <= _LONGEST_LIMIT):
        raise BadInput("limit", f"must be above 0 and at most {_LONGEST_LIMIT / 3600:g} h, not {limit:g} s")
