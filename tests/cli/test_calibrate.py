"""`forebay calibrate` as its users call it, and what `forebay diagnose` says about it."""

import json
from pathlib import Path

import pytest

from forebay.history.store import open_store
from forebay.history.store.runs import add_runs
from forebay.profile.calibration.filesystem_costs import FileSystem, Parameters
from support.command import Forebay
from support.darshan_logs import wheel_log
from support.history_rows import request_row, run_row
from support.measured_runs import draw_runs


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.setenv("FOREBAY_CALIBRATION", str(tmp_path / "calibration.toml"))
    return Forebay(capfd, monkeypatch)


def fill(db: Path, count: int) -> None:
    rows = []
    for number, run in enumerate(draw_runs(count, Parameters(fs=FileSystem(latency=(5e-3, 2e-3))))):
        requests = [
            request_row(
                name,
                total_bytes=int(run["bytes"][side]),
                requests=int(run["requests"][side]),
                request_bytes=int(run["bytes"][side]),
                contiguous=int(run["contiguous"][side]),
                shared_bytes=int(run["shared"][side] * run["bytes"][side]),
            )
            for side, name in enumerate(("read", "write"))
        ]
        processes, (read, written) = int(run["processes"]), run["seconds"].tolist()
        rows.append(
            run_row(str(number), nprocs=processes, io_procs=processes, start_time=float(run["start"]),
                    read_time=read, write_time=written, request_rows=requests, filesystem="/lus",
                    stripe_count=1, stripe_size=1 << 20)
        )  # fmt: skip
    with open_store(str(db)) as store, store.open_writer() as connection:
        add_runs(connection, rows)


def test_a_diagnosis_says_which_calibration_it_rests_on(forebay: Forebay, tmp_path: Path) -> None:
    db, log = tmp_path / "history.db", wheel_log("sample-badost.darshan")
    fill(db, 80)
    assert "not calibrated to this machine" in forebay("diagnose", log).out
    assert json.loads(forebay("diagnose", log, "--json").out)["calibration"] is None
    document = forebay("calibrate", "--db", db, "--json").json
    assert (document["fitted_runs"], document["checked_runs"]) == (40, 40)
    assert document["reads"]["seconds_per_wait"] > 2e-3 > 1e-3 > document["writes"]["seconds_per_call"]
    assert document["reads"]["score"]["median_factor"] < 1.5 < document["reads"]["score"]["one_bandwidth_median_factor"]
    assert "model that was calibrated on 20" in " ".join(forebay("diagnose", log).out.split())
    known = json.loads(forebay("diagnose", log, "--json").out)["calibration"]
    assert known["source"] == "the history" and known["knows_requests"]
    assert known["median_factor_reads"] == pytest.approx(document["reads"]["score"]["median_factor"], rel=1e-3)


def test_a_calibration_is_for_one_file_system_if_it_is_named(forebay: Forebay, tmp_path: Path) -> None:
    db = tmp_path / "history.db"
    fill(db, 40)
    ran = forebay("calibrate", "--db", db, "--filesystem", "/lus/")
    assert ran.code == 0 and "the history on /lus: 20 runs fitted" in ran.out
    assert 'filesystem = "/lus"' in (tmp_path / "calibration.toml").read_text()
    assert forebay("calibrate", "--db", db, "--filesystem", "/other").code == 2


def test_a_figure_shows_predicted_against_measured_seconds(forebay: Forebay, tmp_path: Path) -> None:
    db, figure = tmp_path / "history.db", tmp_path / "calibration.png"
    fill(db, 40)
    assert forebay("calibrate", "--db", db, "--dry-run", "--plot", figure).code == 0
    assert figure.stat().st_size > 10_000
    assert not (tmp_path / "calibration.toml").exists()


def test_too_few_runs_are_refused_and_nothing_is_written(forebay: Forebay, tmp_path: Path) -> None:
    db = tmp_path / "history.db"
    fill(db, 12)
    ran = forebay("calibrate", "--db", db)
    assert ran.code == 2 and "12 runs with known I/O times, but a calibration needs 20" in ran.err
    assert not (tmp_path / "calibration.toml").exists()


def test_wrong_files_are_refused_in_one_line(forebay: Forebay, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("jobs: []\n")
    for arguments in (
        (wrong,),
        (tmp_path / "missing",),
        (wrong, "--filesystem", "/lus"),
        ("--db", tmp_path / "none.db"),
    ):
        ran = forebay("calibrate", *arguments)
        assert ran.code == 2 and ran.err.count("\n") == 1, arguments
    (tmp_path / "calibration.toml").write_text("speed = 3\n")
    ran = forebay("diagnose", wheel_log("sample-badost.darshan"))
    assert ran.code == 2 and "is not a calibration" in ran.err
