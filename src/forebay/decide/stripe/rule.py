"""Striping by the access pattern: one stripe for each process that shares a file. And the default.

Kim et al. 2022, Procedure 2, lines 2 to 8; Neuwirth et al. 2017.
"""

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import start_anywhere
from forebay.decide.stripe.phrases import missing_runs, small_files, target_limit
from forebay.decide.stripe.view import StripeView, Striping
from forebay.model.layout import DEFAULT_SIZE
from forebay.model.units import plural


@striping("default", source="Lustre")
def default(view: StripeView) -> Striping:
    """1 stripe of 1 MiB on a random target, as the file system does by default."""
    return Choice(count=1, phase="rule", because="this policy never stripes").at(start_anywhere(view, 1))


@striping(
    "tapp-io",
    inputs=[Input.PROCESSES, Input.ACCESS_PATTERN],
    source="Neuwirth et al. 2017, as Kim et al. 2022 describe it",
)
def tapp_io(view: StripeView) -> Striping:
    """1 stripe for a file per process, one per process for a shared file; starts at a random target."""
    if view.shared_file is None:
        because = f"{missing_runs(view, 'how it uses files')}, so it gets the default layout"
        choice = Choice(count=1, phase="initial", because=because)
    else:
        choice = by_pattern(view)
    return choice.at(start_anywhere(view, choice.count))


def by_pattern(view: StripeView) -> Choice:
    """Choose 1 stripe for a file per process, one per I/O process for a shared file; all of 1 MiB."""
    runs: tuple[int, ...] = ()
    processes, where = view.processes, "in its latest run"
    if view.telling_run is not None:
        run, processes = view.telling_run
        runs, where = (run,), f"in its latest run with {plural(processes, 'process')} (run {run})"
    active = processes if view.io_processes is None else view.io_processes
    if not view.shared_file:
        how = "one process did all I/O" if active <= 1 < processes else "most bytes went to files of a single process"
        return Choice(count=1, phase="rule", because=f"{where} {how}, so each file gets 1 stripe", runs=runs)
    wanted = view.processes if active >= processes else min(max(active, 1), view.processes)
    count = min(wanted, view.useful(DEFAULT_SIZE))
    because = f"{where} processes shared files, and {plural(wanted, 'process')} will do I/O"
    because += f", so the files get {plural(count, 'stripe')}"
    if count < wanted:
        because += f", as {target_limit(count) if count == view.most else small_files(view, DEFAULT_SIZE)}"
    return Choice(count=count, phase="rule", because=because, runs=runs)
