"""The folder of a job: its place, and how it is made and checked with the user's rights."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay.act.slurm.jobs.job import Job
from forebay.model.errors import BadInput, why


@contextmanager
def acting_as(job: Job) -> Iterator[None]:
    """Switch the whole process from root to the job's user for a while, for files and commands.

    Users can put links into their folders. Root would follow them; the user gains nothing through them.
    """
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
    """Return the lowest folder that all users and jobs share.

    >>> str(shared_part("/scratch/of-{user}/{job}"))
    '/scratch'
    """
    return Path(pattern.partition("{")[0].rpartition("/")[0] or "/")


def create_folder(pattern: str, job: Job) -> Path:
    """Create the job's folder, if it does not exist, and missing folders between the shared one and it."""
    above, folder = shared_part(pattern), Path(fill_pattern(pattern, job))
    if not above.is_dir():
        raise BadInput(str(above), "no such folder; create it, or correct scratch.folder")
    try:
        for level in (*reversed([p for p in folder.parents if above in p.parents]), folder):
            _create_level(level, job)
        check_folder(folder, job)
    except OSError as error:
        raise BadInput(str(error.filename or folder), why(error)) from None
    return folder


def check_folder(folder: Path, job: Job) -> None:
    """Raise BadInput unless the user owns the folder, and it is not a link."""
    with acting_as(job):
        status = folder.lstat()
    if status.st_uid != job.uid or not folder.is_dir() or folder.is_symlink():
        raise BadInput(str(folder), f"must be a folder, not a link, that {job.user} owns")


def _create_level(level: Path, job: Job) -> None:
    try:
        with acting_as(job):
            level.mkdir(0o700, exist_ok=True)
    except PermissionError:
        # Act as root only where the user cannot replace the folder in the meantime.
        if os.geteuid() != 0 or level.parent.stat().st_uid != 0:
            raise
        level.mkdir(0o700)
        os.chown(level, job.uid, job.gid, follow_symlinks=False)
