"""What happens where nobody decides."""

from __future__ import annotations

from forebay.decide.policy import striping
from forebay.decide.stripe.choice import Choice
from forebay.decide.stripe.first_target import anywhere
from forebay.decide.stripe.view import StripeView, Striping


@striping("default", source="Lustre")
def default(view: StripeView) -> Striping:
    """1 stripe of 1 MiB on a target at random, as the file system does by itself."""
    return Choice(count=1, phase="rule", because="this policy never stripes").at(anywhere(view, 1))
