"""The rules by which the live machine grants."""

from __future__ import annotations

import math
from dataclasses import dataclass

from forebay.model.errors import BadInput
from forebay.model.grant import MOST_SECONDS
from forebay.model.units import format_duration

_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRules:
    """Requests above `split` bytes are split (0: none is); those without space come again `tries` times.

    `interval` is the seconds between tries, `longest` the seconds that a grant may last, `ahead` how many seconds
    before its start it may be asked for, `remember` for how many seconds those that ended are kept. `most` is how many
    grants a user may hold or have queued at once (0: any number); what an administrator asks for is not counted out.
    In `shadow` everything is decided and nothing is done: what is granted counts as made, and what is released as
    gone, at once.
    """

    split: int = 200 * 10**9
    tries: int = 12
    interval: float = 300.0
    longest: float = 30 * _DAY
    ahead: float = 30 * _DAY
    remember: float = 7 * _DAY
    most: int = 1000
    shadow: bool = False

    def __post_init__(self) -> None:
        for name in ("split", "tries", "most"):
            if not 0 <= getattr(self, name) <= 10**18:
                raise BadInput(f"rules.{name}", f"must not be negative, not {getattr(self, name):,}")
        for name in ("interval", "longest", "ahead", "remember"):
            value, least = getattr(self, name), 0.0 if name in ("ahead", "remember") else 1.0
            if not (math.isfinite(value) and least <= value <= MOST_SECONDS):
                bounds = f"from {format_duration(least)} to {format_duration(MOST_SECONDS)}"
                raise BadInput(f"rules.{name}", f"must be {bounds}, not {format_duration(value)}")
