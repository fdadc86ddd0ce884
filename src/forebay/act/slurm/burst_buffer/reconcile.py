"""Looks at Slurm's jobs and at the service's grants, and does what makes them agree."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from forebay.act.command import CommandFailed, run
from forebay.act.control.client import Client, TurnedAway
from forebay.act.control.documents import GrantDocument
from forebay.act.slurm.burst_buffer.grant_corrections import Mend, Terms, job_of, mends
from forebay.act.slurm.burst_buffer.installation import JOBS
from forebay.act.slurm.burst_buffer.queue import QueuedJob, buffers, dependents, environment, jobs, state_folder
from forebay.act.slurm.burst_buffer.staging import KEPT
from forebay.act.slurm.burst_buffer.stuck_jobs import Repair, find_stuck
from forebay.model.grant import LIVE

_PATIENCE = 60.0


def mend(client: Client, cluster: str, conf: Path | None, terms: Terms) -> list[dict[str, object]]:
    """What was done, grant by grant and job by job. Where Slurm can't be asked, nothing is: it may know jobs that we
    don't see.

    The service is asked first: a job that was there then is there for Slurm now, or has ended since.
    """
    live, longest = list(client.live_grants()), client.rules()["longest"]
    known, own = jobs(conf), buffers(conf)
    folder = state_folder(conf)
    notes = None if folder is None else folder / JOBS
    held = [grant for grant in live if not _is_kept(grant, job_of(grant, cluster), notes)]
    found = mends(held, known, own, cluster=cluster, terms=terms, now=time.time(), longest=longest, times=_times(notes))
    done = [_do(client, one) for one in found]
    torn_down = {job.number for job in known.values() if _is_torn_down(client, cluster, job, terms.grace)}
    waiting_for = dependents(conf) if _any_stuck(known, own, torn_down) else {}
    repairs = find_stuck(known.values(), own, torn_down, waiting_for)
    done += _look_again([(one, _repair(one, conf)) for one in repairs], conf)
    if notes is not None:
        _forget(notes, known, {job_of(grant, cluster) for grant in live})
    return done


def _any_stuck(known: Mapping[str, QueuedJob], own: Collection[str], torn_down: Collection[str]) -> bool:
    return any(one.what == "requeue" for one in find_stuck(known.values(), own, torn_down, {}))


def _is_kept(grant: GrantDocument, job: str, notes: Path | None) -> bool:
    """Whether its stage-out failed; then it stays to its end."""
    if notes is not None and job and (notes / f"{job}.failed").is_file():
        return True
    return grant["path"] != "" and (Path(grant["path"]) / KEPT).is_file()


def _times(notes: Path | None) -> dict[str, float]:
    """By jobs' numbers, the seconds for which those that said so want their space."""
    found = {}
    for note in _notes(notes):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found[note.name] = float(json.loads(note.read_bytes())["time"])
    return found


def _notes(notes: Path | None) -> list[Path]:
    """What the hooks keep of jobs; nothing where we are not on the machine of slurmctld."""
    try:
        return [] if notes is None else list(notes.iterdir())
    except OSError:
        return []


def _forget(notes: Path, known: Mapping[str, QueuedJob], live: Collection[str]) -> None:
    """What a lost teardown left there."""
    for note in _notes(notes):
        number = note.name.partition(".")[0]
        if number not in known and number not in live:
            note.unlink(missing_ok=True)


def _is_torn_down(client: Client, cluster: str, job: QueuedJob, grace: float) -> bool:
    """Whether a job waits for a teardown that has been nothing to do for a while."""
    if job.state != "PENDING" or job.buffer != "teardown":
        return False
    ended = client.grants_with_key(f"slurm-{cluster}-{job.number}")
    return all(
        grant["state"] not in {state.value for state in LIVE} and time.time() - grant["changed"] >= grace
        for grant in ended
    )


def _do(client: Client, one: Mend) -> dict[str, object]:
    told: dict[str, object] = {
        "grant": one.grant, "job": one.job, "what": one.what, "because": one.because, "advice": ""}  # fmt: skip
    try:
        if one.what == "release":
            client.release(one.grant, one.because)
        else:
            client.extend_until(one.grant, one.until)
    except TurnedAway as error:
        return told | {"what": f"{one.what} failed", "because": f"{one.because}: {error}"}
    return told


def _repair(one: Repair, conf: Path | None) -> dict[str, object]:
    told: dict[str, object] = {
        "grant": "", "job": one.job.name, "what": one.what, "because": one.because, "advice": one.advice}  # fmt: skip
    if one.what == "report":
        return told
    try:
        if one.what == "requeue":
            _requeue(one.job, conf)
        if one.what == "unhold" or (one.job.is_held and one.job.reason != "JobHeldUser"):
            _command(conf, "scontrol", "release", one.job.name)
    except CommandFailed as error:
        advice = f"look at the job: scontrol show job {one.job.name}"
        return told | {"what": f"{one.what} failed", "because": f"{one.because}: {error}", "advice": advice}
    return told


def _look_again(done: list[tuple[Repair, dict[str, object]]], conf: Path | None) -> list[dict[str, object]]:
    """What was done, where Slurm did it: it tears down nothing for a job that it has not looked at since its start."""
    requeued = {told["job"] for _, told in done if told["what"] == "requeue"}
    now = jobs(conf) if requeued else {}
    for one, told in done:
        job = now.get(one.job.number)
        if (
            told["job"] in requeued
            and job is not None
            and job.state == "PENDING"
            and job.buffer == one.job.buffer != "teardown"
        ):
            told |= {"what": "requeue failed", "because": f"{one.because}: Slurm still has it as {job.buffer}"}
            told["advice"] = "run this again in a minute"
    return [told for _, told in done]


def _requeue(job: QueuedJob, conf: Path | None) -> None:
    """Cancelled, it is torn down; requeued, it begins again, now and not after the two minutes that Slurm lets pass."""
    if not job.requeues:
        _command(conf, "scontrol", "update", f"JobId={job.name}", "Requeue=1")
    _command(conf, "scancel", job.name)
    _command(conf, "scontrol", "requeue", job.name)
    _command(conf, "scontrol", "update", f"JobId={job.name}", "StartTime=now")
    if not job.requeues:
        _command(conf, "scontrol", "update", f"JobId={job.name}", "Requeue=0")


def _command(conf: Path | None, *words: str) -> None:
    run((*environment(conf), *words), timeout=_PATIENCE)
