"""What a job gets: its application, its targets among the running jobs, its folder and the layout of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from forebay.act.advice.decision import Advice, advise, check_usable, choose_filesystem, recorded_mount
from forebay.act.advice.stripe_view import JobRequest
from forebay.act.filesystems.filesystem import describe_layout
from forebay.act.filesystems.load import read_loads
from forebay.act.filesystems.settings import open_filesystem
from forebay.act.slurm.jobs.environment import Told, chosen, layout_words, numbers, system_of
from forebay.act.slurm.jobs.folder import acting_as, check_folder, filled, fixed_part, make_folder
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.policies import check_policies
from forebay.act.slurm.jobs.settings import JobsFile, Scratch, Targets
from forebay.act.slurm.jobs.target_share import Newcomer, how_many, share_out
from forebay.decide.registry import find
from forebay.history.store import Connection, Store
from forebay.history.store.jobs import add_jobs
from forebay.history.store.running_jobs import find_app_of_job_name, is_known_app
from forebay.model.errors import ForebayError, why


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Of what is decided: what the job is told, and what the log is."""

    told: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Any] = field(default_factory=dict)


def decided(store: Store, rules: JobsFile, job: Job, *, now: float, until: float, chance: float) -> Told:
    """All of it, and kept for the job until then; of what goes wrong with one part, the others know nothing."""
    check_policies(rules)
    with store.writing() as connection:
        app = application(connection, job)
        _note_job(connection, job, now)
    new = Newcomer(job=job.job, app=app, nprocs=job.nprocs, now=now, until=until, chance=chance)
    parts, troubles = [_Part(told={"FOREBAY_APP": app})], []
    for step in (_shared, _folder_told, _laid_out):
        try:
            parts.append(step(store, rules, job, new))
        except (ForebayError, OSError) as error:
            troubles.append(why(error) if isinstance(error, OSError) else str(error))
            if step is _folder_told:  # there is nothing to give a layout to
                break
    told = {name: value for part in parts for name, value in part.told.items()}
    words = {name: value for part in parts for name, value in part.words.items()}
    environment = {} if rules.mode == "shadow" else chosen(told)
    return Told(app=app, environment=environment, words=words, troubles=tuple(troubles))


def application(connection: Connection, job: Job) -> str:
    """As somebody says; else by the command or the job's name, if the history knows such an application; else what
    the last job of that name and user ran; else the job's name, for the history to come to know it."""
    if job.app:
        return job.app
    command = job.command.split(" ")[0].rpartition("/")[2]
    for name in (command, job.name):
        if name and is_known_app(connection, name):
            return name
    earlier = find_app_of_job_name(connection, job.name, job.user) if job.name else None
    return earlier or job.name or command or "unknown"


def _shared(store: Store, rules: JobsFile, _job: Job, new: Newcomer) -> _Part:
    """Targets of a kind of their own."""
    targets = rules.targets
    if targets is None or targets.count is None:
        return _Part()
    if rules.mode == "shadow":
        with store.reading() as connection:
            share = how_many(connection, targets, new, targets.count, targets.name)
        return _Part(words={"targets": f"{share.count} of {targets.count}", "targets_because": share.because})
    with store.writing() as connection:
        own, because = share_out(connection, targets, new)
    told = numbers(own)
    return _Part(told={"FOREBAY_TARGETS": told}, words={"targets": told, "targets_because": because})


def _folder_told(_store: Store, rules: JobsFile, job: Job, _new: Newcomer) -> _Part:
    """The job's folder, which must be there before it can have a layout, and is of use without one."""
    scratch = rules.scratch
    if scratch is None or rules.mode == "shadow":
        return _Part()
    if scratch.make:
        folder = make_folder(scratch.folder, job)
    else:
        folder = Path(filled(scratch.folder, job))
        check_folder(folder, job)
    return _Part(told={"FOREBAY_SCRATCH": str(folder)}, words={"folder": str(folder)})


def _laid_out(store: Store, rules: JobsFile, job: Job, new: Newcomer) -> _Part:
    if rules.scratch is None:
        return _Part()
    advice = _advised(store, rules.scratch, rules.targets, job, new, shadow=rules.mode == "shadow")
    words = {"layout": describe_layout(advice.layout), "because": advice.striping.reason, "outcome": advice.outcome}
    return _Part(told=layout_words(advice.layout, advice.striping.targets), words=words)


def _advised(
    store: Store, scratch: Scratch, targets: Targets | None, job: Job, new: Newcomer, *, shadow: bool
) -> Advice:
    """With no more stripes than the allocation among running jobs leaves to this one, if one is asked for."""
    settings, above = scratch.settings, fixed_part(scratch.folder)
    folder = Path(filled(scratch.folder, job))
    there = open_filesystem(settings).targets(above)
    if not shadow:  # there is a folder by now
        with acting_as(job):
            there = open_filesystem(settings).restrict(there, folder)
    check_usable(there, settings.name or str(above))
    mount = choose_filesystem(store, new.app, recorded_mount(settings), above).mount
    if targets is not None and targets.count is None:
        with store.reading() as connection:
            share = how_many(connection, targets, new, sum(t.usable for t in there), system_of(settings), mount)
        settings = settings.model_copy(update={"max_count": min(share.count, settings.max_count or share.count)})
    asked = JobRequest(
        app=new.app, nprocs=new.nprocs, now=new.now, chance=new.chance, job=new.job, until=new.until,
        system=system_of(settings), filesystem=mount,
    )  # fmt: skip
    files = replace(open_filesystem(settings), identity=lambda: acting_as(job))
    policy = find("stripe", scratch.policy)
    return advise(store, asked, policy, files, there, read_loads(settings), apply_to=folder, shadow=shadow)


def _note_job(connection: Connection, job: Job, now: float) -> None:
    """So that the runs of its logs can be found by its name."""
    if job.number is None:
        return
    row = {"job_id": job.number, "job_name": job.name or None, "user": job.user, "nodes": job.nodes}
    times = {"submit_time": None, "job_start_time": now, "job_end_time": None, "state": None}
    add_jobs(connection, [row | times])
