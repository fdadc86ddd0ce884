"""Words that the reasons of striping policies share."""

from forebay.decide.stripe.view import StripeView
from forebay.model.layout import KIB, MIB
from forebay.model.units import format_size, plural

_GIB = 1 << 30


def stripe_size(size: int) -> str:
    """Stripe sizes are powers of two, so they are said in binary units.

    >>> stripe_size(1048576)
    '1 MiB'
    """
    unit, name = (_GIB, "GiB") if size >= _GIB else (MIB, "MiB") if size >= MIB else (KIB, "KiB")
    return f"{size / unit:g} {name}"


def stripes(count: int, size: int) -> str:
    """
    >>> stripes(8, 1048576)
    '8 stripes of 1 MiB'
    """
    return f"{plural(count, 'stripe')} of {stripe_size(size)}"


def only(most: int) -> str:
    """
    >>> only(4)
    'there are only 4 usable targets'
    """
    return f"there {'is' if most == 1 else 'are'} only {plural(most, 'usable target')}"


def left_out(view: StripeView) -> str:
    """How many runs with as many processes had an incomplete log, as the end of a sentence; nothing if none had."""
    partial = sum(run.partial for run in view.runs if run.processes == view.processes)
    return f" ({plural(partial, 'partial run')} left out)" if partial else ""


def no_run_tells(view: StripeView, what: str) -> str:
    """Why nothing is known from the application's own runs here."""
    if not view.known_runs:
        return "it never ran on this file system" if view.runs_elsewhere else "it never ran"
    which = "its only run does not tell" if view.known_runs == 1 else f"none of its {view.known_runs:,} runs tells"
    return f"{which} {what}"


def small_files(view: StripeView, size: int) -> str:
    """Why more stripes of this size would be of no use, where it is because the files are small."""
    where = "" if view.file_size_run is None else f" (run {view.file_size_run})"
    fill = plural(view.useful(size), "stripe")
    held = f"its files hold up to {format_size(view.file_size or 0)}{where}"
    return f"{held}, which fills no more than {fill} of {stripe_size(size)}"
