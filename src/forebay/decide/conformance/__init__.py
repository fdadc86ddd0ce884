"""What every policy must do, to be called from the tests of whoever writes one.

    from forebay.decide.conformance import check_allocator

    def test_it_conforms():
        check_allocator(my_policy)

A policy that breaks its contract gets a `PolicyError` that names it, the case and what it broke.
"""

from forebay.decide.conformance.applications import check_allocator, check_placer
from forebay.decide.conformance.order import check_order
from forebay.decide.conformance.storage import check_storage
from forebay.decide.conformance.stripe import check_striping
from forebay.decide.conformance.tune import check_tuner

__all__ = ["check_allocator", "check_order", "check_placer", "check_storage", "check_striping", "check_tuner"]
