"""By rules from the access pattern."""

from __future__ import annotations

from forebay.decide.policy import Input, striping
from forebay.decide.stripe.first_target import anywhere
from forebay.decide.stripe.reasons import no_run_tells
from forebay.decide.stripe.rule import by_pattern, unstriped
from forebay.decide.stripe.view import StripeView, Striping


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
