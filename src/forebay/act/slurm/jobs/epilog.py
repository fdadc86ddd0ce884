"""The epilog: releases a job's targets and ingests its logs. A second run changes nothing."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from forebay.act.slurm.jobs.folder import fill_pattern
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.prolog import environment_file
from forebay.act.slurm.jobs.settings import Darshan, JobSettings
from forebay.history.darshan.ingest import SUFFIXES, Report, ingest
from forebay.history.store import Store
from forebay.history.store.running_jobs import forget_job, last_decision_time
from forebay.model.errors import UserError
from forebay.model.grant import SHARED_FOLDER
from forebay.profile.findings import examine_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilog:
    """The number of released targets, and the outcome of the ingestion."""

    freed: int
    logs: Report
    troubles: tuple[str, ...] = ()


def run_epilog(store: Store, settings: JobSettings, job: Job, *, now: float) -> Epilog:
    """Release the targets first: the other steps may take a while."""
    with store.open_writer() as connection:
        began = last_decision_time(connection, job.job, now)
        freed = forget_job(connection, job.job)
    environment_file(settings, job).unlink(missing_ok=True)
    report, troubles = Report(), list[str]()
    if settings.space is not None:
        from forebay.act.control.client import parse_service
        from forebay.act.volumes.attach import Attachments
        from forebay.act.volumes.shared_mount import list_mounts_of_job

        service = str(parse_service(settings.space.service, "space.service"))
        for mount in list_mounts_of_job(Path(SHARED_FOLDER), job.job, service):
            try:
                mount.unmount()
            except UserError as error:
                troubles.append(str(error))
        node = Attachments(folder=Path(settings.space.folder))
        for name in node.list_names(job=job.job):
            try:
                node.detach(name)
            except UserError as error:
                troubles.append(str(error))
    try:
        paths = list(find_logs(settings, job, began=began, now=now))
        if paths:
            report = ingest(store, paths, workers=1, examine=examine_records)
    except UserError as error:
        troubles.append(str(error))
    troubles += [f"{path}: {reason}" for path, kind, reason in report.listed if kind == "failed"]
    return Epilog(freed=freed, logs=report, troubles=tuple(troubles))


def find_logs(settings: JobSettings, job: Job, *, began: float | None, now: float) -> Iterator[Path]:
    """Find the logs that Darshan named after the job, in the folders of the days on which it ran."""
    if settings.darshan is None or job.number is None:
        return
    # Darshan uses the day on which a program began. Names are USER_PROGRAM_idJOB_… or, since 3.3, …_idJOB-PROCESS_…
    named = re.compile(rf"_id{job.number}(?:-\d+)?_")
    for folder in day_folders(settings.darshan, job, began=began, now=now):
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208  # a day may have 100,000 logs
        except OSError:
            continue  # no log that day
        yield from (folder / name for name in names if name.endswith(SUFFIXES) and named.search(name))


def day_folders(darshan: Darshan, job: Job, *, began: float | None, now: float) -> list[Path]:
    """List the folders of the days from the job's start to now, at most the last `days`; without a start, two."""
    last = datetime.fromtimestamp(now).date()
    first = last - timedelta(days=1) if began is None else datetime.fromtimestamp(began).date()
    days = [last - timedelta(days=back) for back in range(min((last - first).days + 1, darshan.days))]
    pattern = fill_pattern(darshan.folder, job)
    folders = (
        pattern.replace("{year}", str(d.year)).replace("{month}", str(d.month)).replace("{day}", str(d.day))
        for d in reversed(days)
    )
    return [Path(text) for text in dict.fromkeys(folders)]
