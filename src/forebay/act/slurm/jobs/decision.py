"""What a job gets: its application, its targets among the running jobs, its folder and the folder's layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from forebay.act.advice.decision import advise, check_usable, choose_filesystem, recorded_mount
from forebay.act.advice.stripe_view import JobRequest
from forebay.act.filesystems.filesystem import describe_layout
from forebay.act.filesystems.load import read_loads
from forebay.act.filesystems.settings import open_filesystem
from forebay.act.slurm.jobs.environment import (
    Preparation,
    format_targets,
    layout_variables,
    lease_name,
    select_variables,
)
from forebay.act.slurm.jobs.folder import acting_as, check_folder, create_folder, fill_pattern, shared_part
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import JobSettings
from forebay.act.slurm.jobs.target_share import allocate_targets, decide_share
from forebay.decide.registry import check_policy, find
from forebay.history.store import Connection, Store
from forebay.history.store.jobs import add_jobs, find_app_of_job_name, is_known_app
from forebay.model.errors import BadInput, ForebayError, why

_Part = tuple[dict[str, str], dict[str, str]]
"""Variables for the job, and fields for the log."""


def check_policies(settings: JobSettings) -> None:
    """Raise an error unless the policies that the file names exist and none of them simulates."""
    if settings.scratch is not None:
        check_policy("scratch.policy", "stripe", settings.scratch.policy)
    if settings.targets is not None:
        spec = check_policy("targets.allocate", "allocate", settings.targets.allocate)
        if find("allocate", spec).simulates:
            raise BadInput("targets.allocate", f"{spec!r} simulates, which takes too long for a job; choose another")


def prepare_job(
    store: Store, settings: JobSettings, job: Job, *, now: float, until: float, chance: float
) -> Preparation:
    """Decide all of it, and lease targets to the job until then; a step that fails does not affect the others."""
    check_policies(settings)
    with store.writing() as connection:
        app = find_application(connection, job)
        if job.number is not None:  # so that the runs in its logs can be found by its name
            row = {"job_id": job.number, "job_name": job.name or None, "user": job.user, "nodes": job.nodes}
            times = {"submit_time": None, "job_start_time": now, "job_end_time": None, "state": None}
            add_jobs(connection, [row | times])
    request = JobRequest(job=job.job, app=app, nprocs=job.nprocs, now=now, until=until, chance=chance)
    variables, log_fields, troubles = {"FOREBAY_APP": app}, dict[str, str](), list[str]()
    for step in (_prepare_targets, _prepare_folder, _prepare_layout):
        try:
            more_variables, more_fields = step(store, settings, job, request)
        except (ForebayError, OSError) as error:
            troubles.append(why(error) if isinstance(error, OSError) else str(error))
            if step is _prepare_folder:  # without it there is nothing to lay out
                break
        else:
            variables |= more_variables
            log_fields |= more_fields
    environment = {} if settings.jobs.mode == "shadow" else select_variables(variables)
    return Preparation(app=app, environment=environment, log_fields=log_fields, troubles=tuple(troubles))


def find_application(connection: Connection, job: Job) -> str:
    """The application that a job runs.

    That is the one that somebody named; else the command or the job's name, if the history knows such an application;
    else what the user's last job of that name ran; else the job's name, under which the history will know it.
    """
    if job.app:
        return job.app
    command = job.command.split(" ")[0].rpartition("/")[2]
    for name in (command, job.name):
        if name and is_known_app(connection, name):
            return name
    earlier = find_app_of_job_name(connection, job.name, job.user) if job.name else None
    return earlier or job.name or command or "unknown"


def _prepare_targets(store: Store, settings: JobSettings, _job: Job, request: JobRequest) -> _Part:
    """Targets that are not those of the file system."""
    targets = settings.targets
    if targets is None or targets.count is None:
        return {}, {}
    if settings.jobs.mode == "shadow":
        with store.reading() as connection:
            share = decide_share(connection, targets, request, targets.count, targets.name)
        return {}, {"targets": f"{share.count} of {targets.count}", "targets_because": share.because}
    with store.writing() as connection:
        chosen, because = allocate_targets(connection, targets, request)
    text = format_targets(chosen)
    return {"FOREBAY_TARGETS": text}, {"targets": text, "targets_because": because}


def _prepare_folder(_store: Store, settings: JobSettings, job: Job, _request: JobRequest) -> _Part:
    """The job's folder, which it can use even without a layout."""
    scratch = settings.scratch
    if scratch is None or settings.jobs.mode == "shadow":
        return {}, {}
    if scratch.make:
        folder = create_folder(scratch.folder, job)
    else:
        folder = Path(fill_pattern(scratch.folder, job))
        check_folder(folder, job)
    return {"FOREBAY_SCRATCH": str(folder)}, {"folder": str(folder)}


def _prepare_layout(store: Store, settings: JobSettings, job: Job, request: JobRequest) -> _Part:
    """Advise and apply; the allocation among running jobs, if there is one, limits the stripe count."""
    scratch, targets, shadow = settings.scratch, settings.targets, settings.jobs.mode == "shadow"
    if scratch is None:
        return {}, {}
    filesystem, above = scratch.settings, shared_part(scratch.folder)
    folder = Path(fill_pattern(scratch.folder, job))
    files = open_filesystem(filesystem)
    current = files.targets(above)
    if not shadow:  # else the folder may not exist
        with acting_as(job):
            current = files.restrict(current, folder)
    check_usable(current, filesystem.name or str(above))
    system = lease_name(filesystem)
    mount = choose_filesystem(store, request.app, recorded_mount(filesystem), above).mount
    if targets is not None and targets.count is None:
        with store.reading() as connection:
            share = decide_share(connection, targets, request, sum(t.usable for t in current), system, mount)
        files = replace(files, max_count=min(share.count, files.max_count))
    advice = advise(
        store,
        replace(request, system=system, filesystem=mount),
        find("stripe", scratch.policy),
        replace(files, identity=lambda: acting_as(job)),
        current,
        read_loads(filesystem),
        apply_to=folder,
        shadow=shadow,
    )
    fields = {"layout": describe_layout(advice.layout), "because": advice.striping.reason, "outcome": advice.outcome}
    return layout_variables(advice.layout, advice.striping.targets), fields
