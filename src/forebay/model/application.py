"""An application: its compute time, its I/O volume, and its bandwidth b(n)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.model.curve import Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Table I of Bandet et al. 2024: `phases` equal phases of computing, then I/O.

    `compute_seconds` and `volume` (bytes) are totals over all phases. `compute_nodes` is a float because generated
    workloads divide the machine by shares. `fields` keeps all other keys of the application's file.
    """

    name: str
    compute_nodes: float
    phases: int
    compute_seconds: float
    volume: float
    curve: Curve
    fields: Mapping[str, object] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.phases < 2**31:
            raise ValueError(f"phases must be at least 1 and less than 2**31, not {self.phases}")
        for name in ("compute_nodes", "compute_seconds", "volume"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and not negative, not {value:g}")
        if self.compute_nodes > 1e12:
            raise ValueError(f"compute_nodes must be at most 1e12, not {self.compute_nodes:g}")
        if not math.isfinite(self.volume / min(self.curve.bandwidths)):
            raise ValueError(f"a volume of {self.volume:g} bytes takes forever at this curve's lowest bandwidth")
        if self.compute_seconds == 0 and self.volume == 0:
            raise ValueError("compute_seconds and volume must not both be 0")

    def io_seconds(self, n: int) -> float:
        """The seconds that all its I/O takes alone on n targets, T_cf_io(n)."""
        return self.volume / self.curve.at(n)

    def io_ratio(self, n: int) -> float:
        """The share of its run time that is I/O when it is alone on n targets."""
        io = self.io_seconds(n)
        total = self.compute_seconds + io
        return io / total if total else 0.0

    def io_stress(self, n: int) -> float:
        """The mean number of targets that it keeps busy, I/O-Stress(n)."""
        return n * self.io_ratio(n)

    @property
    def n_sys(self) -> int:
        """The smallest n that minimises I/O-Stress (Bandet et al. 2024, Eq. 2)."""
        return min(range(self.curve.first, self.curve.last + 1), key=self.io_stress)
