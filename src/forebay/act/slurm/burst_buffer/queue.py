"""Slurm's queue: which jobs there are, and which of them Slurm itself has a burst buffer for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import run
from forebay.act.slurm.durations import parse_time_limit

_PATIENCE = 60.0
_OVER = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
     "TIMEOUT"}
)  # fmt: skip


_YEAR = 365 * 86400.0
_COLUMNS = {"JobID": 24, "JobArrayID": 40, "State": 24, "TimeLimit": 24, "TimeLeft": 24, "BurstBufferState": 24,
            "PriorityLong": 24, "BatchFlag": 4, "Requeue": 4, "HetJobID": 24, "Reason": 330}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job as squeue tells it. `number` is its own, `name` what Slurm's commands take: of an array, 12_3.

    `limit` and `left` are seconds, None if it has no limit. `buffer` is the state of its burst buffer, "" if it has
    none. A job that `may_requeue` is a batch job; `requeues` says whether its user lets Slurm do so.
    """

    number: str
    name: str
    state: str
    limit: float | None
    left: float | None = None
    buffer: str = ""
    is_held: bool = False
    may_requeue: bool = True
    requeues: bool = True
    reason: str = ""

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
        return self.buffer == "teardown" and (self.is_over or self.state == "PENDING")


def jobs(conf: Path | None) -> Mapping[str, QueuedJob]:
    """All jobs that Slurm still knows, by their numbers; those that ended stay for some minutes."""
    fields = ",".join(f"{name}:{width}" for name, width in _COLUMNS.items())
    asked = (*environment(conf), "squeue", "--noheader", "--all", "--array", "--states=all", f"--Format={fields}")
    return parse_jobs(run(asked, timeout=_PATIENCE))


def parse_jobs(text: str) -> Mapping[str, QueuedJob]:
    """Of the columns that `jobs` asks for."""
    return {job.number: job for job in map(_parse_job, text.splitlines()) if job.number}


def _parse_job(line: str) -> QueuedJob:
    words, at = {}, 0
    for name, width in _COLUMNS.items():
        word = line[at : at + width].strip()
        words[name], at = "" if word in ("(null)", "N/A") else word, at + width
    limit = parse_time_limit(words["TimeLimit"])
    if limit is not None and limit >= _YEAR:  # what Slurm's backfill gives to a job without one
        limit = None
    return QueuedJob(
        number=words["JobID"],
        name=words["JobArrayID"] or words["JobID"],
        state=words["State"],
        limit=limit,
        left=None if limit is None else parse_time_limit(words["TimeLeft"]),
        buffer=words["BurstBufferState"],
        is_held=words["PriorityLong"] == "0",
        may_requeue=words["BatchFlag"] == "1" and words["HetJobID"] in ("", "0"),
        requeues=words["Requeue"] == "1",
        reason=words["Reason"],
    )


def buffers(conf: Path | None) -> frozenset[str]:
    """The numbers of the jobs for which Slurm has a burst buffer now."""
    asked = (*environment(conf), "scontrol", "show", "burst")
    return frozenset(re.findall(r"\bJobID=(\d+)", run(asked, timeout=_PATIENCE)))


def dependents(conf: Path | None) -> Mapping[str, frozenset[str]]:
    """By the number of a job, the names of those that wait for it."""
    return parse_dependents(
        run((*environment(conf), "squeue", "--noheader", "--all", "--format=%i %E"), timeout=_PATIENCE)
    )


def parse_dependents(text: str) -> Mapping[str, frozenset[str]]:
    """
    >>> sorted(parse_dependents("8 afterok:7_*(unfulfilled),afterany:5(unfulfilled)\\n9 (null)").items())
    [('5', frozenset({'8'})), ('7', frozenset({'8'}))]
    """
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        name, _, words = line.partition(" ")
        for number in re.findall(r"[:,](\d+)", words):
            found.setdefault(number, set()).add(name)
    return {number: frozenset(names) for number, names in found.items()}


def state_folder(conf: Path | None) -> Path | None:
    """Where slurmctld keeps its state."""
    told = run((*environment(conf), "scontrol", "show", "config"), timeout=_PATIENCE)
    found = re.search(r"^StateSaveLocation\s*=\s*(/\S+)", told, re.MULTILINE)
    return Path(found[1]) if found else None


def environment(conf: Path | None) -> tuple[str, ...]:
    """What stands before a command of Slurm's, so that it finds its slurm.conf."""
    return () if conf is None else ("env", f"SLURM_CONF={conf}")
