"""Two file systems in one history, as a user sees them: apart in every command."""

from pathlib import Path
from typing import Any

import pytest

from forebay.history.store import open_store
from forebay.history.store.running_jobs import jobs_by_target
from support.command import Forebay
from support.history_rows import ost_columns
from support.made_up_runs import MIB, a_run, fill


def osts(mount: str, sick: int | None) -> dict[str, list[Any]]:
    """Six OSTs; one of them may be slow for many files."""
    rows = [{"filesystem": mount, "ost": ost, "slowness": 30.0 if ost == sick else 1.0 + ost / 100} for ost in range(6)]
    return ost_columns(*({**row, "files": 40, "alone_files": 40, "total_bytes": MIB} for row in rows))


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    database = tmp_path / "history.db"
    monkeypatch.setenv("FOREBAY_DB", str(database))
    with open_store(str(database)) as store:
        fill(store, [a_run(n, count=6, filesystem="/scratch", osts=osts("/scratch", sick=4)) for n in range(2)])
        fill(store, [a_run(2, "ior", count=1, filesystem="/home", osts=osts("/home", sick=None))])
        fill(store, [a_run(3, "none", count=None)])
    return Forebay(capfd, monkeypatch)


def test_an_ost_that_is_sick_on_one_is_not_on_the_other(forebay: Forebay) -> None:
    ran = forebay("history", "osts")
    assert ran.out.endswith("12 OSTs of 2 file systems; sick: OST 4 of /scratch\n")
    found = {(o["filesystem"], o["ost"]): o for o in forebay("history", "osts", "--json").json["osts"]}
    assert (found["/scratch", 4]["verdict"], found["/home", 4]["verdict"]) == ("sick", "fine")
    assert (found["/scratch", 4]["runs"], found["/home", 4]["runs"]) == (2, 1)
    one = forebay("history", "osts", "--filesystem", "/home/", "--json").json["osts"]
    assert {o["filesystem"] for o in one} == {"/home"}
    assert forebay("history", "osts", "--filesystem", "/home").out.endswith("6 OSTs; no OST is sick\n")


def test_statistics_are_of_all_or_of_one(forebay: Forebay) -> None:
    every, one = (
        forebay("history", "stats", "--json").json,
        forebay("history", "stats", "--filesystem", "/home", "--json").json,
    )
    assert (every["runs"], one["runs"], one["apps"]) == (4, 1, 1)
    assert every["filesystems"] == [
        {"filesystem": "/scratch", "runs": 2, "total_bytes": 2000 * MIB},
        {"filesystem": "/home", "runs": 1, "total_bytes": 1000 * MIB},
    ]
    assert one["default"]["stripe_count_pct"] == 100
    shown = forebay("history", "stats").out
    assert "The tables below cover all of them; --filesystem MOUNT shows one." in shown
    assert "/scratch        2  2.10 GB" in shown


@pytest.mark.parametrize("command", ["osts", "stats"])
def test_a_file_system_that_no_run_was_on_is_refused_with_those_that_there_are(forebay: Forebay, command: str) -> None:
    ran = forebay("history", command, "--filesystem", "/scrtch")
    assert (ran.code, ran.out) == (2, "")
    assert "--filesystem: no run was on /scrtch; the history knows " in ran.err
    assert "/home" in ran.err and "/scratch" in ran.err


def test_runs_say_where_they_were(forebay: Forebay) -> None:
    runs = forebay("history", "runs", "--json").json["runs"]
    assert [run["filesystem"] for run in runs] == [None, "/home", "/scratch", "/scratch"]
    assert "/scratch" in forebay("history", "runs", "--app", "vpic").out
    assert {ost["filesystem"] for ost in forebay("history", "show", 3, "--json").json["osts"]} == {"/home"}


def test_targets_of_one_are_free_although_those_of_the_other_are_taken(forebay: Forebay, tmp_path: Path) -> None:
    for job, mount in ((1, "/scratch"), (2, "/home")):
        ran = forebay(
            "advise", "--app", "new", "--procs", 64, "--policy", "dca-io", "--job", job, "--filesystem", mount, "--json"
        )
        assert (ran.json["filesystem"], "no running job" in ran.json["because"]) == (mount, True)
    with open_store(str(tmp_path / "history.db")) as store, store.open_reader() as connection:
        on = {
            mount: set().union(*jobs_by_target(connection, mount, 0.0).values())
            for mount in ("/scratch", "/home", "default")
        }
    assert on == {"/scratch": {"1"}, "/home": {"2"}, "default": set()}


def test_both_are_drawn(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("history", "osts", "--plot", tmp_path / "osts.png").code == 0
    assert (tmp_path / "osts.png").stat().st_size > 10_000
