"""Prologs and epilogs to test with: their files, jobs, and what the store knows of them."""

import getpass
import os
from pathlib import Path
from typing import Any

from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.prolog import Preparation, run_prolog
from forebay.act.slurm.jobs.settings import JobSettings, read_job_settings
from forebay.history.store import Store
from forebay.history.store.running_jobs import jobs_by_target
from support.filesystems import Pretended

NOW = 1_700_000_000.0


def jobs_file(
    folder: Path, *, system: Pretended | None = None, db: Path | None = None, more: str = "", **jobs: Any
) -> Path:
    """A file in `folder`; with a file system, jobs have folders SYSTEM/USER/JOB. `more` are further tables."""
    keys = {"db": str(db or folder / "history.db"), "folder": str(folder / "told"), "limit": 200, **jobs}
    text = "[jobs]\n" + "".join(f"{name} = {_value(value)}\n" for name, value in keys.items())
    if system is not None:
        described = f'[filesystem]\nkind = "{system.kind}"\nname = "scratch"\nmount = "{system.mount}"\ntimeout = 60\n'
        (folder / "scratch.toml").write_text(described)
        text += (
            f'[scratch]\nfolder = "{system.mount}/{{user}}/{{job}}"\nfilesystem = "scratch.toml"\npolicy = "dca-io"\n'
        )
    path = folder / "slurm.toml"
    path.write_text(text + more)
    return path


def _value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def rules_of(folder: Path, **given: Any) -> JobSettings:
    return read_job_settings(jobs_file(folder, **given))


def own_job(job: str = "12", **more: Any) -> Job:
    """A job of whoever runs the tests."""
    usual: dict[str, Any] = {
        "user": getpass.getuser(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "app": "vpic",
        "nprocs": 8,
    }
    return Job(job=job, **(usual | more))


def before(store: Store, rules: JobSettings, job: Job | None = None, *, now: float = NOW, **more: Any) -> Preparation:
    return run_prolog(store, rules, job or own_job(), lambda one: one, now=now, chance=0.3, **more)


def leases(store: Store, system: str, now: float = NOW) -> dict[str, set[int]]:
    """The targets of each job."""
    with store.open_reader() as connection:
        found: dict[str, set[int]] = {}
        for target, jobs in jobs_by_target(connection, system, now).items():
            for job in jobs:
                found.setdefault(job, set()).add(target)
    return found
