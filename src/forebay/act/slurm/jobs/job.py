"""A job that is about to start or has ended, as a batch system or a script tells it."""

from __future__ import annotations

import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from forebay.act.command import CommandFailed, run
from forebay.history.run_fields import MOST_PROCESSES
from forebay.model.errors import BadInput

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@\[\]-]{0,99}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,99}")
_ASKING = 3.0
"""Seconds that Slurm has to tell of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`app` is the application where somebody says it; `seconds` is the job's time limit, 0 if not known."""

    job: str
    user: str
    uid: int
    gid: int
    name: str = ""
    command: str = ""
    app: str = ""
    nprocs: int = 1
    nodes: int = 1
    seconds: float = 0.0

    @property
    def number(self) -> int | None:
        """As Darshan and the accounting have it: the digits that the id begins with.

        >>> Job(job="4711.pbs01", user="u", uid=1, gid=1).number
        4711
        """
        digits = re.match(r"\d{1,18}", self.job)
        return int(digits[0]) if digits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What somebody says of a job on the command line, and need not be looked up."""

    job: str = ""
    user: str = ""
    name: str = ""
    app: str = ""
    nprocs: int = 0


def job_of(said: Said, environment: Mapping[str, str]) -> Job:
    """The job by what is said, else by what Slurm puts into the environment of its prologs and epilogs."""
    job = said.job or environment.get("SLURM_JOB_ID", "")
    if not job:
        raise BadInput("--job", "is missing, and Slurm does not say either (SLURM_JOB_ID)")
    if not _ID.fullmatch(job):
        raise BadInput("--job", f"{job[:40]!r} is no name for a job")
    # A job that is named is not the one that we may be running in.
    told = environment if job == environment.get("SLURM_JOB_ID") else {}
    user = _user(said.user or told.get("SLURM_JOB_USER", ""), told.get("SLURM_JOB_UID", ""))
    nprocs = said.nprocs or _number(told.get("SLURM_JOB_NTASKS", "")) or _cpus(told.get("SLURM_JOB_CPUS_PER_NODE", ""))
    if nprocs > MOST_PROCESSES or said.nprocs < 0:
        raise BadInput("--nprocs", f"must be between 1 and {MOST_PROCESSES}, not {nprocs}")
    return Job(
        job=job,
        user=user.pw_name,
        uid=user.pw_uid,
        gid=user.pw_gid,
        name=said.name or told.get("SLURM_JOB_NAME", ""),
        app=said.app,
        nprocs=nprocs or 1,
        nodes=_number(told.get("SLURM_JOB_NUM_NODES", "")) or 1,
    )


def asked(job: Job, said: Said) -> Job:
    """The job with what Slurm's controller knows of it besides; as it is where that does not answer."""
    try:
        told = parse_job(run(("scontrol", "-o", "show", "job", job.job), timeout=_ASKING))
    except CommandFailed:
        return job
    return replace(
        job,
        name=job.name or told.get("JobName", ""),
        command=told.get("Command", ""),
        nprocs=said.nprocs or _number(told.get("NumTasks", "")) or job.nprocs,
        seconds=parse_limit(told.get("TimeLimit", "")),
    )


def parse_job(line: str) -> dict[str, str]:
    """What `scontrol -o show job` says; values may have spaces in them.

    >>> parse_job("JobId=1 JobName=my job UserId=dev(999) Power= ")
    {'JobId': '1', 'JobName': 'my job', 'UserId': 'dev(999)', 'Power': ''}
    """
    return dict(re.findall(r"([A-Z][A-Za-z_/:]*)=(.*?)(?=\s+[A-Z][A-Za-z_/:]*=|\s*$)", line.strip()))


def parse_limit(text: str) -> float:
    """Seconds of DAYS-HOURS:MINUTES:SECONDS; 0 for UNLIMITED and what is no time.

    >>> parse_limit("1-02:00:30"), parse_limit("00:10:00"), parse_limit("UNLIMITED")
    (93630.0, 600.0, 0.0)
    """
    found = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)", text)
    if not found:
        return 0.0
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def _user(name: str, uid: str) -> pwd.struct_passwd:
    if name and not _USER.fullmatch(name):
        raise BadInput("--user", f"{name[:40]!r} is no name for a user")
    try:
        if name:
            return pwd.getpwnam(name)
        if uid:
            return pwd.getpwuid(int(uid))
    except (KeyError, ValueError):
        raise BadInput("--user", f"this machine knows no user {name or uid!r}") from None
    raise BadInput("--user", "is missing, and Slurm does not say either (SLURM_JOB_USER)")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _cpus(text: str) -> int:
    """Of all nodes: "2(x3),1" is 7; 0 for anything else."""
    parts = [re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part) for part in text.split(",")]
    return sum(int(part[1]) * int(part[2] or 1) for part in parts if part) if all(parts) else 0
