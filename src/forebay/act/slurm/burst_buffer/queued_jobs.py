"""The jobs in Slurm's queue and the burst buffers that Slurm has for them, for `forebay slurm reconcile`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from forebay.act.command import run
from forebay.act.slurm.output import OVER, YEAR, parse_time_limit

_TIMEOUT = 60.0
_COLUMNS = {"JobID": 24, "JobArrayID": 40, "State": 24, "TimeLimit": 24, "TimeLeft": 24, "BurstBufferState": 24,
            "PriorityLong": 24, "BatchFlag": 4, "Requeue": 4, "HetJobID": 24, "Reason": 330}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job in the output of squeue. `number` is its id; `name` is what Slurm's commands take, in an array 12_3.

    `limit` and `left` are seconds, None if it has no limit. `buffer` is the state of its burst buffer, "" if it has
    none. Only batch jobs `may_requeue`; `requeues` is whether the user lets Slurm requeue the job.
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
        """Whether the job has ended. A job that is staging out or completing has not."""
        return self.state in OVER

    @property
    def is_torn_down(self) -> bool:
        """Whether Slurm no longer needs the job's burst buffer, even if it still has one.

        When a user cancels a job, Slurm kills the job's scripts and starts its teardown at the same time. Sometimes it
        kills the teardown too, and does not retry it before slurmctld restarts.
        """
        return self.buffer == "teardown" and (self.is_over or self.state == "PENDING")


@dataclass(frozen=True, slots=True)
class Slurm:
    """Runs Slurm's commands. `conf` is its slurm.conf; None if the commands find it themselves."""

    conf: Path | None

    def run(self, *argv: str) -> str:
        """Run a command and return its output."""
        environment = () if self.conf is None else ("env", f"SLURM_CONF={self.conf}")
        return run((*environment, *argv), timeout=_TIMEOUT)

    def list_jobs(self) -> Mapping[str, QueuedJob]:
        """List all jobs that Slurm knows, by number. Jobs that ended stay for some minutes."""
        fields = ",".join(f"{name}:{width}" for name, width in _COLUMNS.items())
        return parse_jobs(self.run("squeue", "--noheader", "--all", "--array", "--states=all", f"--Format={fields}"))

    def list_buffers(self) -> frozenset[str]:
        """List the numbers of the jobs for which Slurm has a burst buffer."""
        return frozenset(re.findall(r"\bJobID=(\d+)", self.run("scontrol", "show", "burst")))

    def list_dependents(self) -> Mapping[str, set[str]]:
        """Map the number of each job to the names of the jobs that wait for it."""
        return parse_dependents(self.run("squeue", "--noheader", "--all", "--format=%i %E"))

    def read_config(self) -> dict[str, str]:
        """The settings of slurmctld, such as ClusterName."""
        return dict(re.findall(r"^(\w+)\s*=\s*(\S+)", self.run("scontrol", "show", "config"), re.MULTILINE))

    def requeue(self, job: QueuedJob) -> None:
        """Cancel the job, so that Slurm tears it down, and requeue it to start now, not after Slurm's two minutes."""
        if not job.requeues:
            self.run("scontrol", "update", f"JobId={job.name}", "Requeue=1")
        self.run("scancel", job.name)
        self.run("scontrol", "requeue", job.name)
        self.run("scontrol", "update", f"JobId={job.name}", "StartTime=now")
        if not job.requeues:
            self.run("scontrol", "update", f"JobId={job.name}", "Requeue=0")


def parse_jobs(text: str) -> Mapping[str, QueuedJob]:
    """Parse jobs in the columns of `Slurm.list_jobs`."""
    return {job.number: job for job in map(_parse_job, text.splitlines()) if job.number}


def _parse_job(line: str) -> QueuedJob:
    ends = list(accumulate(_COLUMNS.values()))
    values = [line[end - width : end].strip() for end, width in zip(ends, _COLUMNS.values(), strict=True)]
    fields = {name: "" if value in ("(null)", "N/A") else value for name, value in zip(_COLUMNS, values, strict=True)}
    limit = parse_time_limit(fields["TimeLimit"])
    if limit is not None and limit >= YEAR:
        limit = None
    return QueuedJob(
        number=fields["JobID"],
        name=fields["JobArrayID"] or fields["JobID"],
        state=fields["State"],
        limit=limit,
        left=None if limit is None else parse_time_limit(fields["TimeLeft"]),
        buffer=fields["BurstBufferState"],
        is_held=fields["PriorityLong"] == "0",
        may_requeue=fields["BatchFlag"] == "1" and fields["HetJobID"] in ("", "0"),
        requeues=fields["Requeue"] == "1",
        reason=fields["Reason"],
    )


def parse_dependents(text: str) -> Mapping[str, set[str]]:
    """
    >>> sorted(parse_dependents("8 afterok:7_*(unfulfilled),afterany:5(unfulfilled)\\n9 (null)").items())
    [('5', {'8'}), ('7', {'8'})]
    """
    dependents: dict[str, set[str]] = {}
    for line in text.splitlines():
        name, _, dependencies = line.partition(" ")
        for number in re.findall(r"[:,](\d+)", dependencies):
            dependents.setdefault(number, set()).add(name)
    return dependents
