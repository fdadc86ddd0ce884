"""Findings are kept at ingest as a diagnosis of the log finds them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.history.darshan import examination
from forebay.history.darshan.ingest_worker import read_one
from forebay.history.darshan.process_logs import merge_processes
from forebay.history.darshan.summary import read_log
from forebay.history.store import Store, open_store
from forebay.history.store.findings import read_diagnoses
from forebay.history.store.listing import list_runs, read_run
from forebay.history.store.runs import add_runs, remove_runs
from forebay.model.errors import UserError
from forebay.profile.findings import examine_records
from forebay.profile.findings.diagnosis import Diagnosis, diagnose_log, restore_diagnosis
from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.finding import Finding
from support.darshan_logs import all_logs, wheel_log, wheel_logs
from support.labelled_logs import labelled_programs

PLANTED = [labelled for labelled in labelled_programs() if "+" in labelled.name][:12]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "history.db")) as opened:
        yield opened


def kept_diagnosis(store: Store, log: Path) -> Diagnosis | None:
    """What the history keeps of a log; None if it refuses the log."""
    scanned = read_one(str(log), examine_records)
    if scanned.row is None:
        return None
    with store.open_writer() as connection:
        add_runs(connection, [scanned.row | {"run_key": "this"}])
        [row] = list_runs(connection)
        number = row["run_id"]
        stored = read_diagnoses(connection, [number])[number]
        run = read_run(connection, number)["run"]
        remove_runs(connection, ["this"])
        assert not read_diagnoses(connection, [number])
    return restore_diagnosis(run, str(log), stored)


@pytest.mark.parametrize("path", all_logs(), ids=lambda path: path.name[:60])
def test_the_history_keeps_what_a_diagnosis_of_the_log_finds(store: Store, path: Path) -> None:
    try:
        fresh = diagnose_log(path)
    except UserError:
        return
    kept = kept_diagnosis(store, path)
    if kept is None:
        return
    if kept.remark is not None:
        assert kept.remark == "its I/O took less than 1 s of all processes together" and fresh.io_seconds < 1.1
        return
    assert kept.findings == fresh.findings
    same = ("exe", "processes", "run_time", "total_bytes", "matters", "remark")
    assert [getattr(kept, name) for name in same] == [getattr(fresh, name) for name in same]


def test_several_problems_of_one_log_are_kept_in_order(store: Store, tmp_path: Path) -> None:
    several = 0
    for labelled in PLANTED:
        log = labelled.program.write(tmp_path / f"{labelled.name}.darshan")
        kept, fresh = kept_diagnosis(store, log), diagnose_log(log)
        several += len(fresh.findings) > 1
        assert kept is not None
        if fresh.io_seconds < 1:
            continue
        assert kept.findings == fresh.findings
    assert several >= 6


def test_a_rule_that_fails_costs_the_history_nothing_but_the_findings(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_evidence: Evidence) -> list[Finding]:
        raise ZeroDivisionError("a rule\nthat fails")

    monkeypatch.setattr("forebay.profile.findings.diagnosis.find_problems", fail)
    log = wheel_log("sample-badost.darshan")
    scanned = read_one(str(log), examine_records)
    assert scanned.row is not None
    assert (scanned.status, scanned.reason) == (
        "undiagnosed",
        "cannot be diagnosed: ZeroDivisionError a rule that fails",
    )
    kept = kept_diagnosis(store, log)
    assert kept is not None and kept.remark == f"it {scanned.reason}" and not kept.findings


def test_a_log_with_too_many_records_has_no_findings_at_ingest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "MOST_EXAMINED", 2000)
    kept = kept_diagnosis(store, wheel_log("sample-badost.darshan"))
    assert kept is not None and kept.remark is not None and "more than 2,000 records" in kept.remark


def test_a_run_of_many_logs_has_the_findings_of_the_process_that_moved_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "LEAST_SECONDS", 0.0)
    names = ("pq_app_write_id71296", "pq_app_write_id71303", "pq_app_write_id71310")
    logs = [path for name in names for path in wheel_logs() if path.name.startswith(name)]
    parts = [(s.row, s.files) for s in (read_log(path, examine_records) for path in logs)]
    diagnoses = [row["diagnosis"] for row, _ in parts]
    for number, diagnosis in enumerate(diagnoses):
        diagnosis["findings"] = [{"code": f"{number}"}]
    merged = merge_processes(parts)["diagnosis"]
    largest = max(range(len(parts)), key=lambda i: parts[i][0]["total_bytes"])
    assert merged["findings"] == [{"code": f"{largest}"}]
    assert merged["file_bytes"] == sum(diagnosis["file_bytes"] for diagnosis in diagnoses) > 0
    assert merged["io_seconds"] == sum(diagnosis["io_seconds"] for diagnosis in diagnoses) > 0
    parts[largest][0].pop("diagnosis")  # as an older version read it
    assert merge_processes(parts)["diagnosis"] is None
