"""A job's space on other nodes: mounted where the job runs, and unmounted after it."""

from __future__ import annotations

from pathlib import Path

from forebay.act.control.client import Client, parse_service
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import Space
from forebay.act.volumes.attach import Attachments, attach_grant, list_job_grants
from forebay.model.errors import UserError

_PATIENCE = 2.0
"""Seconds to wait for a service that does not answer, while the job waits."""


def attach_space(space: Space, job: Job) -> tuple[dict[str, str], tuple[str, ...]]:
    """Attach the job's grants; its variables, and the problems. Only the first node of a job can mount a volume."""
    node, paths, troubles = Attachments(folder=Path(space.folder)), list[str](), list[str]()
    service = parse_service(space.service, "space.service")
    with Client(service, token=space.token, authority=space.authority, patience=_PATIENCE) as client:
        for grant in list_job_grants(client, job.user, job.job):
            try:
                paths += [str(volume.path) for volume in attach_grant(client, node, grant, job=job.job)]
            except UserError as error:
                troubles.append(str(error))
    variables = {"FOREBAY_PATH": paths[0], "FOREBAY_PATHS": ":".join(paths)} if paths else {}
    return variables, tuple(troubles)


def detach_space(space: Space, job: Job) -> tuple[str, ...]:
    """Detach everything that was attached for the job; the problems."""
    node, troubles = Attachments(folder=Path(space.folder)), []
    for name in node.list_names(job=job.job):
        try:
            node.detach(name)
        except UserError as error:
            troubles.append(str(error))
    return tuple(troubles)
