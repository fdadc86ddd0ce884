"""By the access pattern: as many stripes as processes share a file; and the default, for comparison.

Kim et al. 2022, Procedure 2, lines 2 to 8; Neuwirth et al. 2017.
"""

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import anywhere
from forebay.decide.stripe.reasons import no_run_tells, only, small_files
from forebay.decide.stripe.view import StripeView, Striping
from forebay.model.layout import DEFAULT_SIZE
from forebay.model.units import plural


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
        because = f"{no_run_tells(view, 'how it uses files')}, so it gets the default layout"
        choice = Choice(count=1, phase="initial", because=because)
    else:
        choice = by_pattern(view)
    return choice.at(anywhere(view, choice.count))


def by_pattern(view: StripeView) -> Choice:
    """One stripe for a file per process, one for each process that does I/O in a shared file; all of 1 MiB."""
    runs: tuple[int, ...] = ()
    processes, where = view.processes, "in its latest run"
    if view.telling_run is not None:
        run, processes = view.telling_run
        runs, where = (run,), f"in its latest run with {plural(processes, 'process')} (run {run})"
    did = processes if view.io_processes is None else view.io_processes
    if not view.shared_file:
        how = "one process did all I/O" if did <= 1 < processes else "most bytes went to files of a single process"
        return Choice(count=1, phase="rule", because=f"{where} {how}, so each file gets 1 stripe", runs=runs)
    wanted = view.processes if did >= processes else min(max(did, 1), view.processes)
    count = min(wanted, view.useful(DEFAULT_SIZE))
    because = f"{where} processes shared files, and {plural(wanted, 'process')} will do I/O"
    because += f", so the files get {plural(count, 'stripe')}"
    if count < wanted:
        because += f", as {only(count) if count == view.most else small_files(view, DEFAULT_SIZE)}"
    return Choice(count=count, phase="rule", because=because, runs=runs)
