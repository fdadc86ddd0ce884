"""Makes the service's grants and Slurm's jobs agree, and starts jobs again that Slurm would never start.

A job's teardown releases its space. If that did not happen (the service did not answer for long, slurmctld lost its
state), the grant would live to its end: `reconcile` releases it as soon as Slurm has no such job, and extends the space
of jobs that wait or run longer than expected.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from forebay.act.command import CommandFailed
from forebay.act.control.client import Client, TurnedAway
from forebay.act.control.documents import GrantDocument
from forebay.act.slurm.burst_buffer.installation import JOBS
from forebay.act.slurm.burst_buffer.staging import KEPT
from forebay.act.slurm.burst_buffer.stuck_jobs import Repair, find_stuck
from forebay.act.slurm.queue import QueuedJob, Slurm
from forebay.model.grant import LIVE

_WAITS = frozenset({"PENDING", "CONFIGURING"})
_RUNS = frozenset({"RUNNING", "SUSPENDED"})
_NO_BUFFER = frozenset({"pending", "complete"})
_SLACK = 60.0
"""Seconds by which a running job's space may end too early: Slurm prints the time left in whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Seconds: for a job without a limit, for stage-out after a job, and for a job that waits longer than expected.

    A new grant is left alone for `grace`: Slurm may have requested it while its jobs were being read.
    """

    time: float
    margin: float
    queue: float
    grace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What was done to a grant or a job, or why it failed; `advice` is for what the administrator must do."""

    grant: str = ""
    job: str
    what: str
    because: str
    advice: str = ""
    until: float = 0.0
    """The new end of an extended grant, in seconds since 1970."""


def reconcile(client: Client, cluster: str, conf: Path | None, terms: Terms) -> list[Action]:
    """What was done, grant by grant and job by job. If Slurm does not answer, nothing is: it may have more jobs.

    The service is read first: a job that had a grant then is known to Slurm now, or has ended since.
    """
    grants, longest = list(client.live_grants()), client.rules()["longest"]
    slurm = Slurm(conf)
    jobs, buffers, state = slurm.list_jobs(), slurm.list_buffers(), slurm.find_state_folder()
    notes = _Notes(None if state is None else state / JOBS)
    checked = [grant for grant in grants if not notes.is_kept(grant, job_number(grant, cluster))]
    corrections = find_corrections(
        checked, jobs, buffers, cluster=cluster, terms=terms, now=time.time(), longest=longest, times=notes.read_times()
    )
    actions = [_correct(client, correction) for correction in corrections]
    torn_down = {job.number for job in jobs.values() if _is_torn_down(client, cluster, job, terms.grace)}
    repairs = find_stuck(jobs.values(), buffers, torn_down, {})
    if any(repair.what == "requeue" for repair in repairs):
        repairs = find_stuck(jobs.values(), buffers, torn_down, slurm.list_dependents())
    actions += _check_requeued([(repair, _repair(repair, slurm)) for repair in repairs], slurm)
    notes.forget_except({*jobs, *(job_number(grant, cluster) for grant in grants)})
    return actions


def job_number(grant: GrantDocument, cluster: str) -> str:
    """The number of the job that a grant is for; "" if it is not one of this cluster.

    >>> [job_number({"key": key}, "hpc") for key in ("slurm-hpc-4711.2", "slurm-hpc2-7", "x")]
    ['4711', '', '']
    """
    key = re.fullmatch(rf"slurm-{re.escape(cluster)}-(\d+)(?:\.\d+)?", str(grant["key"]))
    return key[1] if key else ""


def find_corrections(
    grants: Iterable[GrantDocument],
    jobs: Mapping[str, QueuedJob],
    buffers: frozenset[str],
    *,
    cluster: str,
    terms: Terms,
    now: float,
    longest: float = math.inf,
    times: Mapping[str, float] | None = None,
) -> list[Action]:
    """The grants to release or extend, given Slurm's jobs and those with a burst buffer of Slurm's own.

    `longest` is the seconds that a grant can last, `times` the seconds that jobs requested themselves.
    """
    corrections = []
    for grant in grants:
        number = job_number(grant, cluster)
        if not number or grant["state"] == "releasing":
            continue
        job = jobs.get(number)
        if job is None or _needs_no_space(job, buffers):
            if (job is not None or number not in buffers) and now - grant["created"] >= terms.grace:
                because = f"job {number} {_describe_state(job)}"
                corrections.append(Action(grant=grant["id"], job=number, what="release", because=because))
        elif grant["state"] in ("ready", "in-use"):
            until = min(_needed_until(job, (times or {}).get(number), grant, terms, now), grant["start"] + longest)
            if grant["until"] < until:
                because = f"job {number} still {'waits' if job.state in _WAITS else 'runs'}"
                action = Action(grant=grant["id"], job=number, what="extend", because=because, until=until)
                corrections.append(action)
    return corrections


def _needs_no_space(job: QueuedJob, buffers: frozenset[str]) -> bool:
    """Whether it is over, or Slurm has not begun to set up its burst buffer.

    The rest of an earlier set-up could keep Slurm from ever beginning again: it takes the space that the job needs.
    """
    if job.is_torn_down:
        return True
    is_over = job.is_over or (job.state == "PENDING" and job.buffer in _NO_BUFFER)
    return is_over and job.number not in buffers


def _describe_state(job: QueuedJob | None) -> str:
    if job is None:
        return "is gone"
    return f"is {job.state.lower()}" if job.is_over else "waits without a burst buffer"


def _needed_until(job: QueuedJob, time: float | None, grant: GrantDocument, terms: Terms, now: float) -> float:
    """Until when its grant must last at least; 0 if that is not known."""
    if job.state in _WAITS:
        needed = now + (time or job.limit or terms.time) + terms.margin
        return needed + terms.queue if grant["until"] < needed else 0.0
    if job.state not in _RUNS or time is not None:
        return 0.0
    if job.left is not None:
        needed = now + job.left + terms.margin
        return needed if grant["until"] < needed - _SLACK else 0.0
    if job.limit is None and grant["until"] < now + terms.margin:
        return now + terms.time + terms.margin
    return 0.0


@dataclass(frozen=True, slots=True)
class _Notes:
    """What the hooks keep of jobs; None if this is not the machine of slurmctld."""

    folder: Path | None

    def is_kept(self, grant: GrantDocument, job: str) -> bool:
        """Whether its stage-out failed; then it lives to its end."""
        if self.folder is not None and job and (self.folder / f"{job}.failed").is_file():
            return True
        return grant["path"] != "" and (Path(grant["path"]) / KEPT).is_file()

    def read_times(self) -> dict[str, float]:
        """By job number, the seconds for which jobs requested their space."""
        times = {}
        for note in self._list():
            with suppress(OSError, ValueError, KeyError, TypeError):
                times[note.name] = float(json.loads(note.read_bytes())["time"])
        return times

    def forget_except(self, numbers: Collection[str]) -> None:
        """Remove what a lost teardown left behind."""
        for note in self._list():
            if note.name.partition(".")[0] not in numbers:
                note.unlink(missing_ok=True)

    def _list(self) -> list[Path]:
        try:
            return [] if self.folder is None else list(self.folder.iterdir())
        except OSError:
            return []


def _is_torn_down(client: Client, cluster: str, job: QueuedJob, grace: float) -> bool:
    """Whether a job waits for a teardown that has had nothing to do for a while."""
    if job.state != "PENDING" or job.buffer != "teardown":
        return False
    return all(
        grant["state"] not in {state.value for state in LIVE} and time.time() - grant["changed"] >= grace
        for grant in client.grants_with_key(f"slurm-{cluster}-{job.number}")
    )


def _correct(client: Client, action: Action) -> Action:
    try:
        if action.what == "release":
            client.release(action.grant, action.because)
        else:
            client.extend_until(action.grant, action.until)
    except TurnedAway as error:
        return replace(action, what=f"{action.what} failed", because=f"{action.because}: {error}")
    return action


def _repair(repair: Repair, slurm: Slurm) -> Action:
    job = repair.job
    action = Action(job=job.name, what=repair.what, because=repair.because, advice=repair.advice)
    try:
        if repair.what == "requeue":
            slurm.requeue(job)
        if repair.what == "unhold" or (repair.what == "requeue" and job.is_held and job.reason != "JobHeldUser"):
            slurm.run("scontrol", "release", job.name)
    except CommandFailed as error:
        advice = f"look at the job: scontrol show job {job.name}"
        return replace(action, what=f"{repair.what} failed", because=f"{repair.because}: {error}", advice=advice)
    return action


def _check_requeued(done: list[tuple[Repair, Action]], slurm: Slurm) -> list[Action]:
    """The actions, with those that Slurm did not do: it tears nothing down for a job that it has not examined yet."""
    jobs = slurm.list_jobs() if any(action.what == "requeue" for _, action in done) else {}
    actions = []
    for repair, action in done:
        job = jobs.get(repair.job.number)
        is_unchanged = job is not None and job.state == "PENDING" and job.buffer == repair.job.buffer != "teardown"
        if action.what == "requeue" and job is not None and is_unchanged:
            because = f"{repair.because}: Slurm still has it as {job.buffer}"
            advice = "run this again in a minute"
            action = replace(action, what="requeue failed", because=because, advice=advice)
        actions.append(action)
    return actions
