"""The file that says what is done before and after jobs: read, and refused in one line with the key."""

from pathlib import Path

import pytest

from forebay.act.slurm.jobs.decision import check_policies
from forebay.act.slurm.jobs.settings import read_job_settings
from forebay.model.errors import BadInput

EXAMPLES = Path(__file__).parents[4] / "examples"


def test_the_example_is_a_whole_one() -> None:
    rules = read_job_settings(EXAMPLES / "slurm.toml")
    assert rules.scratch is not None
    assert rules.scratch.settings.name == "scratch"
    assert rules.targets is not None
    assert (rules.targets.count, rules.jobs.mode, rules.jobs.limit) == (16, "enforce", 10.0)
    check_policies(rules)


def test_an_empty_file_asks_for_nothing(tmp_path: Path) -> None:
    rules = read_job_settings(_file(tmp_path, ""))
    assert (rules.scratch, rules.targets, rules.darshan, rules.jobs.db) == (None, None, None, None)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    rules = read_job_settings(_file(tmp_path, '[jobs]\ndb = "h.db"\nfolder = "told"\n'))
    assert (rules.jobs.db, rules.jobs.folder) == (str(tmp_path / "h.db"), tmp_path / "told")


SCRATCH = '[scratch]\nfilesystem = "fs.toml"\nfolder = "{}"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[jobs", "is not TOML"),
        ("[job]\n", "job: is not a key of this table"),
        ('[jobs]\nmode = "on"\n', "jobs.mode: must be 'enforce' or 'shadow', not 'on'"),
        ("[jobs]\nlimit = 0\n", "jobs.limit: must be longer than 0 s and at most 5 min, not 0 s"),
        ('[jobs]\nlimit = "1 h"\n', "jobs.limit: must be longer than 0 s and at most 5 min, not 1 h"),
        ('[jobs]\ndb = "postgresql://me:secret@host/db"\n', "jobs.db: has a password, but other users can"),
        ("[scratch]\n", "scratch.folder: is missing"),
        (SCRATCH.format("/scratch/{user}"), "scratch.folder: must contain {job}"),
        (SCRATCH.format("/scratch/{account}/{job}"), "scratch.folder: must contain no braces except {user}, {job}"),
        (SCRATCH.format("scratch/{job}"), "scratch.folder: must be an absolute path"),
        (SCRATCH.format("/scratch/../{job}"), "scratch.folder: must be an absolute path"),
        (SCRATCH.format("/my scratch/{job}"), "scratch.folder: must be an absolute path"),
        (SCRATCH.format("/scratch/{job}") + 'policy = "dca"\n', "scratch.policy: no striping policy 'dca'"),
        (SCRATCH.format("/scratch/{job}").replace("fs.toml", "no.toml"), "no.toml: no such file"),
        ("[targets]\n", "targets.count: is missing"),
        ("[targets]\ncount = 4\n", "targets.name: is missing: name and count go together"),
        (SCRATCH.format("/s/{job}") + '[targets]\nname = "x"\n', "targets.count: is missing: name and count"),
        ('[targets]\nname = "a b"\ncount = 4\n', "targets.name: may contain only letters"),
        ('[targets]\nname = "x"\ncount = 0\n', "targets.count: must be at least 1"),
        ('[targets]\nname = "x"\ncount = 4\nallocate = "tpcu"\n', "did you mean 'tcpu'?"),
        ('[targets]\nname = "x"\ncount = 4\nallocate = "optimal"\n', "targets.allocate: 'optimal' simulates"),
        ('[space]\nservice = "ftp://x"\n', "space.service: must be like 'unix:/path' or 'https://host:port'"),
        ('[space]\nservice = "unix:/s"\nfolder = "/v/{user}"\n', "space.folder: must contain no braces"),
        ('[darshan]\nfolder = "/logs/{month}/{hour}"\n', "darshan.folder: must contain no braces except {user}"),
        ('[darshan]\nfolder = "/logs"\ndays = 0\n', "darshan.days: must be at least 1"),
        ('[darshan]\nfolder = "/logs"\nlimit = "2 h"\n', "darshan.limit: must be longer than 0 s"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "fs.toml").write_text('[filesystem]\nkind = "lustre"\ntargets = 4\n')
    with pytest.raises(BadInput) as refused:
        check_policies(read_job_settings(_file(tmp_path, text)))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_password_is_fine_where_nobody_else_reads_it(tmp_path: Path) -> None:
    path = _file(tmp_path, '[jobs]\ndb = "postgresql://me:secret@host/db"\n')
    path.chmod(0o600)
    assert read_job_settings(path).jobs.db == "postgresql://me:secret@host/db"


def _file(folder: Path, text: str) -> Path:
    path = folder / "slurm.toml"
    path.write_text(text)
    return path
