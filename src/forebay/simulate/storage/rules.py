"""The rules of one run, and StorAlloc's own to the letter."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from forebay.model.errors import BadInput
from forebay.model.kernels import Array
from forebay.model.request import Requests
from forebay.model.units import format_duration

Mode = Literal["correct", "storalloc"]
MODES: tuple[Mode, ...] = ("correct", "storalloc")
GB = 10**9
DAY = 86_400.0
SPLIT = 200 * GB  # the paper's threshold
OPTIMAL = "optimal"  # not a policy, but the bound for all of them
TRIES, INTERVAL = 12, 300.0  # every 5 minutes up to an hour

_MOST_PARTS = 1e8

ASK = np.dtype(
    [
        ("start", np.float64),
        ("duration", np.float64),
        ("booked", np.float64),  # the duration that is planned with: with feedback, I/O comes on top
        ("bytes", np.int64),
        ("horizon", np.float64),  # the earliest start of this and all later requests
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Requests above `split` bytes are split (0: none is); refused ones come again `tries` times, `interval` s apart.

    Mode "storalloc" follows the original to the letter, its slips included (docs/fidelity.md
    lists them): whole gigabytes, a split request's parts booked with the last one's size and never
    unbooked, split requests never requeued, and in the replay whole days dropped from durations.
    """

    mode: Mode = "correct"
    split: int = 0
    tries: int = 0
    interval: float = INTERVAL

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadInput("storage.as", f"must be {' or '.join(map(repr, MODES))}, not {self.mode!r}")
        if self.split < 0 or (self.letter and self.split % GB):
            wanted = "positive and whole GB" if self.letter else "positive"
            raise BadInput("storage.split", f"must be {wanted}, not {self.split:,} bytes")
        if self.tries < 0:
            raise BadInput("storage.requeue.tries", f"must not be negative, not {self.tries}")
        if not (self.tries == 0 or 0 < self.interval < np.inf):
            raise BadInput(
                "storage.requeue.interval", f"must be positive and finite, not {format_duration(self.interval)}"
            )

    @property
    def letter(self) -> bool:
        return self.mode == "storalloc"

    def check(self, requests: Requests) -> None:
        """Refuse to split what would not fit into memory."""
        parts = float((requests.bytes / self.split).sum()) if self.split else 0.0
        if parts > _MOST_PARTS:
            raise BadInput(
                "storage.split", f"{self.split:,} bytes make {parts:.2g} parts; at most {_MOST_PARTS:.0e} can be"
            )

    def asks(self, requests: Requests, io_seconds: Array = 0.0) -> Array:
        """The requests as ASK records, each planned to take `io_seconds` longer than its duration."""
        asked = np.zeros(len(requests), dtype=ASK)
        asked["start"], asked["duration"], asked["bytes"] = requests.start, requests.duration, requests.bytes
        asked["booked"] = requests.duration + io_seconds
        asked["horizon"] = np.minimum.accumulate(requests.start[::-1])[::-1]
        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Jobs do their I/O in `phases`, on what they were granted or on a parallel file system of `pfs` bytes/s."""

    pfs: float = 5e9
    phases: int = 10

    def __post_init__(self) -> None:
        if not self.pfs > 0:
            raise BadInput("storage.feedback.pfs", f"must be positive, not {self.pfs:g}")
        if self.phases < 1:
            raise BadInput("storage.feedback.phases", f"must be at least 1, not {self.phases}")
