"""`optimal` by the rules of a run."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from forebay.decide.storage.optimal import Bound, upper_bound
from forebay.model.request import Requests
from forebay.model.system import Platform
from forebay.simulate.storage.rules import Rules


def bound_of(platform: Platform, requests: Requests, rules: Rules) -> Bound:
    """What no policy allocates more than, by the correct rules."""
    with _quiet():
        return upper_bound(platform, requests, split=rules.split, longest_delay=rules.tries * rules.interval)


@contextmanager
def _quiet() -> Iterator[None]:
    """The solver prints a line now and then, whatever it is told (HiGHS.jl issue 312)."""
    c = ctypes.CDLL(None)
    c.fflush(None)
    try:
        kept = os.dup(1)
    except OSError:  # nobody listens
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        yield
    finally:
        c.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
