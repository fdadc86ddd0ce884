"""Phrases that the reasons of striping policies share."""

from forebay.decide.stripe.view import StripeView
from forebay.model.layout import KIB, MIB, Layout
from forebay.model.units import format_size, plural

_GIB = 1 << 30


def stripe_size(size: int) -> str:
    """Format a stripe size in binary units.

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


def describe_components(layout: Layout) -> str:
    """
    >>> from forebay.model.layout import Component
    >>> describe_components(Layout(count=8, before=(Component(end=65536, count=0), Component(end=MIB, count=1))))
    'on the MDT up to 64 KiB, 1 stripe of 1 MiB up to 1 MiB, then 8 stripes of 1 MiB'
    """
    parts = [
        f"{stripes(part.count, part.size) if part.count else 'on the MDT'} up to {stripe_size(part.end)}"
        for part in layout.before
    ]
    last = stripes(layout.count, layout.size)
    return ", ".join([*parts, f"then {last}"]) if parts else last


def target_limit(most: int) -> str:
    """
    >>> target_limit(4)
    'there are only 4 usable targets'
    """
    return f"there {'is' if most == 1 else 'are'} only {plural(most, 'usable target')}"


def partial_runs(view: StripeView) -> str:
    """Say, at the end of a sentence, how many runs with the same process count have an incomplete log."""
    partial = sum(run.partial for run in view.runs if run.processes == view.processes)
    return f" ({plural(partial, 'partial run')} left out)" if partial else ""


def missing_runs(view: StripeView, what: str) -> str:
    """Explain why the application's runs do not help here."""
    if not view.known_runs:
        return "it never ran on this file system" if view.runs_elsewhere else "it never ran"
    which = "its only run does not show" if view.known_runs == 1 else f"none of its {view.known_runs:,} runs shows"
    return f"{which} {what}"


def small_files(view: StripeView, size: int) -> str:
    """Explain that the files are too small for more stripes of this size."""
    where = "" if view.file_size_run is None else f" (run {view.file_size_run})"
    fill = plural(view.useful(size), "stripe")
    held = f"its files hold up to {format_size(view.file_size or 0)}{where}"
    return f"{held}, which fill no more than {fill} of {stripe_size(size)}"
