"""A finding: one thing that costs a run time, with its evidence and its remedy."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Severity = Literal["high", "medium", "low"]
Confidence = Literal["measured", "modelled", "unknown"]


class Code(StrEnum):
    """Every finding that there is; `docs/findings.md` explains each."""

    SMALL_REQUESTS = "small-requests"
    SMALL_REQUESTS_SHARED = "small-requests-shared"
    MISALIGNED = "misaligned"
    RANDOM_ACCESS = "random-access"
    NO_COLLECTIVE = "no-collective"
    METADATA_BOUND = "metadata-bound"
    STRIPE_COUNT = "stripe-count"
    FEW_OSTS = "few-osts"
    SLOW_OST = "slow-ost"
    IMBALANCE = "imbalance"
    REPEATED_READS = "repeated-reads"
    BURST_BUFFER = "burst-buffer"
    STDIO_BULK = "stdio-bulk"
    SINGLE_WRITER = "single-writer"
    PARTIAL_LOG = "partial-log"
    INCOMPLETE_LOG = "incomplete-log"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relief:
    """What a remedy changes in the model: `saved` seconds of all processes, large requests in order for the `undone`
    reads and writes of each record, `count` OSTs, and the same for every process if it `levels`."""

    saved: float = 0.0
    undone: NDArray[np.bool_] | None = None
    count: int | None = None
    levels: bool = False

    @property
    def is_about_requests(self) -> bool:
        return self.undone is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`share` is the part of the run's I/O time behind it, `predicted_gain` how many times faster the run's I/O is
    without it; both are None if nobody can know."""

    code: Code
    seen: str
    because: str
    remedy: str
    share: float | None = None
    predicted_gain: float | None = None
    confidence: Confidence = "modelled"
    numbers: dict[str, float | int | str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    relief: Relief | None = field(default=None, compare=False, repr=False)
    """None for a finding that was measured, or read from the history."""

    @property
    def severity(self) -> Severity:
        """By the predicted gain: from a factor of 2 on it is high, from 1.2 on medium."""
        gain = self.predicted_gain or 1.0
        return "high" if gain >= 2 else "medium" if gain >= 1.2 else "low"
