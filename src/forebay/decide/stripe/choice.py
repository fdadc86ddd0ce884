"""How many stripes of what size, before anybody says where."""

from dataclasses import dataclass

from forebay.decide.stripe.first_target import Start
from forebay.decide.stripe.view import Phase, Striping
from forebay.model.layout import DEFAULT_SIZE, GRAIN, MOST_SIZE, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A stripe count, a stripe size in bytes, which phase chose them, why, and the runs that rests on."""

    count: int
    size: int = DEFAULT_SIZE
    phase: Phase
    because: str
    runs: tuple[int, ...] = ()

    def at(self, start: Start) -> Striping:
        """The whole answer: this many stripes from that target on."""
        return Striping(
            layout=Layout(count=self.count, size=self.size, start=start.index),
            phase=self.phase,
            because=self.because,
            where=start.because,
            runs=self.runs,
            targets=start.targets,
        )


def valid_size(size: int) -> int:
    """The stripe size in bytes nearest below `size` that a file can have: histories know sizes of other file systems.

    >>> valid_size(1_000_000)
    983040
    """
    return min(max(size // GRAIN * GRAIN, GRAIN), MOST_SIZE)
