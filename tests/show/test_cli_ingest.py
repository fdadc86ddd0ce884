"""`forebay ingest`, as a user types it."""

import shutil
from pathlib import Path

import pytest

from support.command import Forebay
from support.darshan_logs import Parts, wheel_log

SACCT = "JobIDRaw|JobName|NNodes|Submit|Start|End\n4478544|vpic|64|2017-03-20T09:00:00|2017-03-20T09:07:00|Unknown\n"


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.setenv("FOREBAY_DB", str(tmp_path / "history.db"))
    return Forebay(capfd, monkeypatch)


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "2017" / "3" / "20"
    made.mkdir(parents=True)
    shutil.copy(wheel_log("sample.darshan"), made / "a.darshan")
    (made / "b.darshan").write_bytes(wheel_log("sample.darshan").read_bytes()[:3000])
    return made


def test_a_folder_is_read_and_what_is_wrong_listed(forebay: Forebay, tmp_path: Path) -> None:
    logs = folder(tmp_path)
    ran = forebay("ingest", logs, "--workers", 1)
    assert (ran.code, ran.err) == (0, "")
    assert "is truncated: 3,000 bytes; 11,472 bytes are announced" in ran.out
    assert "1 logs read, 0 known already, 0 copies of known ones, 1 that can't be read" in ran.out
    again = forebay("ingest", logs, "--json").json
    assert again["logs"] == {"read": 0, "known": 1, "copies": 0, "failed": 1}
    assert [(Path(entry["path"]).name, entry["status"]) for entry in again["listed"]] == [("b.darshan", "failed")]


def test_slurms_accounting_shows_beside_the_runs(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(SACCT)
    ran = forebay("ingest", folder(tmp_path) / "a.darshan", "--sacct", tmp_path / "jobs.txt", "--workers", 1)
    assert ran.code == 0
    assert "1 jobs of Slurm's accounting" in ran.out
    [run] = forebay("history", "runs", "--json").json["runs"]
    assert (run["job_name"], run["nodes"], run["job_end_time"]) == ("vpic", 64, None)
    assert run["job_start_time"] - run["submit_time"] == 420


def test_an_empty_folder_says_so(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    ran = forebay("ingest", tmp_path / "none")
    assert ran.code == 0
    assert "no Darshan logs (*.darshan) were found there" in ran.out


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("no log"), "is not a Darshan log"),
        (lambda path: path.touch(), "is empty (0 bytes)"),
        (lambda path: path.write_bytes(wheel_log("sample.darshan").read_bytes()[:900]), "is truncated"),
        (lambda path: Parts(wheel_log("sample.darshan")).with_version("3.99").write(path), "newer than the 3.41"),
        (lambda _path: None, "no such file or directory"),
    ],
)
def test_a_file_that_is_no_log_is_one_line_and_exit_2(
    forebay: Forebay, tmp_path: Path, make: object, words: str
) -> None:
    path = tmp_path / "x.darshan"
    make(path)  # type: ignore[operator]
    ran = forebay("ingest", path, "--workers", 1)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith(f"forebay: {path}: ")
    assert words in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ingest"], "PATH: name logs or folders to read, or --sacct FILE"),
        (["ingest", "--db", "mysql://x/y", "/"], "--db: is of kind 'mysql'"),
        (["ingest", "--sacct", "/nowhere"], "/nowhere: no such file or directory"),
        (["history", "stats"], "there is no history yet"),
        (["profile", "x"], "there is no history yet"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(forebay: Forebay, arguments: list[str], words: str) -> None:
    ran = forebay(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
