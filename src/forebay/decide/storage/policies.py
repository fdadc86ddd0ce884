"""The built-in storage policies, and one kernel that is any of them."""

from __future__ import annotations

from typing import Any

from forebay.decide.policy import Input, Policy, storage
from forebay.decide.storage.best_bandwidth import best_bandwidth
from forebay.decide.storage.fits import best_fit, fill, first_fit
from forebay.decide.storage.forebay import forebay
from forebay.decide.storage.random import random
from forebay.decide.storage.round_robin import round_robin
from forebay.decide.storage.worst_fit import worst_fit
from forebay.model.kernels import kernel

_PAPER = "Monniot et al. 2023"
_CODE = f"{_PAPER}, as its code has it"

STORAGE = (
    storage("random", source=_PAPER)(random),
    storage("round-robin", inputs=[Input.BOOKED], source=_PAPER)(round_robin),
    storage("worst-fit", inputs=[Input.BOOKED], source=_CODE)(worst_fit),
    storage("best-bandwidth", inputs=[Input.BOOKED, Input.DISK_BANDWIDTH], source=_PAPER)(best_bandwidth),
    storage("fill", inputs=[Input.BOOKED], source=f"{_PAPER}, as its text has worst-fit")(fill),
    storage("first-fit", inputs=[Input.BOOKED], source="textbook")(first_fit),
    storage("best-fit", inputs=[Input.BOOKED], source="textbook")(best_fit),
    storage("forebay", inputs=[Input.BOOKED, Input.DISK_BANDWIDTH], source="Forebay")(forebay),
)
OTHER = -1  # somebody else's policy: the caller asks it
SPREADS = [policy.name for policy in STORAGE].index("forebay")  # it splits by itself


def number(policy: Policy) -> int:
    """What `choose` knows the policy by."""
    return STORAGE.index(policy) if policy in STORAGE else OTHER


# Numba can't keep machine code of a function that gets another as an argument, hence numbers.
@kernel
def choose(policy: int, ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """What STORAGE[policy] answers."""
    if policy == 0:
        return random(ledger, size, start, end, duration, turn)
    if policy == 1:
        return round_robin(ledger, size, start, end, duration, turn)
    if policy == 2:
        return worst_fit(ledger, size, start, end, duration, turn)
    if policy == 3:
        return best_bandwidth(ledger, size, start, end, duration, turn)
    if policy == 4:
        return fill(ledger, size, start, end, duration, turn)
    if policy == 5:
        return first_fit(ledger, size, start, end, duration, turn)
    if policy == 6:
        return best_fit(ledger, size, start, end, duration, turn)
    return forebay(ledger, size, start, end, duration, turn)
