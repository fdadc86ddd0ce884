"""A job that starts or has ended, as a batch system or a script describes it."""

import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from forebay.act.command import CommandFailed, run
from forebay.act.slurm.output import parse_time_limit
from forebay.history.run_fields import MOST_PROCESSES
from forebay.model.errors import BadInput

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@\[\]-]{0,99}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,99}")
_TIMEOUT = 3.0  # seconds, for scontrol


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`app` is the application, if the user named it; `seconds` is the job's time limit, 0 if unknown."""

    job: str
    user: str
    uid: int
    gid: int
    name: str = ""
    app: str = ""
    nprocs: int = 1
    nodes: int = 1
    command: str = ""
    seconds: float = 0.0

    @property
    def number(self) -> int | None:
        """The digits at the start of the id, which Darshan and the accounting use.

        >>> Job(job="4711.pbs01", user="u", uid=1, gid=1).number
        4711
        """
        digits = re.match(r"\d{1,18}", self.job)
        return int(digits[0]) if digits else None


def identify_job(
    environment: Mapping[str, str], *, job: str = "", user: str = "", name: str = "", app: str = "", nprocs: int = 0
) -> Job:
    """Identify the job by the options, or else by the environment that Slurm gives to prologs and epilogs."""
    job = job or environment.get("SLURM_JOB_ID", "")
    if not job:
        raise BadInput("--job", "is required, as SLURM_JOB_ID is not set")
    if not _ID.fullmatch(job):
        raise BadInput("--job", f"{job[:40]!r} is not a valid job id")
    # This command may run inside another job, whose environment it then has.
    slurm = environment if job == environment.get("SLURM_JOB_ID") else {}
    account = _find_user(user or slurm.get("SLURM_JOB_USER", ""), slurm.get("SLURM_JOB_UID", ""))
    tasks = _parse_count(slurm.get("SLURM_JOB_NTASKS", "")) or _parse_cpus(slurm.get("SLURM_JOB_CPUS_PER_NODE", ""))
    if nprocs < 0 or (nprocs or tasks) > MOST_PROCESSES:
        raise BadInput("--nprocs", f"must be between 1 and {MOST_PROCESSES}, not {nprocs or tasks}")
    return Job(
        job=job,
        user=account.pw_name,
        uid=account.pw_uid,
        gid=account.pw_gid,
        name=name or slurm.get("SLURM_JOB_NAME", ""),
        app=app,
        nprocs=nprocs or tasks or 1,
        nodes=_parse_count(slurm.get("SLURM_JOB_NUM_NODES", "")) or 1,
    )


def query_controller(job: Job, nprocs: int) -> Job:
    """Add what Slurm's controller knows about the job; keep a given `nprocs`. Change nothing if it does not answer."""
    try:
        fields = parse_job(run(("scontrol", "-o", "show", "job", job.job), timeout=_TIMEOUT))
    except CommandFailed:
        return job
    return replace(
        job,
        name=job.name or fields.get("JobName", ""),
        command=fields.get("Command", ""),
        nprocs=nprocs or _parse_count(fields.get("NumTasks", "")) or job.nprocs,
        seconds=parse_time_limit(fields.get("TimeLimit", "")) or 0.0,
    )


def parse_job(line: str) -> dict[str, str]:
    """Parse the fields that `scontrol -o show job` prints; values may contain spaces.

    >>> parse_job("JobId=1 JobName=my job UserId=dev(999) Power= ")
    {'JobId': '1', 'JobName': 'my job', 'UserId': 'dev(999)', 'Power': ''}
    """
    return dict(re.findall(r"([A-Z][A-Za-z_/:]*)=(.*?)(?=\s+[A-Z][A-Za-z_/:]*=|\s*$)", line.strip()))


def _find_user(name: str, uid: str) -> pwd.struct_passwd:
    if name and not _USER.fullmatch(name):
        raise BadInput("--user", f"{name[:40]!r} is not a valid user name")
    try:
        if name:
            return pwd.getpwnam(name)
        if uid:
            return pwd.getpwuid(int(uid))
    except (KeyError, ValueError):
        raise BadInput("--user", f"unknown user {name or uid!r} on this machine") from None
    raise BadInput("--user", "is required, as SLURM_JOB_USER is not set")


def _parse_count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _parse_cpus(text: str) -> int:
    """Sum the CPUs of all nodes: "2(x3),1" is 7. Return 0 for invalid text."""
    parts = [re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part) for part in text.split(",")]
    return sum(int(part[1]) * int(part[2] or 1) for part in parts if part) if all(parts) else 0
