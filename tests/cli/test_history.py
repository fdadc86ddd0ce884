"""Looking at the history on the command line: what is printed, what is written, every mistake in one line."""

import json
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import duckdb
import numpy as np
import pytest

from forebay.history.store import open_store
from forebay.history.store.decisions import record_decision
from forebay.history.store.listing import COLUMNS
from forebay.history.store.schema import decisions, jobs
from support.command import Forebay, Ran
from support.made_up_runs import MIB, a_run, fill

PNG = b"\x89PNG"
DAY = 86_400.0


@pytest.fixture(autouse=True)
def greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dates are those of here, wherever the tests are run."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A history of three applications over two days, the first of which is 2020-09-13."""
    path = str(tmp_path / "history.db")
    rows = [
        a_run(i, count=c, perf_by_slowest=c * 1e8 * (1 + i % 3 / 10), nprocs=64)
        for i, c in enumerate([1] * 12 + [4] * 6 + [8] * 2)
    ]
    rows += [a_run(100 + i, "gcrm", count=None, start_time=1.6e9 + DAY + i, nprocs=8) for i in range(3)]
    rows += [a_run(200, "vorpal", partial_flag=True, nprocs=16)]
    with open_store(path) as store:
        fill(store, rows)
        with store.open_writer() as connection:
            connection.execute(jobs.insert().values(job_id=7000, job_name="nightly, or\n'not'", nodes=4))
    return path


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("FOREBAY_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    return Forebay(capfd, monkeypatch)


def sick_history(path: Path) -> str:
    rng = np.random.default_rng(1)
    slowness = rng.lognormal(0, 0.1, (8, 12))
    slowness[:, 5] *= 9
    with open_store(str(path)) as store:
        fill(store, [a_run(i, count=12, slowness=row) for i, row in enumerate(slowness.tolist())])
    return str(path)


# stats


def test_stats_are_one_json_document_with_both_tables(forebay: Forebay, db: str) -> None:
    found = forebay("history", "stats", "--db", db, "--json").json
    assert (found["runs"], found["apps"], found["partial_runs"], found["runs_without_lustre"]) == (24, 3, 1, 3)
    assert {b["high"]: b["runs"] for b in found["stripe_count"] if b["runs"]} == {1: 13, 4: 6, 8: 2}
    assert sum(b["percent"] for b in found["stripe_count"]) == pytest.approx(100)
    assert found["stripe_size"] == [{"stripe_size": MIB, "runs": 21, "percent": 100.0}]
    assert found["default"]["stripe_count_pct"] == pytest.approx(100 * 13 / 21)
    assert found["most_run"][0] == {"app": "vpic", "runs": 20, "total_bytes": 20_000 * MIB}
    assert found["seq_pct"] == pytest.approx(90)


def test_stats_for_people_say_the_same(forebay: Forebay, db: str) -> None:
    ran = forebay("history", "stats", "--db", db)
    assert ran.code == 0
    assert ran.out.startswith("24 runs of 3 applications, 25.17 GB; 1 run from partial logs, 3 without Lustre records")
    assert "61.905%" in ran.out  # 13 of 21 on one OST
    assert "Requests: 90.0% sequential" in ran.out


# apps and runs


def test_apps_tell_runs_volume_performance_and_processes(forebay: Forebay, db: str) -> None:
    apps = {a["app"]: a for a in forebay("history", "apps", "--db", db, "--json").json["apps"]}
    assert list(apps) == ["vpic", "gcrm", "vorpal"]
    assert (apps["gcrm"]["runs"], apps["gcrm"]["nprocs"]) == (3, [8])
    assert apps["gcrm"]["last_start_time"] == 1.6e9 + DAY + 2
    assert apps["vpic"]["best"] == {"nprocs": 64, "file_stripe_count": 8, "stripe_size": MIB}
    assert (apps["vorpal"]["mean_perf"], apps["vorpal"]["best"]) == (None, None)


def test_runs_are_all_there_for_machines_and_fifty_for_people(forebay: Forebay, tmp_path: Path) -> None:
    path = str(tmp_path / "many.db")
    with open_store(path) as store:
        fill(store, [a_run(i) for i in range(60)])
    assert len(forebay("history", "runs", "--db", path, "--json").json["runs"]) == 60
    assert len(forebay("history", "runs", "--db", path, "--json", "--limit", 3).json["runs"]) == 3
    shown = forebay("history", "runs", "--db", path).out
    assert shown.count("vpic") == 50
    assert "--limit N shows more" in shown
    assert forebay("history", "runs", "--db", path, "--limit", 55).out.count("vpic") == 55


def test_a_run_has_the_columns_of_the_history_and_of_the_job(forebay: Forebay, db: str) -> None:
    runs = forebay("history", "runs", "--app", "vpic", "--db", db, "--json").json["runs"]
    assert tuple(runs[0]) == COLUMNS
    assert [run["job_id"] for run in runs] == [7000 + i for i in reversed(range(20))]
    assert (runs[-1]["job_name"], runs[-1]["nodes"]) == ("nightly, or\n'not'", 4)
    assert runs[-1]["modules"] == ["POSIX", "LUSTRE"]


def test_dates_cut_out_whole_days(forebay: Forebay, db: str) -> None:
    def jobs_of(*which: str) -> set[int]:
        return {run["job_id"] for run in forebay("history", "runs", "--db", db, "--json", *which).json["runs"]}

    second_day = {7100, 7101, 7102}
    assert jobs_of("--since", "2020-09-14") == second_day
    assert jobs_of("--until", "2020-09-13").isdisjoint(second_day)
    assert len(jobs_of("--until", "2020-09-14")) == 24
    assert jobs_of("--until", "2020-09-13T12:27", "--app", "vpic") == {7000}


def test_an_answer_without_runs_says_so(forebay: Forebay, db: str) -> None:
    assert forebay("history", "runs", "--db", db, "--since", "2030-01-01").out == "No run matches.\n"
    assert forebay("history", "runs", "--db", db, "--since", "2030-01-01", "--json").json == {"runs": []}


# show


def test_show_tells_everything_of_a_run(forebay: Forebay, db: str) -> None:
    found = forebay("history", "show", 1, "--db", db, "--json").json
    assert set(found) == {"run", "modules", "requests", "osts", "logs"}
    assert (found["run"]["run_key"], found["modules"][0]["module"]) == ("vpic/0", "POSIX")
    assert forebay("history", "show", 1, "--db", db).out.startswith("Run 1: vpic, 64 processes\n")


def test_show_says_in_words_that_a_run_is_partial(forebay: Forebay, db: str) -> None:
    whole, partial = (forebay("history", "show", number, "--db", db).out for number in (1, 24))
    assert "Partial: records of POSIX are missing" in partial
    assert "Partial:" not in whole


def test_show_lists_the_osts_with_most_bytes_if_none_is_known_to_be_slow(forebay: Forebay, tmp_path: Path) -> None:
    path = tmp_path / "many.db"
    osts = a_run(0, slowness=[None] * 56)["osts"]
    osts["total_bytes"][50] += 1
    with open_store(str(path)) as store:
        fill(store, [a_run(0, count=56, osts=osts, filesystem=""), a_run(1, slowness=[1.0] * 50 + [7.0])])
    plain, slow = (forebay("history", "show", number, "--db", path).out for number in (1, 2))
    assert "OSTs, the 40 with most bytes" in plain and "OSTs, the 40 slowest" in slow
    first = [out.partition("slowness")[2].splitlines()[1].split()[1] for out in (plain, slow)]
    assert first == ["50", "50"]
    assert "filesystem unknown" in " ".join(plain.split())


def test_replay_of_a_missing_file_says_what_it_needs(forebay: Forebay, tmp_path: Path) -> None:
    for named in (f"{tmp_path}/none.db", f"sqlite:///{tmp_path}/none.db"):
        ran = forebay("replay", named)
        assert ran.code == 2 and f"{tmp_path}/none.db: no such file; replay needs the database of a service" in ran.err


# osts


def test_osts_name_the_sick_one_first_and_why(forebay: Forebay, tmp_path: Path) -> None:
    path = sick_history(tmp_path / "sick.db")
    found = forebay("history", "osts", "--db", path, "--json").json["osts"]
    assert (found[0]["ost"], found[0]["verdict"]) == (5, "sick")
    assert {o["verdict"] for o in found[1:]} == {"fine"}
    shown = forebay("history", "osts", "--db", path).out
    assert "slow in 8 of 8 runs; others in 0.00 % of theirs" in shown
    assert shown.endswith("12 OSTs; sick: OST 5\n")


def test_osts_before_and_after_a_repair_are_told_apart_by_date(forebay: Forebay, tmp_path: Path) -> None:
    path = tmp_path / "repaired.db"
    slow = [[1.0 + ost / 100 for ost in range(12)] for _ in range(12)]
    for run in slow[:6]:
        run[3] = 20.0
    rows = [a_run(i, count=12, slowness=s, start_time=1.6e9 + i // 6 * DAY + i) for i, s in enumerate(slow)]
    with open_store(str(path)) as store:
        fill(store, rows)

    def sick(*which: str) -> list[int]:
        found = forebay("history", "osts", "--db", path, "--json", *which).json["osts"]
        return [o["ost"] for o in found if o["verdict"] == "sick"]

    assert (sick("--until", "2020-09-13"), sick("--since", "2020-09-14")) == ([3], [])


def test_a_history_without_osts_says_so(forebay: Forebay, tmp_path: Path) -> None:
    path = str(tmp_path / "plain.db")
    with open_store(path) as store:
        fill(store, [a_run(0, count=None)])
    assert forebay("history", "osts", "--db", path).out == "No run has recorded which OSTs it used.\n"
    assert forebay("history", "osts", "--db", path, "--json").json == {"osts": []}


def sample(name: str) -> Path:
    """A log that comes with PyDarshan."""
    package = find_spec("darshan")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "tests" / "input" / name


@pytest.mark.parametrize(("log", "sick"), [("sample-badost.darshan", [14]), ("sample-goodost.darshan", [])])
def test_the_log_of_a_machine_with_a_bad_ost_shows_it_and_that_of_a_good_one_none(
    forebay: Forebay, tmp_path: Path, log: str, sick: list[int]
) -> None:
    assert forebay("ingest", sample(log), "--db", tmp_path / "h.db", "--workers", 1).code == 0
    found = forebay("history", "osts", "--db", tmp_path / "h.db", "--json").json["osts"]
    assert len(found) == 24
    assert [o["ost"] for o in found if o["verdict"] == "sick"] == sick


# profile


def test_profile_gives_curve_pattern_drift_and_forecast(forebay: Forebay, db: str) -> None:
    found = forebay("profile", "vpic", "--db", db, "--json").json
    assert (found["processes"], found["runs"], found["pattern"]["sharing"]) == (64, 20, "shared file")
    assert found["curve"]["counts"] == [1, 4, 8]
    assert [point["runs"] for point in found["points"]] == [12, 6, 2]
    assert found["forecast"]["count"] == 8
    assert found["process_counts"] == [{"nprocs": 64, "runs": 20}]
    assert found["drift"]["verdict"] == "too few runs"


def test_profile_takes_the_nearest_number_of_processes_and_says_so(forebay: Forebay, db: str) -> None:
    ran = forebay("profile", "vpic", "--procs", 100, "--db", db)
    assert "It never ran with 100 processes; 64 is the nearest." in ran.out
    assert "Forecast: the next run moves 1.05 GB" in ran.out
    found = forebay("profile", "vpic", "--procs", 100, "--db", db, "--json").json
    assert (found["asked_processes"], found["processes"]) == (100, 64)


def test_profile_is_of_one_file_system(forebay: Forebay, tmp_path: Path) -> None:
    path = str(tmp_path / "two.db")
    with open_store(path) as store:
        fill(store, [a_run(i, filesystem=f"/{mount}") for i, mount in enumerate(["home", "scratch", "scratch"])])
    ran = forebay("profile", "vpic", "--db", path)
    assert "2 runs from" in ran.out
    assert "These runs used /scratch. It also ran on /home (1 run); --filesystem MOUNT shows those." in ran.out
    found = forebay("profile", "vpic", "--db", path, "--filesystem", "/home/", "--json").json
    assert (found["filesystem"], found["elsewhere"]) == ("/home", [{"filesystem": "/scratch", "runs": 2}])
    wrong = forebay("profile", "vpic", "--db", path, "--filesystem", "/work")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "no run was on /work; the history knows /home, /scratch" in wrong.err


def test_applications_and_runs_are_of_all_file_systems_or_of_one(forebay: Forebay, tmp_path: Path) -> None:
    path = str(tmp_path / "two.db")
    with open_store(path) as store:
        runs = [("home", 1e8), ("scratch", 3e8), ("scratch", 5e8)]
        fill(store, [a_run(i, filesystem=f"/{mount}", perf_by_slowest=perf) for i, (mount, perf) in enumerate(runs)])
    every = forebay("history", "apps", "--db", path)
    assert every.out.endswith("Over all 2 file systems; --filesystem MOUNT shows one.\n")
    one = forebay("history", "apps", "--db", path, "--filesystem", "/home")
    assert "Over all" not in one.out
    (here,) = forebay("history", "apps", "--db", path, "--filesystem", "/home", "--json").json["apps"]
    assert (here["runs"], here["mean_perf"], here["best_perf"], here["best_run"]) == (1, 1e8, 1e8, 1)
    assert here["last_start_time"] == a_run(0)["start_time"]
    listed = forebay("history", "runs", "--db", path, "--filesystem", "/scratch/", "--json").json["runs"]
    assert [(run["run_id"], run["filesystem"]) for run in listed] == [(3, "/scratch"), (2, "/scratch")]
    for command in ("apps", "runs"):
        wrong = forebay("history", command, "--db", path, "--filesystem", "/work")
        assert (wrong.code, wrong.err.count("\n")) == (2, 1)
        assert "no run was on /work; the history knows" in wrong.err
    asked = forebay("profile", "vpic", "--db", path, "--filesystem", "/home", "--procs", 8)
    assert "It never ran with 8 processes on /home; 64 is the nearest." in asked.out


def test_profile_of_partial_runs_says_what_is_missing(forebay: Forebay, db: str) -> None:
    shown = forebay("profile", "vorpal", "--db", db).out
    assert "All these runs have partial logs" in shown
    assert "Forecast: none" in shown
    assert forebay("profile", "vorpal", "--db", db, "--json").json["curve"] is None


# plots


@pytest.mark.parametrize(
    "command",
    [
        ("history", "stats"),
        ("history", "apps"),
        ("history", "osts"),
        ("history", "runs", "--app", "vpic"),
        ("history", "runs", "--app", "gcrm"),
        ("history", "runs", "--app", "vorpal"),
        ("history", "runs", "--app", "vpic", "--since", "2030-01-01"),
        ("profile", "vpic"),
        ("profile", "gcrm"),
        ("profile", "vorpal"),
    ],
)
def test_a_plot_is_drawn_where_it_is_asked_for(forebay: Forebay, db: str, tmp_path: Path, command: tuple[str]) -> None:
    out = tmp_path / "plot.png"
    ran = forebay(*command, "--db", db, "--plot", out, "--json")
    assert (ran.code, ran.err) == (0, f"drawn: {out}\n")
    assert out.read_bytes().startswith(PNG)
    json.loads(ran.out)


def test_the_same_history_gives_the_same_bytes_and_pdf_where_asked(forebay: Forebay, db: str, tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.pdf"):
        assert forebay("profile", "vpic", "--db", db, "--plot", tmp_path / name).code == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")


# export


def test_export_writes_every_table_as_parquet_and_nothing_else(forebay: Forebay, db: str, tmp_path: Path) -> None:
    with open_store(db) as store, store.open_writer() as connection:
        decided = {"app": "vpic", "nprocs": 64, "policy": "forebay", "phase": "rule", "stripe_count": 4}
        where = {"stripe_size": MIB, "stripe_offset": 0, "because": 'say "\\N", it', "outcome": "advised"}
        connection.execute(decisions.insert().values(time=0.1 + 0.2, **decided, **where))
    folder = tmp_path / "it's [here]"
    written = forebay("history", "export", folder, "--db", db, "--json").json["tables"]
    tables = {Path(t["file"]).name: t["rows"] for t in written}
    assert tables == {"runs.parquet": 24, "run_modules.parquet": 24, "run_osts.parquet": 53, "jobs.parquet": 1,
                      "run_requests.parquet": 0, "decisions.parquet": 1}  # fmt: skip
    assert {path.name for path in folder.iterdir()} == set(tables)

    def read(name: str, columns: str) -> list[tuple[object, ...]]:
        with duckdb.connect() as database:
            found = database.execute(f"SELECT {columns} FROM read_parquet(?)", [str(folder / name).replace("[", "[[]")])
            return found.fetchall()

    assert read("runs.parquet", "app, partial_flag, stripe_count, pool")[-1] == ("vorpal", True, 1, None)
    assert read("jobs.parquet", "job_name, state") == [("nightly, or\n'not'", None)]
    assert read("decisions.parquet", "time, because, job") == [(0.1 + 0.2, 'say "\\N", it', None)]
    assert read("run_osts.parquet", "typeof(ost), typeof(slowness), slowness")[0] == ("BIGINT", "DOUBLE", None)


def test_export_again_replaces_the_files(forebay: Forebay, db: str, tmp_path: Path) -> None:
    for _ in range(2):
        assert forebay("history", "export", tmp_path / "out", "--db", db).code == 0
    assert len(list((tmp_path / "out").iterdir())) == 6


def test_an_export_that_fails_leaves_what_was_there(
    forebay: Forebay, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forebay("history", "export", tmp_path / "out", "--db", db)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def fail(path: Path, *_: object) -> int:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("forebay.show.export.write_parquet", fail)
    assert forebay("history", "export", tmp_path / "out", "--db", db).code == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


# mistakes

LOOKS = [("history", "stats"), ("history", "apps"), ("history", "runs"), ("history", "osts"), ("history", "show", 1),
         ("history", "export", "out"), ("profile", "vpic")]  # fmt: skip


def one_line(ran: Ran, *words: str) -> None:
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert all(word in ran.err for word in words), ran.err


@pytest.mark.parametrize("command", LOOKS)
def test_without_a_history_the_way_to_one_is_told(forebay: Forebay, tmp_path: Path, command: tuple[object]) -> None:
    one_line(forebay(*command), "forebay ingest PATH")
    one_line(forebay(*command, "--db", tmp_path / "none.db"), "none.db", "forebay ingest PATH")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("command", LOOKS)
def test_an_empty_history_tells_the_way_to_fill_it(forebay: Forebay, tmp_path: Path, command: tuple[object]) -> None:
    open_store(str(tmp_path / "empty.db")).close()
    one_line(forebay(*command, "--db", tmp_path / "empty.db"), "the history is empty", "forebay ingest PATH")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("history", "runs", "--app", "vpci"), ["no application 'vpci'", "did you mean 'vpic'"]),
        (("profile", "vpci"), ["no application 'vpci'", "did you mean 'vpic'"]),
        (("profile", "vpic", "--procs", 0), ["--procs"]),
        (("history", "runs", "--since", "yesterday"), ["--since", "must be a date like 2026-01-31", "yesterday"]),
        (("history", "osts", "--until", "2026-13-01"), ["--until", "must be a date"]),
        (("history", "runs", "--since", "2026-02-01", "--until", "2026-01-31"), ["--until", "is not after"]),
        (("history", "osts", "--since", "2026-02-01", "--until", "2026-01-31"), ["--until", "is not after"]),
        (("history", "runs", "--limit", 0), ["--limit"]),
        (("history", "runs", "--plot", "x.png"), ["--plot", "name it with --app"]),
        (("history", "show", 99), ["no run 99", "from 1 to 24"]),
        (("history", "show", 10**30), [f"no run {10**30}", "from 1 to 24"]),
        (("history", "runs", "--limit", 10**30), ["--limit"]),
        (("history", "runs", "--app", "\udcff"), ["'\\udcff'", "is not UTF-8"]),
        (("profile", "\udcff"), ["'\\udcff'", "is not UTF-8"]),
        (("profile", "vpic", "--procs", 10**400), ["--procs"]),
        (("history", "show", "x"), ["RUN"]),
        (("history", "stats", "--plot", "no/where/x.png"), ["--plot", "does not exist; create it first"]),
        (("history", "apps", "--plot", "."), ["--plot", "is a folder"]),
        (("history", "apps", "--plot", "x.xyz"), ["--plot", "cannot draw .xyz files", ".png or .pdf", "x.png"]),
        (("profile", "vpic", "--plot", "x"), ["--plot", "x has no suffix", ".png or .pdf"]),
        (("history", "export", "history.db"), ["is a file"]),
    ],
)
def test_a_mistake_is_one_line(forebay: Forebay, db: str, command: tuple[object], words: list[str]) -> None:
    one_line(forebay(*command, "--db", db), *words)


@pytest.mark.parametrize("command", [("history", c) for c in ("stats", "apps", "runs", "show", "osts", "export")])
def test_every_help_has_an_example(forebay: Forebay, command: tuple[str]) -> None:
    ran = forebay(*command, "--help")
    assert ran.code == 0
    assert f"Example: forebay {' '.join(command)}" in ran.out
    assert "--json" in ran.out


def test_no_history_command_scans_the_runs_for_sums(db: str) -> None:
    """So that it stays fast with millions of runs: `stats` reads nothing but totals and names."""
    import sqlalchemy as sa
    from sqlalchemy import event

    from forebay.history.store.totals import app_count, layout_sums, top_apps

    said: list[str] = []
    with open_store(db) as store, store.open_reader() as connection:
        event.listen(connection, "before_cursor_execute", lambda *a: said.append(a[2]))
        layout_sums(connection), app_count(connection), top_apps(connection, "runs", 10)
        plans = [connection.execute(sa.text(f"EXPLAIN QUERY PLAN {text.replace('?', '10')}")) for text in list(said)]
        tables = {word for plan in plans for row in plan for word in str(row[3]).split()}
    assert "totals" in tables
    assert "runs" not in tables


# advice


@pytest.fixture
def advised(tmp_path: Path) -> str:
    """A history with three decisions: in shadow mode for job 7000, for no job, and refused."""
    path = str(tmp_path / "advised.db")
    row = {
        "app": "vpic", "nprocs": 64, "policy": "forebay", "phase": "rule", "stripe_count": 8, "stripe_size": MIB,
        "stripe_offset": 3, "because": "it is so", "applied_to": None,
    }  # fmt: skip
    with open_store(path) as store:
        fill(store, [a_run(0, count=2)])
        with store.open_writer() as connection:
            record_decision(connection, row | {"time": 1.6e9, "job": "7000", "outcome": "shadow"})
            record_decision(connection, row | {"time": 1.6e9 + DAY, "job": None, "outcome": "shadow", "app": "gcrm"})
            told = {"time": 1.6e9 + 2 * DAY, "job": "a\x1b", "outcome": "refused", "stripe_offset": -1}
            record_decision(connection, row | told | {"applied_to": "/scratch/out", "filesystem": "/scratch"})
    return path


def test_what_was_decided_in_shadow_mode_is_listed_beside_what_ran(forebay: Forebay, advised: str) -> None:
    shown = forebay("history", "advice", "--db", advised)
    assert [line.split()[0] for line in shown.out.splitlines()[1:4]] == ["3", "2", "1"]
    assert "8 x 1 MiB" in shown.out and "2 x 1 MiB (run 1)" in shown.out
    assert [("  /scratch  " in line) for line in shown.out.splitlines()[1:4]] == [True, False, False]
    assert "\x1b" not in shown.out
    found = forebay("history", "advice", "--outcome", "shadow", "--db", advised, "--json").json["advice"]
    assert [(d["decision_id"], d["app"]) for d in found] == [(2, "gcrm"), (1, "vpic")]
    assert [run["run_id"] for run in found[1]["runs"]] == [1]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        (("--app", "gcrm"), [2]),
        (("--job", "7000"), [1]),
        (("--outcome", "refused"), [3]),
        (("--limit", 1), [3]),
        (("--since", "2020-09-15"), [3]),
        (("--until", "2020-09-13"), [1]),
        (("--app", "nobody"), []),
    ],
)
def test_advice_can_be_filtered(forebay: Forebay, advised: str, filters: tuple[object], numbers: list[int]) -> None:
    found = forebay("history", "advice", *filters, "--db", advised, "--json").json["advice"]
    assert [d["decision_id"] for d in found] == numbers


def test_one_decision_tells_its_reason(forebay: Forebay, advised: str) -> None:
    shown = forebay("history", "advice", 1, "--db", advised).out
    assert "shadow: 8 x 1 MiB from target 3" in shown
    assert "policy forebay (rule): it is so" in shown
    assert "run 1, " in shown
    [one] = forebay("history", "advice", 3, "--db", advised, "--json").json["advice"]
    assert one["applied_to"] == "/scratch/out"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((99,), ["no decision 99", "forebay history advice"]),
        ((1, "--app", "vpic"), ["DECISION", "cannot be combined with options that filter"]),
        (("--outcome", "shadwo"), ["no outcome 'shadwo'", "shadow"]),
        (("--since", "soon"), ["--since", "2026-01-31"]),
    ],
)
def test_a_mistake_about_advice_is_one_line(
    forebay: Forebay, advised: str, arguments: tuple[object], words: list[str]
) -> None:
    ran = forebay("history", "advice", *arguments, "--db", advised)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert all(word in ran.err for word in words)


def test_without_advice_the_way_to_some_is_told(forebay: Forebay, db: str) -> None:
    assert "forebay advise --shadow" in forebay("history", "advice", "--db", db).out
    assert forebay("history", "advice", "--app", "x", "--db", db).out == "No advice matches.\n"
