"""After a job: its targets are free again, and what it did is in the history. Run twice, nothing happens twice."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from forebay.act.slurm.jobs.environment import word_file
from forebay.act.slurm.jobs.folder import filled
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import JobsFile
from forebay.history.darshan.ingest import SUFFIXES, Report, ingest
from forebay.history.store import Store
from forebay.history.store.running_jobs import forget_job, last_decision_time
from forebay.model.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilog:
    """How many targets the job gave back, and what became of its Darshan logs."""

    freed: int
    logs: Report
    troubles: tuple[str, ...] = ()


def epilog(store: Store, rules: JobsFile, job: Job, *, now: float) -> Epilog:
    """Free first: what comes after may take its time."""
    with store.writing() as connection:
        began = last_decision_time(connection, job.job, now)
        freed = forget_job(connection, job.job)
    word_file(rules, job).unlink(missing_ok=True)
    report, troubles = Report(), list(_detached(rules, job))
    try:
        paths = list(job_logs(rules, job, began=began, now=now))
        if paths:
            report = ingest(store, paths, workers=1)
    except UserError as error:
        troubles.append(str(error))
    troubles += [f"{path}: {reason}" for path, kind, reason in report.listed if kind == "failed"]
    return Epilog(freed=freed, logs=report, troubles=tuple(troubles))


def _detached(rules: JobsFile, job: Job) -> tuple[str, ...]:
    if rules.space is None:
        return ()
    from forebay.act.slurm.jobs.exposed_space import detached_after

    return detached_after(rules.space, job)


def job_logs(rules: JobsFile, job: Job, *, began: float | None, now: float) -> Iterator[Path]:
    """The logs that Darshan named after the job, in the folders of the days on which it ran."""
    if rules.darshan is None or job.number is None:
        return
    # Darshan goes by the day on which a program began; USER_PROGRAM_idJOB_… or, since 3.3, …_idJOB-PROCESS_…
    named = re.compile(rf"_id{job.number}(?:-\d+)?_")
    for folder in day_folders(rules, job, began=began, now=now):
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208  # a day may have a hundred thousand
        except OSError:
            continue  # no log that day
        yield from (folder / name for name in names if name.endswith(SUFFIXES) and named.search(name))


def day_folders(rules: JobsFile, job: Job, *, began: float | None, now: float) -> list[Path]:
    """Of every day from the job's start to now, the newest `days` of them; of one whose start is not known, the
    last two."""
    assert rules.darshan is not None
    last = datetime.fromtimestamp(now).date()
    first = last - timedelta(days=1) if began is None else datetime.fromtimestamp(began).date()
    days = [last - timedelta(days=back) for back in range(min((last - first).days + 1, rules.days))]
    pattern = filled(rules.darshan, job)
    found = (
        pattern.replace("{year}", str(d.year)).replace("{month}", str(d.month)).replace("{day}", str(d.day))
        for d in reversed(days)
    )
    return [Path(text) for text in dict.fromkeys(found)]
