"""A job's folder: made for its user, with no more rights than the user has."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.slurm.jobs.folder import acting_as, check_folder, create_folder
from forebay.act.slurm.jobs.job import Job
from forebay.model.errors import BadInput
from support.slurm_jobs import own_job

NOBODY = pwd.getpwnam("nobody")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for others")


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that everybody may enter, as a scratch file system is."""
    folder = Path(tempfile.mkdtemp(prefix="forebay-scratch-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def nobodys_job() -> Job:
    return Job(job="12", user="nobody", uid=NOBODY.pw_uid, gid=NOBODY.pw_gid)


def test_what_is_missing_is_made_and_again_is_harmless(top: Path) -> None:
    job = own_job()
    folder = create_folder(f"{top}/{{user}}/jobs/{{job}}", job)
    (folder / "file").write_text("kept")
    assert create_folder(f"{top}/{{user}}/jobs/{{job}}", job) == folder == top / job.user / "jobs" / "12"
    assert (folder / "file").read_text() == "kept"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_folders_of_everybody_must_be_there(top: Path) -> None:
    with pytest.raises(BadInput, match="scratch: no such folder"):
        create_folder(f"{top}/scratch/{{job}}", own_job())


@needs_root
def test_the_folder_is_the_users(top: Path) -> None:
    folder = create_folder(f"{top}/{{user}}/{{job}}", nobodys_job())
    for one in (folder, folder.parent):
        assert (one.stat().st_uid, one.stat().st_gid) == (NOBODY.pw_uid, NOBODY.pw_gid)
    assert top.stat().st_uid == 0


@needs_root
def test_a_link_that_the_user_put_there_leads_nowhere(top: Path) -> None:
    other = top / "root"
    other.mkdir(0o700)
    home = top / "nobody"
    home.mkdir()
    os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    (home / "12").symlink_to(other)
    with pytest.raises(BadInput, match="must be a folder, not a link, that nobody owns"):
        create_folder(f"{top}/{{user}}/{{job}}", nobodys_job())
    assert (other.stat().st_uid, other.stat().st_mode & 0o777) == (0, 0o700)


@needs_root
def test_root_makes_nothing_in_a_folder_that_somebody_else_could_change(top: Path) -> None:
    home = top / "nobody"
    home.mkdir(0o500)
    os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    with pytest.raises(BadInput, match="permission denied"):
        create_folder(f"{top}/{{user}}/{{job}}", nobodys_job())
    assert list(home.iterdir()) == []


@needs_root
def test_a_folder_of_somebody_else_is_refused(top: Path) -> None:
    (top / "12").mkdir(0o755)
    with pytest.raises(BadInput, match="must be a folder, not a link, that nobody owns"):
        check_folder(top / "12", nobodys_job())


@needs_root
def test_root_is_root_again_afterwards() -> None:
    before = os.geteuid(), os.getegid(), os.getgroups()
    with pytest.raises(RuntimeError), acting_as(nobodys_job()):
        assert (os.geteuid(), os.getegid()) == (NOBODY.pw_uid, NOBODY.pw_gid)
        raise RuntimeError
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
