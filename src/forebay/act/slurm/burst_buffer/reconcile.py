"""Makes the service's grants agree with Slurm's jobs, and repairs jobs that Slurm would never start.

A job's teardown releases its space. If the teardown is lost (the service did not answer for long, or slurmctld lost its
state), the grant would live to its end. `reconcile` releases it as soon as Slurm no longer has the job. It also extends
the space of jobs that wait or run longer than expected.

If Slurm is stuck in a state of a job's burst buffer, `reconcile` cancels and requeues the job, which keeps its number:
nothing else makes Slurm start over. If Slurm holds a job because the service did not answer, `reconcile` releases the
job. It reports all other jobs that are held because of their burst buffer, with the reason.
"""

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
from forebay.act.slurm.burst_buffer.queued_jobs import QueuedJob, Slurm
from forebay.act.slurm.burst_buffer.staging import KEPT
from forebay.model.errors import BadInput
from forebay.model.grant import AVAILABLE, ENDED, LIVE, State

AWAY = "[service-away]"
"""The end of a hook's reason if the service did not answer; the same as in lua/forebay.lua."""
_PLUGIN = "burst_buffer/lua: "
_PRE_RUN = "Burst buffer pre_run error"
_WITH_DATA = frozenset({"running", "suspended", "post-run", "staging-out", "staged-out"})
_WAITS = frozenset({"PENDING", "CONFIGURING"})
_RUNS = frozenset({"RUNNING", "SUSPENDED"})
_NO_BUFFER = frozenset({"pending", "complete"})
_GIVEN_BACK = frozenset({State.RELEASING, *ENDED})
_SLACK = 60.0  # seconds that a running job's space may end too early: Slurm prints the time left in whole seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Times in seconds: for a job without a limit, for stage-out, and for a job that waits longer than expected.

    `reconcile` ignores a new grant for `grace`: Slurm may have requested it while `reconcile` read the jobs.
    """

    time: float
    margin: float
    queue: float
    grace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action on a grant (release, extend) or a job (requeue, unhold, report); `advice` is for the administrator."""

    grant: str = ""
    job: str
    what: str
    because: str
    advice: str = ""
    until: float = 0.0
    """The new end of an extended grant, in seconds since 1970."""


def reconcile(client: Client, cluster: str, conf: Path | None, terms: Terms) -> list[Action]:
    """Repair grants and jobs; return the actions. If Slurm does not answer, do nothing: it may have more jobs.

    Read the service first: any job that had a grant then is known to Slurm now, or has ended since.
    """
    grants, longest = list(client.live_grants()), client.rules()["longest"]
    slurm = Slurm(conf)
    jobs, buffers, config = slurm.list_jobs(), slurm.list_buffers(), slurm.read_config()
    name = config.get("ClusterName", cluster)
    if name.lower() != cluster.lower():  # else all grants of another cluster would seem to be of jobs that are gone
        raise BadInput("--cluster", f"this Slurm is the cluster {name!r}, not {cluster!r}")
    notes = _list_notes(config.get("StateSaveLocation", ""))
    checked = [grant for grant in grants if not _is_kept(grant, job_number(grant, cluster), notes)]
    corrections = find_corrections(
        checked, jobs, buffers, cluster=cluster, terms=terms, now=time.time(), longest=longest, times=_read_times(notes)
    )
    actions = [done for correction in corrections if (done := _correct(client, correction)) is not None]
    torn_down = {job.number for job in jobs.values() if _is_torn_down(client, cluster, job, terms.grace)}
    repairs = find_repairs(jobs.values(), buffers, torn_down, {})
    if any(repair.what == "requeue" for _, repair in repairs):
        repairs = find_repairs(jobs.values(), buffers, torn_down, slurm.list_dependents())
    actions += _check_requeued([(job, _repair(slurm, job, repair)) for job, repair in repairs], slurm)
    known = {*jobs, *(job_number(grant, cluster) for grant in grants)}
    for note in notes:
        if note.name.partition(".")[0] not in known:  # a lost teardown left it behind
            note.unlink(missing_ok=True)
    return actions


def job_number(grant: GrantDocument, cluster: str) -> str:
    """Return the number of the grant's job, or "" if the grant is not from this cluster.

    >>> [job_number({"key": key}, "hpc") for key in ("slurm-hpc-4711.2", "slurm-hpc2-7", "x")]
    ['4711', '', '']
    """
    key = re.fullmatch(rf"slurm-{re.escape(cluster)}-(\d+)(?:\.\d+)?", str(grant["key"]))
    return key[1] if key else ""


def _list_notes(state: str) -> list[Path]:
    """What the hooks keep of jobs; nothing if this is not the machine of slurmctld."""
    with suppress(OSError):
        return list((Path(state) / JOBS).iterdir()) if state.startswith("/") else []
    return []


def _read_times(notes: list[Path]) -> dict[str, float]:
    """Read the seconds for which jobs requested their space, by job number."""
    times = {}
    for note in notes:
        with suppress(OSError, ValueError, KeyError, TypeError):
            times[note.name] = float(json.loads(note.read_bytes())["time"])
    return times


def _is_kept(grant: GrantDocument, job: str, notes: list[Path]) -> bool:
    """Return whether the grant's stage-out failed: then it lives to its end."""
    if job and any(note.name == f"{job}.failed" and note.is_file() for note in notes):
        return True
    staging = grant["staging"]
    if staging is not None and (staging["way"], staging["state"]) == ("out", "failed"):
        return True
    return grant["path"] != "" and (Path(grant["path"]) / KEPT).is_file()


# Grants.


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
    """Find the grants to release or extend. `buffers` are the jobs for which Slurm has a burst buffer.

    `longest` is the longest time of a grant, and `times` are those that jobs requested, in seconds.
    """
    corrections = []
    for grant in grants:
        number = job_number(grant, cluster)
        if not number or grant["state"] == State.RELEASING:
            continue
        job = jobs.get(number)
        if job is None or _needs_no_space(job, buffers):
            if (job is not None or number not in buffers) and now - grant["created"] >= terms.grace:
                state = f"is {job.state.lower()}" if job and job.is_over else "waits without a burst buffer"
                because = f"job {number} {state if job else 'is gone'}"
                corrections.append(Action(grant=grant["id"], job=number, what="release", because=because))
        elif grant["state"] in AVAILABLE:
            until = min(_needed_until(job, (times or {}).get(number), grant, terms, now), grant["start"] + longest)
            if grant["until"] < until:
                because = f"job {number} still {'waits' if job.state in _WAITS else 'runs'}"
                action = Action(grant=grant["id"], job=number, what="extend", because=because, until=until)
                corrections.append(action)
    return corrections


def _needs_no_space(job: QueuedJob, buffers: frozenset[str]) -> bool:
    """Return whether the job is over, or Slurm has not begun to set up its burst buffer.

    A grant from an earlier set-up could keep Slurm from ever starting over: it takes the space that the job needs.
    """
    if job.is_torn_down:
        return True
    is_over = job.is_over or (job.state == "PENDING" and job.buffer in _NO_BUFFER)
    return is_over and job.number not in buffers


def _needed_until(job: QueuedJob, time: float | None, grant: GrantDocument, terms: Terms, now: float) -> float:
    """Return the time until which the job's grant must last, or 0 if that is unknown."""
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


def _correct(client: Client, action: Action) -> Action | None:
    """The action; None if it was not needed any more, because the job's own teardown came first."""
    try:
        if action.what == "release":
            if client.grant(action.grant)["state"] in _GIVEN_BACK:
                return None
            client.release(action.grant, action.because)
        else:
            client.extend_until(action.grant, action.until)
    except TurnedAway as error:
        return replace(action, what=f"{action.what} failed", because=f"{action.because}: {error}")
    return action


# Jobs.


def find_repairs(
    jobs: Iterable[QueuedJob],
    buffers: Collection[str],
    torn_down: Collection[str],
    dependents: Mapping[str, Collection[str]],
) -> list[tuple[QueuedJob, Action]]:
    """Find the jobs that Slurm will never start because of their burst buffer, and a repair for each.

    `buffers` are the jobs for which Slurm has a burst buffer, `torn_down` those with nothing left to tear down.
    """
    waiting = [job for job in jobs if job.state == "PENDING" and job.buffer]
    repairs = [(job, _find_repair(job, buffers, torn_down, dependents)) for job in waiting]
    return [(job, repair) for job, repair in repairs if repair is not None]


def _find_repair(
    job: QueuedJob, buffers: Collection[str], torn_down: Collection[str], dependents: Mapping[str, Collection[str]]
) -> Action | None:
    # Whether one of our hooks failed; Slurm may still be tearing down its burst buffer.
    is_held_by_us = job.is_held and (job.reason == _PRE_RUN or job.reason.startswith(_PLUGIN))
    reason = job.reason.removeprefix(_PLUGIN)
    if job.buffer == "pre-run":
        return _requeue(job, "its start failed, and Slurm does not try again", dependents)
    if job.buffer in ("staging-in", "alloc-revoke") and job.number not in buffers:
        return _requeue(job, "Slurm lost its burst buffer during set-up", dependents)
    if job.buffer == "teardown" and job.number in torn_down and not is_held_by_us:
        return _requeue(job, "Slurm waits for a teardown that it killed", dependents)
    if job.buffer in _WITH_DATA and job.number not in buffers:
        advice = f"copy what you need from its space (forebay storage list), then run scancel {job.name}"
        because = "Slurm lost its burst buffer before the stage-out"
        return Action(job=job.name, what="report", because=because, advice=advice)
    # A requeued job whose teardown failed once: Slurm keeps the reason even after a retry, and never starts the job.
    is_left_behind = not job.is_held and job.buffer == "complete" and job.reason.startswith(_PLUGIN)
    if is_left_behind or (is_held_by_us and (job.reason == _PRE_RUN or job.reason.endswith(AWAY))):
        return Action(job=job.name, what="unhold", because=reason.removesuffix(AWAY).rstrip())
    if not is_held_by_us:
        return None
    advice = f"correct this, then run scontrol release {job.name} (or scancel {job.name})"
    return Action(job=job.name, what="report", because=reason, advice=advice)


def _requeue(job: QueuedJob, because: str, dependents: Mapping[str, Collection[str]]) -> Action:
    """Return an action that requeues the job, or one that reports why that is not possible."""
    waiting = {name for number in (job.number, job.name.partition("_")[0]) for name in dependents.get(number, ())}
    if job.may_requeue and not waiting:
        return Action(job=job.name, what="requeue", because=because)
    obstacle = "Slurm can requeue only batch jobs"
    if waiting:
        obstacle = f"requeueing it would start or cancel jobs that depend on it: {', '.join(sorted(waiting))}"
    advice = f"{obstacle}; run scancel {job.name} and submit it again"
    return Action(job=job.name, what="report", because=because, advice=advice)


def _is_torn_down(client: Client, cluster: str, job: QueuedJob, grace: float) -> bool:
    """Return whether the job waits for a teardown that has had nothing to do for a while."""
    if job.state != "PENDING" or job.buffer != "teardown":
        return False
    return all(
        grant["state"] not in LIVE and time.time() - grant["changed"] >= grace
        for grant in client.grants_with_key(f"slurm-{cluster}-{job.number}")
    )


def _repair(slurm: Slurm, job: QueuedJob, action: Action) -> Action:
    try:
        if action.what == "requeue":
            slurm.requeue(job)
        if action.what == "unhold" or (action.what == "requeue" and job.is_held and job.reason != "JobHeldUser"):
            slurm.run("scontrol", "release", job.name)
    except CommandFailed as error:
        advice = f"run scontrol show job {job.name} to see its state"
        return replace(action, what=f"{action.what} failed", because=f"{action.because}: {error}", advice=advice)
    return action


def _check_requeued(done: list[tuple[QueuedJob, Action]], slurm: Slurm) -> list[Action]:
    """Mark requeues that Slurm did not do as failed: it tears nothing down for a job that it has not examined yet."""
    jobs = slurm.list_jobs() if any(action.what == "requeue" for _, action in done) else {}
    actions = []
    for before, action in done:
        job = jobs.get(before.number)
        is_unchanged = job is not None and job.state == "PENDING" and job.buffer == before.buffer != "teardown"
        if action.what == "requeue" and is_unchanged:
            because = f"{action.because}: its burst buffer is still in state {before.buffer}"
            action = replace(action, what="requeue failed", because=because, advice="run this again in a minute")
        actions.append(action)
    return actions
