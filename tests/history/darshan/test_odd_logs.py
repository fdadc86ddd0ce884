"""Logs with something in them that is not known here, or that can't be: what is known is read, and nothing stops."""

import shutil
from pathlib import Path
from random import Random

import pytest

from forebay.history.darshan import ingest as module
from forebay.history.darshan import summary
from forebay.history.darshan.ingest import ingest
from forebay.history.darshan.ingest_worker import read_one
from forebay.history.darshan.log_format import UnreadableLog
from forebay.history.darshan.summary import read_log
from forebay.history.store import open_store
from forebay.history.store.listing import list_runs
from forebay.profile.findings.diagnosis import diagnose_log
from forebay.profile.findings.finding import Code
from support import deadly
from support.damage import damaged
from support.darshan_logs import LUSTRE, MPIIO, POSIX, SHARED, STDIO, Parts, wheel_log, wheel_logs

UNKNOWN = SHARED.parent / "darshan-odd" / "unknown-module.darshan"
LOG = "ior_hdf5_example.darshan"
DAMAGED = 150


def test_a_log_with_a_module_of_a_newer_darshan_is_read_but_for_that(tmp_path: Path) -> None:
    newer = Parts(wheel_log(LOG)).widened().with_raw(30, b"whatever it is")
    found = read_one(str(newer.write(tmp_path / "x.darshan")))
    assert (found.status, found.reason) == (
        "incomplete",
        "has records of module number 30, which this Forebay does not know: a newer Darshan wrote the log; everything "
        "else was read",
    )
    [finding] = (f for f in diagnose_log(tmp_path / "x.darshan").findings if f.code == Code.INCOMPLETE_LOG)
    assert finding.seen == f"the log {found.reason}" and "newer Darshan" in finding.remedy
    assert "MODMEM" not in finding.remedy
    said, whole = found.row or {}, read_log(wheel_log(LOG)).row
    assert {name: said[name] for name in whole if name not in ("log_ver", "run_time")} == {
        name: whole[name] for name in whole if name not in ("log_ver", "run_time")
    }


@pytest.mark.skipif(not UNKNOWN.exists(), reason="needs the logs of the shared data folder")
def test_an_odd_log_does_not_keep_the_others_out(tmp_path: Path) -> None:
    for path in (UNKNOWN, wheel_log(LOG)):
        shutil.copy(path, tmp_path)
    with open_store(str(tmp_path / "history.db")) as store:
        report = ingest(store, [tmp_path], workers=1)
    assert (report.read, report.failed) == (2, 0)
    assert [(Path(path).name, status) for path, status, _ in report.listed] == [(UNKNOWN.name, "incomplete")]


@pytest.mark.parametrize(
    ("number", "version", "status", "reason"),
    [
        (MPIIO, 9, "incomplete", "has MPI-IO records of version 9; the newest readable one is 3"),
        (LUSTRE, 3, "incomplete", "has LUSTRE records of version 3; the newest readable one is 2"),
        (STDIO, 255, "partial", "has STDIO records of version 255; the newest readable one is 2"),
        (POSIX, 5, "failed", "has POSIX records of version 5; the newest readable one is 4"),
    ],
)
def test_records_of_a_newer_version_are_left_out(
    tmp_path: Path, number: int, version: int, status: str, reason: str
) -> None:
    found = read_one(str(Parts(wheel_log(LOG)).with_module_version(number, version).write(tmp_path / "x.darshan")))
    assert (found.status, found.reason) == (status, reason)
    assert (found.row is None) == (number == POSIX)  # without which nothing is known of the run
    if found.row:
        assert found.row["partial_flag"] == (number == STDIO)
        assert found.row["bytes_written"] > 1e6


def test_room_after_the_header_is_skipped(tmp_path: Path) -> None:
    whole = read_log(wheel_log(LOG)).row
    assert read_log(Parts(wheel_log(LOG)).with_room(8192).write(tmp_path / "x.darshan")).row == whole


@pytest.mark.parametrize("number", [MPIIO, LUSTRE])
def test_a_part_that_can_not_be_decompressed_is_left_out(tmp_path: Path, number: int) -> None:
    found = read_one(str(Parts(wheel_log(LOG)).with_raw(number, b"no zlib").write(tmp_path / "x.darshan")))
    assert found.status == "incomplete"
    assert found.reason.endswith("section cannot be decompressed")


@pytest.mark.parametrize("number", [POSIX, STDIO, LUSTRE])
def test_a_record_that_is_cut_off_is_damage(tmp_path: Path, number: int) -> None:
    log = Parts(wheel_log(LOG))
    log.with_module(number, [log.module(number)[:-8]]).write(tmp_path / "x.darshan")
    with pytest.raises(UnreadableLog, match=r"not a multiple of the record size|is truncated"):
        read_log(tmp_path / "x.darshan")


def test_records_of_another_version_than_the_log_says_are_damage(tmp_path: Path) -> None:
    path = Parts(wheel_log(LOG)).with_module_version(POSIX, 3).write(tmp_path / "x.darshan")
    with pytest.raises(UnreadableLog, match=r"POSIX section has [\d,]+ bytes, not a multiple of the record size 664"):
        read_log(path)


def test_whatever_goes_wrong_with_a_log_is_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, _examine: object) -> None:
        raise RuntimeError(f"in {path.suffix}\nof all places")

    monkeypatch.setattr(summary, "read_log", fail)
    found = read_one(str(wheel_log(LOG)))
    assert (found.status, found.reason) == ("failed", "is damaged: RuntimeError in .darshan of all places")


def test_a_log_that_the_library_is_never_done_with_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_many", deadly.read_for_ever)
    for name in ("a.darshan", deadly.ENDLESS, "z.darshan"):
        Parts(wheel_log("noposixopens.darshan")).with_job(job_id=ord(name[0])).write(tmp_path / name)
    with open_store(str(tmp_path / "history.db")) as store:
        report = ingest(store, [tmp_path], workers=1)
    assert (report.read, report.failed) == (2, 1)
    assert report.listed[0][0].endswith(deadly.ENDLESS)


def test_an_ingest_comes_through_whatever_the_logs_are(tmp_path: Path) -> None:
    """A small part of benchmarks/ingest_fuzz.py."""
    random, logs = Random(16), [path for path in wheel_logs() if path.stat().st_size < 100_000]
    for number in range(DAMAGED):
        (tmp_path / f"{number:03}.darshan").write_bytes(damaged(logs[number % len(logs)], random))
    Parts(wheel_log(LOG)).with_job(job_id=17).write(tmp_path / "whole.darshan")
    with open_store(str(tmp_path / "history.db")) as store:
        report = ingest(store, [tmp_path], workers=1)
        with store.open_reader() as connection:
            assert 17 in {run["job_id"] for run in list_runs(connection)}
    assert report.total == DAMAGED + 1
    assert 30 < report.failed < DAMAGED
    assert [reason for _, _, reason in report.listed if "died" in reason or "Error" in reason] == []
