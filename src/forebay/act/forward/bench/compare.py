"""Several ways of doing the same, measured in turns, so that what the machine does besides meets all of them alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from forebay.act.forward.bench.drive import Doing, Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of them, for one operation; `bandwidths` (bytes per second) are those of its rounds.

    `ratio` is the median over the rounds of its bandwidth over the first way's in the same round.
    """

    name: str
    doing: Doing
    bandwidths: tuple[float, ...]
    ratio: float

    @property
    def bandwidth(self) -> float:
        return median(self.bandwidths)


def turns(names: Sequence[str], rounds: int) -> Iterator[tuple[str, ...]]:
    """Who comes when: every round has all of them, each round begins with another one.

    >>> list(turns("ab", 3))
    [('a', 'b'), ('b', 'a'), ('a', 'b')]
    """
    for number in range(rounds):
        begin = number % len(names)
        yield (*names[begin:], *names[:begin])


def ways(rounds: Sequence[Mapping[str, Sequence[Measured]]], first: str) -> list[Way]:
    """What the rounds say of each way; a round has, by name, what was measured, one for each operation."""
    found = []
    for place, one in enumerate(rounds[0][first]):
        for name in rounds[0]:
            widths = tuple(measured[name][place].bandwidth for measured in rounds)
            shares = [w / measured[first][place].bandwidth for w, measured in zip(widths, rounds, strict=True)]
            found.append(Way(name=name, doing=one.doing, bandwidths=widths, ratio=median(shares)))
    return found
