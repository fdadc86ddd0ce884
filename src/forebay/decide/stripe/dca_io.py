"""From the runs of others, then by rules, then run by run, and out of the way of others."""

from __future__ import annotations

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import anywhere, place
from forebay.decide.stripe.initial import initial
from forebay.decide.stripe.recurring import climbed, comparable, ruled
from forebay.decide.stripe.view import StripeView, Striping


@striping(
    "dca-io",
    inputs=[
        Input.PROCESSES,
        Input.FREE_SPACE,
        Input.TARGETS_IN_USE,
        Input.ACCESS_PATTERN,
        Input.OWN_RUNS,
        Input.RUNS_OF_OTHERS,
    ],
    source="Kim et al. 2022, Procedures 1 to 3",
)
def dca_io(view: StripeView, *, interference: bool = True) -> Striping:
    """As others did, then by rules, then doubled while that is faster, on targets that others don't use."""
    choice = _choice(view)
    return choice.at(place(view, choice.count) if interference else anywhere(view, choice.count))


def _choice(view: StripeView) -> Choice:
    if len(comparable(view)) >= 2:
        return climbed(view)
    return initial(view) if view.shared_file is None else ruled(view)
