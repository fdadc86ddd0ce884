"""Slurm's queue: which jobs there are, and which of them Slurm itself has a burst buffer for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import run

_PATIENCE = 60.0
_OVER = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
     "TIMEOUT"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as squeue tells it; `limit` is seconds, None if it has none. `buffer` is the state of its burst buffer."""

    number: str
    state: str
    limit: float | None
    buffer: str = ""

    @property
    def is_over(self) -> bool:
        """One that is staging out, or completing, is not."""
        return self.state in _OVER

    @property
    def is_torn_down(self) -> bool:
        """Slurm wants nothing of its burst buffer any more, even if it still has one.

        It may have one for good: when a job is cancelled, Slurm kills its scripts and starts its teardown, both at
        once, and now and then kills that as well; it does not try again before its next start.
        """
        return self.is_over and self.buffer == "teardown"


def jobs(conf: Path | None) -> Mapping[str, QueuedJob]:
    """All jobs that Slurm still knows, by their numbers; those that ended stay for some minutes."""
    fields = "--Format=JobID:24,State:24,TimeLimit:24,BurstBufferState:24"
    asked = (*_env(conf), "squeue", "--noheader", "--all", "--array", "--states=all", fields)
    return parse_jobs(run(asked, timeout=_PATIENCE))


def parse_jobs(text: str) -> Mapping[str, QueuedJob]:
    """
    >>> parse_jobs("7  RUNNING  10:00\\n8  CANCELLED  UNLIMITED  teardown")["7"]
    QueuedJob(number='7', state='RUNNING', limit=600.0, buffer='')
    """
    rows = [line.split() for line in text.splitlines()]
    found = (QueuedJob(row[0], row[1], parse_limit(row[2]), *row[3:4]) for row in rows if len(row) >= 3)
    return {job.number: job for job in found}


def buffers(conf: Path | None) -> frozenset[str]:
    """The numbers of the jobs for which Slurm has a burst buffer now."""
    return frozenset(re.findall(r"\bJobID=(\d+)", run((*_env(conf), "scontrol", "show", "burst"), timeout=_PATIENCE)))


def parse_limit(text: str) -> float | None:
    """Seconds, of [days-]hours:minutes:seconds; None if there is no limit.

    >>> parse_limit("10:00"), parse_limit("1-00:00:30"), parse_limit("30"), parse_limit("UNLIMITED")
    (600.0, 86430.0, 1800.0, None)
    """
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in (*parts, *([days] if dash else ()))) or len(parts) > 3:
        return None
    if dash:  # from the hours on
        hours, minutes, seconds = (*parts, "0", "0")[:3]
    elif len(parts) == 1:
        hours, minutes, seconds = "0", parts[0], "0"
    else:
        hours, minutes, seconds = ("0", "0", *parts)[-3:]
    return int(days or 0) * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def _env(conf: Path | None) -> tuple[str, ...]:
    return () if conf is None else ("env", f"SLURM_CONF={conf}")
