"""Checks that every policy must pass. Call them from the tests of your package:

    from forebay.decide.conformance import check_allocator

    def test_my_policy_conforms():
        check_allocator(my_policy)

A check raises a `PolicyError` that names the policy, the case and the violation.
"""

from forebay.decide.conformance.applications import check_allocator, check_placer
from forebay.decide.conformance.order import check_order
from forebay.decide.conformance.schedule import check_schedule
from forebay.decide.conformance.storage import check_storage
from forebay.decide.conformance.stripe import check_striping
from forebay.decide.conformance.tune import check_tuner

__all__ = [
    "check_allocator",
    "check_order",
    "check_placer",
    "check_schedule",
    "check_storage",
    "check_striping",
    "check_tuner",
]
