"""A choice of stripe count and size, before the first target is known."""

from dataclasses import dataclass

from forebay.decide.stripe.first_target import Start
from forebay.decide.stripe.view import Phase, Striping
from forebay.model.layout import DEFAULT_SIZE, GRAIN, MOST_SIZE, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A stripe count, a stripe size in bytes, the phase that chose them, why, and the runs behind it."""

    count: int
    size: int = DEFAULT_SIZE
    phase: Phase
    because: str
    runs: tuple[int, ...] = ()

    def at(self, start: Start) -> Striping:
        """Return the complete answer with a first target."""
        return Striping(
            layout=Layout(count=self.count, size=self.size, start=start.index),
            phase=self.phase,
            because=self.because,
            where=start.because,
            runs=self.runs,
            targets=start.targets,
        )


def valid_size(size: int) -> int:
    """Round a stripe size in bytes down to a valid one: a history may have sizes of other file systems.

    >>> valid_size(1_000_000)
    983040
    """
    return min(max(size // GRAIN * GRAIN, GRAIN), MOST_SIZE)
