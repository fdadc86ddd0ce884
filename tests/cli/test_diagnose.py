"""`forebay diagnose` as its users call it."""

import json
from pathlib import Path

import pytest

from forebay.history.darshan.ingest import ingest
from forebay.history.store import open_store
from support.command import Forebay
from support.darshan_logs import Parts, wheel_log
from support.darshan_runs import write_processes
from support.html_pages import Page
from support.labelled_logs import labelled_programs
from support.made_up_runs import a_run, fill


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


def test_the_logs_of_a_run_are_diagnosed_together(forebay: Forebay, tmp_path: Path) -> None:
    logs, db = write_processes(tmp_path, 3), ("--db", tmp_path / "history.db")
    forebay("ingest", *logs, *db)
    document = json.loads(forebay("diagnose", "1", *db, "--json").out)
    assert (document["logs"], document["logs_of_run"], document["share_of_bytes"]) == (3, 3, 1.0)
    assert document["processes"] == 3 and document["run_time"] == 20
    assert document["total_bytes"] == (3 * 128 + 32 + 64 + 96) << 20
    [repeated] = [finding for finding in document["findings"] if finding["code"] == "repeated-reads"]
    assert repeated["evidence"]["seen"].startswith("402.65 MB read from 1 file of which 67.11 MB were used")
    page = tmp_path / "run.html"
    ran = forebay("diagnose", "1", *db, "--html", page)
    assert ran.out.startswith("app_readAB_writeC: 3 processes, 20 s, ")
    assert "From all 3 logs of the run, one for each process." in ran.out
    text = page.read_text()
    assert "From all 3 logs of the run" in text.partition("<main>")[0] and "Bytes of each process" in text
    assert "OST 3" in text and "process 2" in text


def test_logs_of_a_run_that_are_gone_are_named_with_their_share(forebay: Forebay, tmp_path: Path) -> None:
    logs, db = write_processes(tmp_path, 3), ("--db", tmp_path / "history.db")
    forebay("ingest", *logs, *db)
    logs[2].unlink()
    logs[1].write_bytes(b"no log")
    document = json.loads(forebay("diagnose", "1", *db, "--json").out)
    assert (document["logs"], document["logs_of_run"], document["processes"]) == (1, 3, 1)
    assert document["share_of_bytes"] == pytest.approx(160 / 576)
    said = "From 1 of the 3 logs of the run, with 28 % of its bytes: the others no longer exist or cannot be read."
    assert said in " ".join(forebay("diagnose", "1", *db).out.split())
    assert said in forebay("diagnose", "1", *db, "--html", "-").out.partition("<main>")[0]
    logs[0].unlink()
    logs[1].unlink()
    said = "The run has 3 logs. The findings are those of the log with most bytes alone."
    assert said in " ".join(forebay("diagnose", "1", *db).out.split())
    assert said in forebay("diagnose", "1", *db, "--html", "-").out.partition("<main>")[0]


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


# The page


def test_a_page_of_a_log_is_written_beside_the_text(forebay: Forebay, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    page.write_text("<!doctype html>\nan older page")
    ran = forebay("diagnose", wheel_log("sample-badost.darshan"), "--html", page)
    assert "1. slow-ost" in ran.out and f"page: {page}" in ran.err
    assert "A storage target (OST) was slow" in Page(page.read_text()).text
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"]
    document = json.loads(forebay("diagnose", wheel_log("sample-badost.darshan"), "--html", page, "--json").out)
    assert [finding["code"] for finding in document["findings"]] == ["slow-ost"]


def test_a_page_goes_to_standard_output_alone(forebay: Forebay) -> None:
    ran = forebay("diagnose", wheel_log("sample-badost.darshan"), "--html", "-")
    assert "slow-ost" in Page(ran.out).text and ran.err == ""
    ran = forebay("diagnose", wheel_log("sample-badost.darshan"), "--html", "-", "--json")
    assert (ran.code, ran.out) == (2, "") and "--html" in ran.err


@pytest.mark.parametrize(("page", "reason"), [(".", "is a folder"), ("missing/run.html", "does not exist")])
def test_a_page_that_cannot_be_written_is_refused(page: str, reason: str, forebay: Forebay, tmp_path: Path) -> None:
    ran = forebay("diagnose", wheel_log("sample-badost.darshan"), "--html", tmp_path / page)
    assert (ran.code, ran.out) == (2, "") and reason in ran.err


def test_a_page_shows_earlier_runs_of_the_history(forebay: Forebay, tmp_path: Path) -> None:
    db, page, logs = ("--db", tmp_path / "history.db"), tmp_path / "run.html", tmp_path / "logs"
    logs.mkdir()
    for number in range(3):
        parts = Parts(wheel_log("sample-badost.darshan")).with_job(
            job_id=500 + number, start=1_500_000_000 + 86_400 * number
        )
        parts.write(logs / f"{number}.darshan")
    forebay("ingest", logs, *db)
    assert forebay("diagnose", "2", *db, "--html", page).code == 0
    html = page.read_text()
    assert "This run and 1 earlier run of the application" in Page(html).text
    assert (html.count('class="this"'), html.count('class="past"')) == (2, 2)
    assert forebay("diagnose", logs / "1.darshan", *db, "--html", page).code == 0
    assert "This run and 1 earlier run of the application" in Page(page.read_text()).text
    assert forebay("diagnose", "ior", *db, "--html", page).code == 0
    text = Page(page.read_text()).text
    assert "3 (this one)" in text and text.count("slow-ost") >= 3
    for log in logs.iterdir():
        log.unlink()
    assert "1. slow-ost" in forebay("diagnose", "3", *db, "--html", page).out
    text = Page(page.read_text()).text
    assert "This page shows what the history has of the run: " in text and "2.darshan no longer exists." in text
    assert "slow-ost" in text and "OST 14 took much longer" in text and "This run and 2 earlier runs" in text


def test_a_run_without_log_and_findings_still_has_a_page(forebay: Forebay, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    with open_store(str(tmp_path / "history.db")) as store:
        fill(store, [a_run(1, slowness=[1.0, 1.0, 30.0, 1.1, 0.9])])
    ran = forebay("diagnose", "1", "--db", tmp_path / "history.db", "--html", page)
    assert (ran.code, ran.out) == (0, "")
    text = Page(page.read_text()).text
    assert "the history has no findings" in text and "OST 2 took much longer for each byte than the others." in text


def test_a_log_that_the_history_does_not_know_gets_a_page(forebay: Forebay, tmp_path: Path) -> None:
    db, page = ("--db", tmp_path / "history.db"), tmp_path / "run.html"
    forebay("ingest", wheel_log("noposixopens.darshan"), *db)
    assert forebay("diagnose", wheel_log("sample-badost.darshan"), *db, "--html", page).code == 0
    assert "The history has no earlier run of this application." in Page(page.read_text()).text
    ran = forebay("diagnose", "99", *db, "--html", page)
    assert ran.code == 2 and "no run 99" in ran.err
