"""A history that Forebay 0.1 wrote: this version opens it, lists it and decides from it.

`history_0.1.sql` is a dump of it: six runs on two file systems, of seven logs that the tests wrote; Slurm's accounting;
three decisions, one of a job that still has its targets; a job that runs; and two tokens.
"""

import sqlite3
from pathlib import Path

import pytest

from support.command import Forebay
from support.darshan_logs import Parts, wheel_log

DUMP = Path(__file__).parents[1] / "data" / "history_0.1.sql"


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    path = tmp_path / "history.db"
    connection = sqlite3.connect(path)
    connection.executescript(DUMP.read_text())
    connection.close()
    monkeypatch.setenv("FOREBAY_DB", str(path))
    return Forebay(capfd, monkeypatch)


def test_its_runs_are_listed(forebay: Forebay) -> None:
    runs = forebay("history", "runs", "--json").json["runs"]
    assert [(r["run_id"], r["app"], r["job_id"], r["filesystem"], r["stripe_count"]) for r in runs] == [
        (5, "vpicio_uni", 4011, "/scratch2", 24),
        (4, "vpicio_uni", 4010, "/scratch2", 24),
        (3, "ior", 4003, "/scratch1", 32),
        (2, "ior", 4001, "/scratch1", 24),
        (1, "ior", 4000, "/scratch1", 24),
        (6, "app_readAB_writeC", 71326, None, None),
    ]
    assert [r["job_name"] for r in runs] == [None, None, "checkpoint", "checkpoint", "checkpoint", None]
    assert (runs[-1]["logs"], runs[-1]["nprocs"], runs[-1]["total_bytes"]) == (2, 2, 16 << 20)


def test_a_run_on_two_file_systems_is_shown_in_full(forebay: Forebay) -> None:
    run = forebay("history", "show", 3, "--json").json
    assert {ost["filesystem"] for ost in run["osts"]} == {"/scratch1", "/scratch2"}
    assert len(run["osts"]) == run["run"]["stripe_count"] == 32
    assert [part["operation"] for part in run["requests"]] == ["read", "write"]
    assert [Path(log["path"]).name for log in run["logs"]] == ["ann_ior_id4003_1-2-3-4.darshan"]


def test_its_sums_are_what_they_were(forebay: Forebay) -> None:
    stats = forebay("history", "stats", "--json").json
    assert (stats["runs"], stats["partial_runs"], stats["runs_without_lustre"]) == (6, 0, 1)
    assert [(f["filesystem"], f["runs"]) for f in stats["filesystems"]] == [("/scratch1", 3), ("/scratch2", 2)]
    osts = forebay("history", "osts", "--json").json["osts"]
    assert len(osts) == 48
    worst = max((ost for ost in osts if ost["filesystem"] == "/scratch1"), key=lambda ost: ost["slowness"] or 0)
    assert (worst["ost"], round(worst["slowness"], 2)) == (22, 1.53)


def test_its_decisions_have_the_runs_that_followed_them(forebay: Forebay) -> None:
    advice = forebay("history", "advice", "--json").json["advice"]
    assert [(a["app"], a["job"], a["outcome"], a["stripe_count"]) for a in advice] == [
        ("new.x", None, "shadow", 2),
        ("vpicio_uni", "4011", "advised", 24),
        ("ior", "4003", "advised", 2),
    ]
    assert [[run["run_id"] for run in a["runs"]] for a in advice] == [[], [5], [3]]


def test_it_advises_as_it_did(forebay: Forebay) -> None:
    advice = forebay("advise", "--app", "ior", "--procs", 48, "--json").json
    assert (advice["filesystem"], advice["phase"], advice["runs"]) == ("/scratch1", "heuristic", [1, 2, 3])
    assert (advice["stripe_count"], advice["stripe_size"], advice["stripe_offset"]) == (2, 1 << 20, -1)


def test_its_leases_hold_until_their_job_gives_them_back(forebay: Forebay) -> None:
    released = forebay("advise", "--release", 4011, "--json").json
    assert released["released"] == 24
    assert forebay("advise", "--release", 4011, "--json").json["released"] == 0


def test_its_tokens_are_still_tokens(forebay: Forebay) -> None:
    tokens = forebay("token", "list", "--json").json["tokens"]
    assert [(t["name"], t["role"], t["node"], t["uid"]) for t in tokens] == [
        ("ann", "user", "", 1000),
        ("n1-agent", "agent", "n1", -1),
    ]


def test_new_logs_are_added_to_it(forebay: Forebay, tmp_path: Path) -> None:
    log = Parts(wheel_log("sample-goodost.darshan")).with_job(job_id=5000, start=1_700_900_000)
    log.write(tmp_path / "new.darshan")
    assert forebay("ingest", tmp_path, "--workers", 1, "--json").json["logs"]["read"] == 1
    assert forebay("history", "runs", "--json").json["runs"][0]["run_id"] == 7
