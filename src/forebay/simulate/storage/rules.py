"""The rules of a run, including exact StorAlloc rules."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from forebay.model.errors import BadInput
from forebay.model.kernels import Array
from forebay.model.space_requests import Requests
from forebay.model.units import format_duration

Mode = Literal["correct", "storalloc"]
MODES: tuple[Mode, ...] = ("correct", "storalloc")
GB = 10**9
DAY = 86_400.0
SPLIT = 200 * GB  # the paper's threshold
OPTIMAL = "optimal"  # not a policy, but a bound for all policies
TRIES, INTERVAL = 12, 300.0  # every 5 minutes up to an hour

_MOST_PARTS = 1e8

ASK = np.dtype(
    [
        ("start", np.float64),
        ("duration", np.float64),
        ("booked", np.float64),  # the planned duration; with feedback, it includes I/O
        ("bytes", np.int64),
        ("horizon", np.float64),  # the earliest start of this and all later requests
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Requests above `split` bytes are split (0: none); refused ones retry `tries` times, `interval` seconds apart.

    Mode "storalloc" reproduces the original exactly, including its errors (docs/fidelity.md lists
    them): it rounds to whole gigabytes, books all parts of a split request with the size of the last
    one and never unbooks them, never requeues split requests, and drops whole days from durations.
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
            raise BadInput("storage.requeue.tries", f"must be 0 or more, not {self.tries}")
        if not (self.tries == 0 or 0 < self.interval < np.inf):
            raise BadInput(
                "storage.requeue.interval", f"must be positive and finite, not {format_duration(self.interval)}"
            )

    @property
    def letter(self) -> bool:
        return self.mode == "storalloc"

    def check(self, requests: Requests) -> None:
        """Raise an error if the parts of split requests do not fit into memory."""
        parts = float((requests.bytes / self.split).sum()) if self.split else 0.0
        if parts > _MOST_PARTS:
            raise BadInput(
                "storage.split", f"{self.split:,} bytes make {parts:.2g} parts; the limit is {_MOST_PARTS:.0e}"
            )

    def asks(self, requests: Requests, io_seconds: Array = 0.0) -> Array:
        """Return the requests as ASK records, planned for their duration plus `io_seconds`."""
        asks = np.zeros(len(requests), dtype=ASK)
        asks["start"], asks["duration"], asks["bytes"] = requests.start, requests.duration, requests.bytes
        asks["booked"] = requests.duration + io_seconds
        asks["horizon"] = np.minimum.accumulate(requests.start[::-1])[::-1]
        return asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Jobs do their I/O in `phases`, on their granted space or on a parallel file system of `pfs` bytes/s."""

    pfs: float = 5e9
    phases: int = 10

    def __post_init__(self) -> None:
        if not self.pfs > 0:
            raise BadInput("storage.feedback.pfs", f"must be positive, not {self.pfs:g}")
        if self.phases < 1:
            raise BadInput("storage.feedback.phases", f"must be at least 1, not {self.phases}")
