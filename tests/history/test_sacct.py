"""Slurm's accounting, as it is printed and as it should not be."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from forebay.history.sacct import read_sacct
from forebay.history.store import Store
from forebay.history.store.jobs import add_jobs
from forebay.history.store.schema import jobs
from forebay.model.errors import BadInput

HEAD = "JobIDRaw|JobName|User|NNodes|Submit|Start|End|State\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    return path


def test_steps_and_tasks_of_arrays_are_left_out(tmp_path: Path) -> None:
    lines = "7|a|u|2|10|20|30|COMPLETED\n7.batch|batch||2|10|20|30|COMPLETED\n8_1|b|u|1|10|20|30|COMPLETED\n"
    [job] = read_sacct(written(tmp_path, HEAD + lines))
    assert (job["job_id"], job["job_name"], job["nodes"], job["job_start_time"]) == (7, "a", 2, 20.0)


def test_what_has_not_happened_is_not_known(tmp_path: Path) -> None:
    [job] = read_sacct(written(tmp_path, HEAD + "7|a|u||10|Unknown|None|PENDING\n"))
    assert (job["nodes"], job["job_start_time"], job["job_end_time"]) == (None, None, None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x|a|u|1|10|20|30|S", "'x' is not a job id"),
        ("²|a|u|1|10|20|30|S", "'²' is not a job id"),
        (f"{10**30}|a|u|1|10|20|30|S", "is not a job id"),
        ("7|a|u|²|10|20|30|S", "'²' is not a number of nodes"),
        (f"7|a|u|{10**30}|10|20|30|S", "is not a number of nodes"),
        ("7|a|u|1|²|20|30|S", "'²' is not a time"),
        (f"7|a|u|1|10|{'9' * 400}|30|S", "is not a time"),
        ("7|a|u|1|10|999999999999999|30|S", "is not a time"),
        ("7|a|u|1|10|20|0001-01-01T00:00:00|S", "is not a time"),
        ("7|a|u|1|10|20|yesterday|S", "'yesterday' is not a time"),
    ],
)
def test_what_no_database_can_have_is_said_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    path = written(tmp_path, HEAD + "1|ok|u|1|10|20|30|S\n" + line + "\n")
    with pytest.raises(BadInput) as caught:
        list(read_sacct(path))
    assert words in str(caught.value)
    assert caught.value.where == f"{path}:3"


def test_a_name_with_zero_bytes_can_be_stored_without_them(store: Store, tmp_path: Path) -> None:
    with store.open_writer() as connection:
        add_jobs(connection, read_sacct(written(tmp_path, HEAD + "7|a\0b|u|1|10|20|30|S\n")))
    with store.open_reader() as connection:
        assert connection.execute(sa.select(jobs.c.job_name)).scalars().all() == ["ab"]
