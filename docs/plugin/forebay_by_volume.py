"""A striping policy in a package of its own."""

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import place
from forebay.decide.stripe.view import StripeView, Striping
from forebay.model.units import format_size

INPUTS = [Input.OWN_RUNS, Input.TARGETS_IN_USE, Input.FREE_SPACE]


@striping("by-volume", inputs=INPUTS, source="an example")
def by_volume(view: StripeView, *, share: float = 1e11) -> Striping:
    """One stripe for every 100 GB (or `share` bytes) that its latest run read and wrote."""
    latest = view.runs[-1:]
    volume = sum(run.io_bytes for run in latest)
    count = min(1 + int(volume / share), view.most)
    because = f"its latest run moved {format_size(volume)}" if latest else "it never ran"
    choice = Choice(count=count, phase="rule", because=because, runs=tuple(run.run for run in latest))
    return choice.at(place(view, count))
