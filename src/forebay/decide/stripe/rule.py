"""As many stripes as processes share a file (Kim et al. 2022, Procedure 2, lines 2 to 8; Neuwirth et al. 2017)."""

from __future__ import annotations

from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.view import StripeView
from forebay.decide.stripe.words import many, only


def unstriped(because: str) -> Choice:
    """The layout that a file system has by itself: 1 stripe of 1 MiB."""
    return Choice(count=1, phase="initial", because=because)


def by_pattern(view: StripeView) -> Choice:
    """One stripe for a file per process, one for each process that does I/O in a shared file; all of 1 MiB."""
    latest = tuple(run.run for run in view.runs[-1:])
    which = f"in its latest run ({latest[0]})" if latest else "in its latest run"
    if not view.shared_file:
        because = f"{which} every process had files of its own, so each file gets 1 stripe"
        return Choice(count=1, phase="rule", because=because, runs=latest)
    wanted = _io_processes(view)
    count = min(wanted, view.most)
    did = f"{which} processes shared files, and {many(wanted, 'process')} will do I/O"
    because = f"{did}, so the files get {_get(wanted, count)}"
    return Choice(count=count, phase="rule", because=because, runs=latest)


def _get(wanted: int, count: int) -> str:
    """
    >>> _get(8, 8), _get(8, 4)
    ('8 stripes', '4 stripes, as there are only 4 usable targets')
    """
    return many(count, "stripe") if count == wanted else f"{many(count, 'stripe')}, as {only(count)}"


def _io_processes(view: StripeView) -> int:
    """How many processes will do I/O: all if all did, and otherwise as many as did."""
    before = view.runs[-1].processes if view.runs else view.processes
    did = before if view.io_processes is None else view.io_processes
    return view.processes if did >= before else min(max(did, 1), view.processes)
