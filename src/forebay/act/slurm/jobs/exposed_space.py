"""A job's space that is exposed by other nodes: mounted where the job runs, and taken away after it."""

from __future__ import annotations

from forebay.act.control.client import Client
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import Space
from forebay.act.volumes.attach.attachments import Attachments
from forebay.act.volumes.attach.grant_volumes import attach_grant, grants_of_job
from forebay.model.errors import UserError

_PATIENCE = 2.0
"""Seconds for a service that is away to come back: a job waits for it."""


def attached_for(space: Space, job: Job) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the job is told of its space, and what went wrong. A node that is not the first has nothing to tell: a
    volume's file system is not shared."""
    node, paths, troubles = Attachments(folder=space.folder), [], []
    with Client(space.service, token=space.token, authority=space.authority, patience=_PATIENCE) as client:
        for grant in grants_of_job(client, job.user, job.job):
            try:
                paths += [str(one.path) for one in attach_grant(client, node, grant, job=job.job)]
            except UserError as error:
                troubles.append(str(error))
    told = {"FOREBAY_PATH": paths[0], "FOREBAY_PATHS": ":".join(paths)} if paths else {}
    return told, tuple(troubles)


def detached_after(space: Space, job: Job) -> tuple[str, ...]:
    """Take all away that was attached for the job; what went wrong."""
    node, troubles = Attachments(folder=space.folder), []
    for name in node.of_job(job.job):
        try:
            node.detach(name)
        except UserError as error:
            troubles.append(str(error))
    return tuple(troubles)
