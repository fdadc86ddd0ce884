"""The limits of grants on the live machine, and how often a request that waits is tried: `GrantRules`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_type_hints

from forebay.model.errors import BadInput
from forebay.model.grant import MOST_SECONDS
from forebay.model.units import format_duration, parse_duration, parse_size

_DAY = 86_400.0


def _parse_bytes(value: str | float) -> int:
    return math.ceil(parse_size(value))


def _parse_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be a whole number, not {value!r:.40}")
    return value


Size = Annotated[int, _parse_bytes]
Count = Annotated[int, _parse_count]
Duration = Annotated[float, parse_duration]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRules:
    """The rules in force. Each type parses its own text; settings, API and documents repeat the meanings."""

    split: Annotated[Size, "Larger requests are split over several disks, all or nothing; 0: never."] = 200 * 10**9
    tries: Annotated[Count, "How often a request without space is retried."] = 12
    interval: Annotated[Duration, "Seconds between tries."] = 300.0
    longest: Annotated[Duration, "The longest duration of a grant, in seconds."] = 30 * _DAY
    ahead: Annotated[Duration, "How many seconds before its start a grant can be requested."] = 30 * _DAY
    remember: Annotated[Duration, "For how many seconds ended grants are listed."] = 7 * _DAY
    most: Annotated[Count, "Grants that a user may hold or have queued at once; 0: no limit."] = 1000
    shadow: Annotated[bool, "Whether the service decides without acting: everything counts as done at once."] = False

    def __post_init__(self) -> None:
        for name in ("split", "tries", "most"):
            if not 0 <= getattr(self, name) <= 10**18:
                raise BadInput(f"rules.{name}", f"must not be negative, not {getattr(self, name):,}")
        for name in ("interval", "longest", "ahead", "remember"):
            value, least = getattr(self, name), 0.0 if name in ("ahead", "remember") else 1.0
            if not (math.isfinite(value) and least <= value <= MOST_SECONDS):
                bounds = f"from {format_duration(least)} to {format_duration(MOST_SECONDS)}"
                raise BadInput(f"rules.{name}", f"must be {bounds}, not {format_duration(value)}")

    def change(self, changes: Mapping[str, Any], where: str = "rules") -> GrantRules:
        """The rules with these changes: numbers, or text with a unit.

        >>> GrantRules().change({"split": "1 TB", "interval": "2 min"}).split
        1000000000000
        """
        hints, values = get_type_hints(GrantRules, include_extras=True), {}
        for name, value in changes.items():
            if name == "shadow" or name not in hints:
                raise BadInput(f"{where}.{name}", "unknown rule; `forebay storage rules` lists all rules")
            try:
                values[name] = hints[name].__metadata__[0](value)
            except (ValueError, TypeError, OverflowError) as error:
                raise BadInput(f"{where}.{name}", str(error)[:200]) from None
        return replace(self, **values)
