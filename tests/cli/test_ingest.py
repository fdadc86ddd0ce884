"""`forebay ingest`, as a user types it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebay.history.darshan.ingest import Report, ingest
from forebay.history.store import open_store
from forebay.history.store.listing import has_runs, list_runs
from forebay.model.errors import BadInput
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
    assert "is truncated: 3,000 bytes, but its header announces 11,472" in ran.out
    assert "1 log read (0 already known, 0 duplicates, 1 unreadable)" in ran.out
    again = forebay("ingest", logs, "--json").json
    assert again["logs"] == {"read": 0, "known": 1, "copies": 0, "failed": 1}
    assert [(Path(entry["path"]).name, entry["status"]) for entry in again["listed"]] == [("b.darshan", "failed")]


def test_slurms_accounting_shows_beside_the_runs(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(SACCT)
    ran = forebay("ingest", folder(tmp_path) / "a.darshan", "--sacct", tmp_path / "jobs.txt", "--workers", 1)
    assert ran.code == 0
    assert "1 job from Slurm's accounting" in ran.out
    [run] = forebay("history", "runs", "--json").json["runs"]
    assert (run["job_name"], run["nodes"], run["job_end_time"]) == ("vpic", 64, None)
    assert run["job_start_time"] - run["submit_time"] == 420


@pytest.mark.processes  # and much to do before they start
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_keeps_what_is_read_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for job in range(3000):
        Parts(wheel_log("noposixopens.darshan")).with_job(job_id=job).write(logs / f"{job:04}.darshan")
    db = tmp_path / "history.db"
    command = [sys.executable, "-m", "forebay", "ingest", str(logs), "--db", str(db), "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    wait_for_runs(db, process)
    os.killpg(process.pid, number)  # as a terminal does, all of them at once
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"forebay: interrupted\n")
    wait_for_the_end_of_all(process.pid)
    with open_store(str(db)) as store, store.open_reader() as connection:
        before = len(list(list_runs(connection)))
    assert 0 < before < 3000
    assert ingest_all(db, logs).known == before


def wait_for_runs(db: Path, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(24_000):
        assert process.poll() is None, "it ended too early"
        if db.exists() and anything_in(db):
            return
        time.sleep(0.005)
    pytest.fail("nothing was read within two minutes")


def anything_in(db: Path) -> bool:
    try:
        with open_store(str(db), create=False) as store, store.open_reader() as connection:
            return has_runs(connection)
    except BadInput:
        return False  # it is just being made


def wait_for_the_end_of_all(session: int) -> None:
    """Of the processes of a session; those that have ended and that nobody asked for don't count."""
    for _ in range(2000):
        argv = ["ps", "-o", "stat=", "-s", str(session)]
        found = subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.split()
        if all(state.startswith("Z") for state in found):
            return
        time.sleep(0.005)
    pytest.fail(f"still there: {found}")


def ingest_all(db: Path, logs: Path) -> Report:
    with open_store(str(db)) as store:
        return ingest(store, [logs], workers=1)


def test_a_folder_without_logs_is_named_with_what_to_do_and_makes_no_history(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.txt").write_text("no log")
    ran = forebay("ingest", tmp_path / "none")
    assert (ran.code, ran.err) == (0, "")
    assert f"{tmp_path / 'none'}: no Darshan logs in this folder or below it (*.darshan or" in ran.out
    assert "`darshan-config --log-path` prints the folder of the logs" in ran.out
    assert not (tmp_path / "history.db").exists()
    beside = forebay("ingest", tmp_path / "none", wheel_log("noposixopens.darshan"), "--workers", 1)
    assert "none: no Darshan logs in this folder" in beside.out
    assert "1 log read" in beside.out
    assert forebay("ingest", tmp_path / "none", "--json").json["without_logs"] == [str(tmp_path / "none")]


@pytest.mark.parametrize(
    "command",
    [
        ("ingest", "logs"),
        ("ingest", "--sacct", "jobs.txt"),
        ("size", "--requests", "history"),
        ("study", "striping"),
        ("forward", "train", "out"),
    ],
)
def test_no_workers_at_all_are_refused_before_anything_is_done(forebay: Forebay, command: tuple[str, ...]) -> None:
    ran = forebay(*command, "--workers", 0)
    assert (ran.code, ran.out) == (2, "")
    assert "--workers: must be 1 to 256 processes (the default is one per core" in ran.err


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("no log"), "is not a Darshan log"),
        (lambda path: path.touch(), "is empty (0 bytes)"),
        (lambda path: path.write_bytes(wheel_log("sample.darshan").read_bytes()[:900]), "is truncated"),
        (lambda path: Parts(wheel_log("sample.darshan")).with_version("3.99").write(path), "newest readable one is"),
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


def test_invalid_lines_of_slurms_accounting_are_left_out_and_named(forebay: Forebay, tmp_path: Path) -> None:
    head, good = "JobIDRaw|JobName|User|NNodes|Submit|Start|End|State", "|a|u|2|10|20|30|COMPLETED"
    path, db = tmp_path / "jobs.txt", ("--db", tmp_path / "history.db")
    bad = ["8|a|u|-4|10|20|30|COMPLETED", "9|a|u|2|10|x|30|COMPLETED"]
    path.write_text("\n".join([head, f"7{good}", *bad, f"10{good}"]) + "\n")
    told = forebay("ingest", "--sacct", path, *db, "--json").json
    assert told["jobs"] == 2
    assert told["left_out"] == [
        {"where": f"{path}:3", "reason": "NNodes: '-4' is not a number of nodes"},
        {"where": f"{path}:4", "reason": "Start: 'x' is not a time like 2026-01-31T12:00:00"},
    ]
    ran = forebay("ingest", "--sacct", path, *db)
    assert ran.code == 0 and f"{path}:3" in ran.out and "2 jobs from Slurm's accounting" in ran.out
    path.write_text("\n".join([head, *bad * 100]) + "\n")
    ran = forebay("ingest", "--sacct", path, *db)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{path}:2: NNodes: '-4' is not a number of nodes (and 199 more lines)" in ran.err
    path.write_text("\n".join([head, f"7{good}", *bad * 100]) + "\n")
    out = forebay("ingest", "--sacct", path, *db).out
    assert "more (--json lists all)" in out and len(out.splitlines()) < 60
    path.write_text(f"{head}\n7{good}\n", encoding="utf-16")
    ran = forebay("ingest", "--sacct", path, *db)
    assert ran.code == 2 and f"{path}: is not UTF-8 text" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ingest"], "PATH: name logs or folders to read, or --sacct FILE"),
        (["ingest", "--db", "mysql://x/y", "/"], "--db: does not support 'mysql'"),
        (["ingest", "--sacct", "/nowhere"], "/nowhere: no such file or directory"),
        (["history", "stats"], "no history here yet"),
        (["profile", "x"], "no history here yet"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(forebay: Forebay, arguments: list[str], words: str) -> None:
    ran = forebay(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
