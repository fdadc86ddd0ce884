"""Durations as Slurm prints them."""

from __future__ import annotations

import re


def parse_time_limit(text: str) -> float | None:
    """Seconds, of [days-]hours:minutes:seconds or its shorter forms; None if there is no limit.

    >>> parse_time_limit("10:00"), parse_time_limit("1-00:00:30"), parse_time_limit("30"), parse_time_limit("UNLIMITED")
    (600.0, 86430.0, 1800.0, None)
    """
    days, dash, time = text.rpartition("-")
    parts = time.split(":")
    numbers = (*parts, *([days] if dash else ()))
    if len(parts) > 3 or not all(re.fullmatch(r"[0-9]{1,9}", number) for number in numbers):
        return None
    if dash:  # from the hours on
        hours, minutes, seconds = (*parts, "0", "0")[:3]
    elif len(parts) == 1:
        hours, minutes, seconds = "0", parts[0], "0"
    else:
        hours, minutes, seconds = ("0", "0", *parts)[-3:]
    return int(days or 0) * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
