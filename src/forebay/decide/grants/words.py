"""Reasons in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))
_MOST_NAMED = 8


def lasting(seconds: float) -> str:
    """A duration, roughly.

    >>> lasting(9000), lasting(42), lasting(0.5)
    ('2.5 h', '42 s', '0.5 s')
    """
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def some(names: Iterable[str]) -> str:
    """Names in order, not too many of them.

    >>> some("ba")
    'a, b'
    """
    known = sorted(names)
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return ", ".join(known[:_MOST_NAMED]) + more


def wanted(wants: Mapping[str, str]) -> str:
    """What disks must have, with a word before it; nothing if anything will do.

    >>> wanted({"tier": "nvme", "rack": "2"}), wanted({"expose": "none"})
    (' with tier nvme, rack 2', '')
    """
    told = [f"{name} {value}" for name, value in wants.items() if (name, value) != ("expose", "none")]
    return f" with {', '.join(told)}" if told else ""
