"""How tuners, schedulers, patterns and rewards look on figures of the study of request windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from forebay.show.figures.looks import Look, looks_of
from forebay.studies.request_windows.view import FOREBAY, GREEDY, Way

# From light to dark: the more is explored, the darker.
EPSILONS: Mapping[str, Look] = {
    f"{GREEDY}:epsilon=0.05": Look("#F0C987", "s", (0, (5, 1.5)), 1.2),
    f"{GREEDY}:epsilon=0.1": Look("#E69F00", "^", "-", 1.7, 4),
    f"{GREEDY}:epsilon=0.15": Look("#D55E00", "D", (0, (3, 1)), 1.2),
    f"{GREEDY}:epsilon=0.2": Look("#A33B20", "v", (0, (6, 1.5, 1, 1.5)), 1.2),
    f"{GREEDY}:epsilon=0.3": Look("#5C1A0B", "P", (0, (3, 1, 1, 1, 1, 1)), 1.2),
}
TUNERS: Mapping[str, Look] = {
    **EPSILONS,
    GREEDY: Look("#E69F00", "^", "-", 1.7, 4),
    "epsilon-decreasing": Look("#CC79A7", "X", (0, (2, 1))),
    "ucb": Look("#009E73", "<", (0, (8, 2))),
    "thompson": Look("#56B4E9", ">", (0, (4, 1, 1, 1))),
    "fixed": Look("#7F7F7F", "x", (0, (1, 1.2))),
    FOREBAY: Look("#000000", "o", "-", 2.2, 6),
}
_AFTER = Look("#0072B2", "d", (0, (2, 2)), 1.4, 7)
SCHEDULERS: Mapping[str, Look] = {
    "twins": Look("#000000", "o", "-", 1.8, 5),
    "twins-work-conserving": Look("#0072B2", "^"),
    "hbrr": Look("#E69F00", "s"),
    "to-agg": Look("#D55E00", "D"),
    "mlf": Look("#009E73", "v"),
    "sjf": Look("#CC79A7", "P"),
    "wfq": Look("#56B4E9", "X"),
}
PATTERNS: Mapping[str, Look] = {
    "file-per-process": Look("#0072B2", "o"),
    "shared-contiguous": Look("#D55E00", "s"),
    "shared-strided": Look("#009E73", "^"),
}
INSTANCE: Mapping[str, Look] = {
    "A": Look("#009E73", "^"),
    "B": Look("#D55E00", "s", (0, (5, 1.5))),
    "C": Look("#0072B2", "o", (0, (3, 1, 1, 1))),
}
REWARDS: Mapping[str, Look] = {
    "bandwidth": Look("#D55E00", "s", (0, (4, 1.2)), 1.5, 5),
    "demand": Look("#0072B2", "o", "-", 1.8, 4),
}


def looks_of_ways(ways: Iterable[Way]) -> dict[Way, Look]:
    """A look for each; those that heard of similar situations look alike, and there is one as a rule."""
    ways = list(ways)
    plain = looks_of(dict.fromkeys(way.tuner for way in ways), TUNERS)
    return {way: _AFTER if way.similar else plain[way.tuner] for way in ways}
