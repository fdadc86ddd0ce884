"""As many stripes as processes share a file (Kim et al. 2022, Procedure 2, lines 2 to 8; Neuwirth et al. 2017)."""

from __future__ import annotations

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import anywhere
from forebay.decide.stripe.reasons import many, no_run_tells, only, small_files
from forebay.decide.stripe.view import StripeView, Striping
from forebay.model.layout import DEFAULT_SIZE


def unstriped(because: str) -> Choice:
    """The layout that a file system has by itself: 1 stripe of 1 MiB."""
    return Choice(count=1, phase="initial", because=because)


def by_pattern(view: StripeView) -> Choice:
    """One stripe for a file per process, one for each process that does I/O in a shared file; all of 1 MiB.

    More stripes than the files can fill are of no use.
    """
    runs = (view.telling_run[0],) if view.telling_run else ()
    did, before = _before(view)
    if not view.shared_file:
        how = "one process did all I/O" if did <= 1 < before else "most bytes went to files of a single process"
        because = f"{_which(view)} {how}, so each file gets 1 stripe"
        return Choice(count=1, phase="rule", because=because, runs=runs)
    wanted = view.processes if did >= before else min(max(did, 1), view.processes)
    count = min(wanted, view.useful(DEFAULT_SIZE))
    shared = f"{_which(view)} processes shared files, and {many(wanted, 'process')} will do I/O"
    because = f"{shared}, so the files get {_get(view, wanted, count)}"
    return Choice(count=count, phase="rule", because=because, runs=runs)


def _which(view: StripeView) -> str:
    """The run that tells how files are used."""
    if view.telling_run is None:
        return "in its latest run"
    run, processes = view.telling_run
    return f"in its latest run with {many(processes, 'process')} (run {run})"


def _get(view: StripeView, wanted: int, count: int) -> str:
    if count == wanted:
        return many(count, "stripe")
    reason = only(count) if count == view.most else small_files(view, DEFAULT_SIZE)
    return f"{many(count, 'stripe')}, as {reason}"


def _before(view: StripeView) -> tuple[int, int]:
    """How many processes did I/O in the run that tells, and of how many."""
    before = view.telling_run[1] if view.telling_run else view.processes
    return before if view.io_processes is None else view.io_processes, before


@striping("default", source="Lustre")
def default(view: StripeView) -> Striping:
    """1 stripe of 1 MiB on a target at random, as the file system does by itself."""
    return Choice(count=1, phase="rule", because="this policy never stripes").at(anywhere(view, 1))


@striping(
    "tapp-io",
    inputs=[Input.PROCESSES, Input.ACCESS_PATTERN],
    source="Neuwirth et al. 2017, as Kim et al. 2022 describe it",
)
def tapp_io(view: StripeView) -> Striping:
    """1 stripe for a file per process, one for each process in a shared file, from a target at random on."""
    if view.shared_file is None:
        choice = unstriped(f"{no_run_tells(view, 'how it uses files')}, so it gets the default layout")
    else:
        choice = by_pattern(view)
    return choice.at(anywhere(view, choice.count))
