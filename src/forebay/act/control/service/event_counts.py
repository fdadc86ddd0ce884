"""Under which name an event is counted, for those who watch: few names, whatever the event says."""

from __future__ import annotations

import re

from forebay.decide.grants import events as ev

REFUSALS = ("no-room", "closed", "too-large", "no-such-disk", "other")
"""Why a request is refused: no space came free in all its tries; every disk for it was drained, silent or gone; more
than all of the machine could ever hold; a tier or another field that no disk has."""
_WORDS = (
    ("too-large", re.compile(r"would be [\d,]+ parts|the largest disk has|all disks together have|parts of up to")),
    ("no-room", re.compile(r"no room for|finds no disk with")),
    ("closed", re.compile(r"every disk.* is |no storage node has registered")),
    ("no-such-disk", re.compile(r"^no disk (has|says)")),
)


def refusal(because: str) -> str:
    """Which kind of reason it is.

    >>> refusal("the largest disk has 6.40 TB, less than 7.00 TB")
    'too-large'
    """
    return next((kind for kind, words in _WORDS if words.search(because)), "other")


def counted_as(event: ev.Event) -> str:
    """Its kind; of refusals and ends also which one."""
    if isinstance(event, ev.TurnedDown):
        return f"TurnedDown {refusal(event.because)}"
    if isinstance(event, ev.Ended):
        return f"Ended {event.state.value}"
    return type(event).__name__
