"""Before a job: the first of its nodes decides what it gets, and each node writes its environment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forebay.act.slurm.jobs.environment import Preparation, read_variables, write_environment
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import JobSettings
from forebay.history.store import Store
from forebay.history.store.jobs import begin_job, forget_job, is_decided, mark_decided
from forebay.model.errors import UserError

_SLACK = 600.0
"""Seconds that a job keeps its targets beyond its time limit, for a late epilog."""
_POLL = 0.1
_PATIENCE = 2.0
"""Seconds to wait for a service that does not answer, while the job waits."""


def run_prolog(
    store: Store,
    settings: JobSettings,
    job: Job,
    look_up: Callable[[Job], Job],
    *,
    now: float,
    chance: float,
    pause: Callable[[float], None] = time.sleep,
) -> Preparation:
    """Prepare a job. Only the first of its nodes decides; each writes the environment for the tasks on it.

    `look_up` adds what Slurm knows of the job; only the node that decides calls it. In shadow mode everything is
    decided and recorded, and nothing is leased, set or written.
    """

    def decide(full: Job) -> Preparation:
        # Policies take most of a second to load, and the other nodes need none.
        from forebay.act.slurm.jobs.decision import prepare_job

        return prepare_job(store, settings, full, now=now, until=_lease_end(settings, full, now), chance=chance)

    if settings.jobs.mode == "shadow":
        return decide(look_up(job))
    with store.writing() as connection:
        is_first = begin_job(connection, job.job, until=now + settings.jobs.lease, now=now)
    if is_first:
        full = look_up(job)
        # The other nodes wait until this one has finished, well or not.
        try:
            preparation = decide(full)
        except BaseException:
            with store.writing() as connection:
                forget_job(connection, job.job)
            raise
        finally:
            with store.writing() as connection:
                mark_decided(connection, job.job, until=_lease_end(settings, full, now), now=now)
    else:
        preparation = _await_decision(store, settings, job, now, pause)
    preparation = _add_space(preparation, settings, job)
    write_environment(settings, job, preparation.environment)
    return preparation


def _add_space(preparation: Preparation, settings: JobSettings, job: Job) -> Preparation:
    """Mount the exposed space of the job on this node. Only the first node of a job can mount a volume."""
    if settings.space is None:
        return preparation
    from forebay.act.control.client import Client, parse_service
    from forebay.act.volumes.attach import Attachments, attach_grant, list_job_grants

    space, paths, troubles = settings.space, list[str](), list[str]()
    node, service = Attachments(folder=Path(space.folder)), parse_service(space.service, "space.service")
    try:
        with Client(service, token=space.token, authority=space.authority, patience=_PATIENCE) as client:
            for grant in list_job_grants(client, job.user, job.job):
                try:
                    paths += [str(volume.path) for volume in attach_grant(client, node, grant, job=job.job)]
                except UserError as error:
                    troubles.append(str(error))
    except UserError as error:
        troubles.append(str(error))
    variables = {"FOREBAY_PATH": paths[0], "FOREBAY_PATHS": ":".join(paths)} if paths else {}
    return replace(
        preparation,
        environment={**preparation.environment, **variables},
        log_fields={**preparation.log_fields, **({"space": variables["FOREBAY_PATHS"]} if variables else {})},
        troubles=(*preparation.troubles, *troubles),
    )


def _lease_end(settings: JobSettings, job: Job, now: float) -> float:
    return now + (job.seconds + _SLACK if job.seconds else settings.jobs.lease)


def _await_decision(
    store: Store, settings: JobSettings, job: Job, now: float, pause: Callable[[float], None]
) -> Preparation:
    """The decision of the first node; the time limit of the prolog ends the wait."""
    while True:
        with store.reading() as connection:
            if is_decided(connection, job.job, now):
                environment = read_variables(connection, settings, job, now)
                app = environment.get("FOREBAY_APP", "")
                return Preparation(app=app, environment=environment, log_fields={"decided": "already"})
        pause(_POLL)
