"""A job's folder on the file system, made and given its layout with no more rights than its user has.

A user can put links into folders of his own. Root would follow them; the user gets no further than he may go anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay.act.slurm.jobs.job import Job
from forebay.model.errors import BadInput, why


@contextmanager
def acting_as(job: Job) -> Iterator[None]:
    """Root is the job's user meanwhile, for files and for commands that are started; the whole process is."""
    if os.geteuid() != 0 or job.uid == 0:
        yield
        return
    before = os.getgroups()
    os.setgroups(os.getgrouplist(job.user, job.gid))
    os.setegid(job.gid)
    os.seteuid(job.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


def filled(pattern: str, job: Job) -> str:
    """
    >>> filled("/scratch/{user}/{job}", Job(job="12", user="ann", uid=1, gid=1))
    '/scratch/ann/12'
    """
    return pattern.replace("{user}", job.user).replace("{job}", job.job)


def fixed_part(pattern: str) -> Path:
    """The folders above all that belongs to one user or job.

    >>> str(fixed_part("/scratch/of-{user}/{job}"))
    '/scratch'
    """
    parts = pattern.split("/")
    at = next((number for number, part in enumerate(parts) if "{" in part), len(parts))
    return Path("/".join(parts[:at]) or "/")


def make_folder(pattern: str, job: Job) -> Path:
    """The job's folder, with those above it that are missing and are not everybody's; again is harmless."""
    above, folder = fixed_part(pattern), Path(filled(pattern, job))
    if not above.is_dir():
        raise BadInput(str(above), "there is no such folder")
    try:
        for level in (*reversed([p for p in folder.parents if above in p.parents]), folder):
            _make_level(level, job)
        check_folder(folder, job)
    except OSError as error:
        raise BadInput(str(error.filename or folder), why(error)) from None
    return folder


def check_folder(folder: Path, job: Job) -> None:
    """It must be a folder, of the user's, and no link to one."""
    with acting_as(job):
        found = folder.lstat()
    if found.st_uid != job.uid or not folder.is_dir() or folder.is_symlink():
        raise BadInput(str(folder), f"is no folder of {job.user}'s")


def _make_level(level: Path, job: Job) -> None:
    try:
        with acting_as(job):
            level.mkdir(0o700, exist_ok=True)
    except PermissionError:
        # Only where the user can't put anything else in its place meanwhile.
        if os.geteuid() != 0 or level.parent.stat().st_uid != 0:
            raise
        level.mkdir(0o700)
        os.chown(level, job.uid, job.gid, follow_symlinks=False)
