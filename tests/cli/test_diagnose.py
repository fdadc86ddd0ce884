"""`forebay diagnose` as its users call it."""

import json
from pathlib import Path

import pytest

from forebay.history.darshan.ingest import ingest
from forebay.history.store import open_store
from support.command import Forebay
from support.darshan_logs import wheel_log
from support.labelled_logs import labelled_programs


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


def test_a_log_is_diagnosed_without_a_history(forebay: Forebay) -> None:
    ran = forebay("diagnose", wheel_log("sample-badost.darshan"))
    assert ran.out.startswith("ior: 2,048 processes, 13 min")
    assert "1. slow-ost (high, " in ran.out and "OST 14" in ran.out


def test_a_run_of_the_history_is_diagnosed_by_its_number(forebay: Forebay, tmp_path: Path) -> None:
    db = tmp_path / "history.db"
    log = tmp_path / "sample-badost.darshan"
    log.write_bytes(wheel_log(log.name).read_bytes())
    forebay("ingest", log, "--db", db)
    document = json.loads(forebay("diagnose", "1", "--db", db, "--json").out)
    assert [finding["code"] for finding in document["findings"]] == ["slow-ost"]
    assert set(document["findings"][0]) == {
        "code", "severity", "share", "evidence", "remedy", "predicted_gain", "confidence",
    }  # fmt: skip
    log.unlink()
    kept = json.loads(forebay("diagnose", "1", "--db", db, "--json").out)
    assert kept == document | {"from_history": True}
    ran = forebay("diagnose", "1", "--db", db)
    assert f"From the history, as found when the log was read: {log} no longer exists." in ran.out.replace("\n", " ")


def test_without_log_and_findings_a_run_cannot_be_diagnosed(forebay: Forebay, tmp_path: Path) -> None:
    db = tmp_path / "history.db"
    log = tmp_path / "sample-badost.darshan"
    log.write_bytes(wheel_log(log.name).read_bytes())
    with open_store(str(db)) as store:
        ingest(store, [log], workers=1)  # as versions before findings did
    log.unlink()
    for what in ("1", "ior"):
        ran = forebay("diagnose", what, "--db", db)
        assert ran.code == 2 and "no longer exist" in ran.err


def test_a_log_that_became_unreadable_is_answered_by_the_history(forebay: Forebay, tmp_path: Path) -> None:
    db = ("--db", tmp_path / "history.db")
    log = tmp_path / "sample-badost.darshan"
    log.write_bytes(wheel_log(log.name).read_bytes())
    forebay("ingest", log, *db)
    log.write_bytes(b"overwritten")
    assert json.loads(forebay("diagnose", "1", *db, "--json").out)["from_history"]


def test_the_runs_of_an_application_are_diagnosed_together(forebay: Forebay, tmp_path: Path) -> None:
    db, logs = ("--db", tmp_path / "history.db"), tmp_path / "logs"
    logs.mkdir()
    for labelled in labelled_programs():
        if labelled.name in ("small-own-4k-8", "small-own-1000-8", "own-4m"):
            labelled.program.write(logs / f"{labelled.name}.darshan")
    forebay("ingest", logs, *db)
    (logs / "small-own-1000-8.darshan").unlink()
    document = json.loads(forebay("diagnose", "app_readAB_writeC", *db, "--json").out)
    assert (len(document["runs"]), len(document["from_history"]), document["missing"]) == (3, 1, 0)
    assert [(finding["code"], len(finding["runs"])) for finding in document["findings"]] == [("small-requests", 2)]
    ran = forebay("diagnose", "app_readAB_writeC", *db)
    assert "3 runs diagnosed (1 from the history, as the log no longer exists)" in ran.out


def test_an_unknown_application_is_refused_with_the_known_ones(forebay: Forebay, tmp_path: Path) -> None:
    db = ("--db", tmp_path / "history.db")
    forebay("ingest", wheel_log("sample-badost.darshan"), *db)
    ran = forebay("diagnose", "iro", *db)
    assert ran.code == 2 and "ior" in ran.err


def test_no_finding_is_an_answer(forebay: Forebay) -> None:
    assert "No finding: I/O takes less than 0.5 % of the run" in forebay("diagnose", wheel_log("noposix.darshan")).out


@pytest.mark.parametrize("what", ["nowhere.darshan", "README.md"])
def test_what_is_no_log_is_refused_in_one_line(what: str, forebay: Forebay) -> None:
    ran = forebay("diagnose", what)
    assert ran.code == 2 and ran.err.startswith(f"forebay: {what}: ") and ran.err.count("\n") == 1
