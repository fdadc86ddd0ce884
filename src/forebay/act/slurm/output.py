"""What the output of Slurm's commands means wherever it is read: states of jobs, and time limits."""

import re

OVER = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
     "TIMEOUT"}
)  # fmt: skip
YEAR = 365 * 86400.0  # the limit of a job without one, as in Slurm's backfill


def parse_time_limit(text: str) -> float | None:
    """Parse [days-]hours:minutes:seconds or a shorter form into seconds; None if there is no limit.

    >>> parse_time_limit("10:00"), parse_time_limit("1-00:00:30"), parse_time_limit("30"), parse_time_limit("UNLIMITED")
    (600.0, 86430.0, 1800.0, None)
    """
    match = re.fullmatch(r"(?:([0-9]{1,9})-)?([0-9]{1,9}(?::[0-9]{1,9}){0,2})", text)
    if match is None:
        return None
    parts = [int(part) for part in match[2].split(":")]
    if match[1] is None and len(parts) < 3:  # without days, only three numbers begin with hours
        parts = [0, *parts]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    return int(match[1] or 0) * 86400.0 + hours * 3600 + minutes * 60 + seconds
