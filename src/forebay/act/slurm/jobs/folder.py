"""A job's folder on the file system, created with no more rights than its user has.

A user can put links into folders of their own. Root would follow them; the user reaches nothing new through them.
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
    """Switch the whole process from root to the job's user meanwhile, for files and for commands."""
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


def fill_pattern(pattern: str, job: Job) -> str:
    """
    >>> fill_pattern("/scratch/{user}/{job}", Job(job="12", user="ann", uid=1, gid=1))
    '/scratch/ann/12'
    """
    return pattern.replace("{user}", job.user).replace("{job}", job.job)


def shared_part(pattern: str) -> Path:
    """The folder above all that belongs to one user or job.

    >>> str(shared_part("/scratch/of-{user}/{job}"))
    '/scratch'
    """
    return Path(pattern.partition("{")[0].rpartition("/")[0] or "/")


def create_folder(pattern: str, job: Job) -> Path:
    """Create the job's folder, and missing ones between the shared part and it; an existing one is fine."""
    above, folder = shared_part(pattern), Path(fill_pattern(pattern, job))
    if not above.is_dir():
        raise BadInput(str(above), "no such folder")
    try:
        for level in (*reversed([p for p in folder.parents if above in p.parents]), folder):
            _create_level(level, job)
        check_folder(folder, job)
    except OSError as error:
        raise BadInput(str(error.filename or folder), why(error)) from None
    return folder


def check_folder(folder: Path, job: Job) -> None:
    """Raise BadInput unless it is a folder of the user's, and not a link to one."""
    with acting_as(job):
        status = folder.lstat()
    if status.st_uid != job.uid or not folder.is_dir() or folder.is_symlink():
        raise BadInput(str(folder), f"is not a folder that {job.user} owns")


def _create_level(level: Path, job: Job) -> None:
    try:
        with acting_as(job):
            level.mkdir(0o700, exist_ok=True)
    except PermissionError:
        # As root only where the user cannot replace it meanwhile.
        if os.geteuid() != 0 or level.parent.stat().st_uid != 0:
            raise
        level.mkdir(0o700)
        os.chown(level, job.uid, job.gid, follow_symlinks=False)
