"""`forebay study jobs` as a user types it."""

import csv
import json
from pathlib import Path

import pytest

from forebay.history.jobs import read_jobs
from support.command import Forebay

KTH = Path(__file__).parents[3].parent / "shared/data/kth"
EXAMPLE = Path(__file__).parents[3] / "src/forebay/show/examples/jobs.csv"
HEAD = "job,submit,nodes,walltime,runtime,bytes_per_node"
MACHINE = ("--nodes", 16, "--space", "160GB", "--workers", 1)
TWO = ("--schedule", "fcfs-bb,sjf-bb")
THREE = ("--schedule", "easy,fcfs-bb,sjf-bb")


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.chdir(tmp_path)
    return Forebay(capfd, monkeypatch)


def test_the_study_writes_report_tables_and_figures(forebay: Forebay, tmp_path: Path) -> None:
    options = (
        "--jobs",
        EXAMPLE,
        *MACHINE,
        *THREE,
        "--sweep",
        "space=0.5,2",
        "--sweep",
        "walltimes=1,5",
        "--out",
        "new",
    )
    ran = forebay("study", "jobs", *options)
    assert ran.code == 0
    assert "Waiting in hours, bounded slowdown and use" in ran.out
    assert "sjf-bb has the least waiting time" in ran.out
    assert "Reserving bytes as well as nodes for the first job" in ran.out
    out = tmp_path / "new"
    assert sorted(p.name.split("-")[1] for p in out.glob("*.png")) == [str(n) for n in range(1, 9)]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "--jobs jobs.csv --nodes 16 --space 160GB --mode allocation --schedule easy,fcfs-bb,sjf-bb" in page
    assert "--sweep space=0.5,2 --sweep walltimes=1,5" in page
    document = json.loads((out / "results.json").read_text(encoding="utf-8"))
    changed = [(r["sweep"], r["value"], r["schedule"]) for r in document["sweeps"]]
    assert len(changed) == 12
    assert ("space", 0.5, "fcfs-bb") in changed


def test_a_sweep_that_leaves_more_jobs_out_says_so(forebay: Forebay) -> None:
    rows = read_jobs(str(EXAMPLE)).rows
    fitting = int((rows["bytes"] <= 16 * 10**9).sum())
    assert 0 < fitting < len(rows)
    ran = forebay("study", "jobs", "--jobs", EXAMPLE, *MACHINE, "--schedule", "sjf-bb", "--sweep", "space=0.1")
    assert f"With 0.1 times the space, {fitting} jobs fit on the machine instead of {len(rows)}:" in ran.out


def test_rows_and_starts_agree_with_the_jobs(forebay: Forebay, tmp_path: Path) -> None:
    options = ("--jobs", EXAMPLE, *MACHINE, *TWO, "--json", "--starts", "starts.csv")
    document = forebay("study", "jobs", *options).json
    assert [(row["jobs"], row["schedule"]) for row in document["rows"]] == [("jobs", "fcfs-bb"), ("jobs", "sjf-bb")]
    jobs = read_jobs(str(EXAMPLE))
    submits = dict(zip(jobs.ids, jobs.rows["submit"].tolist(), strict=True))
    with (tmp_path / "starts.csv").open(newline="") as file:
        starts = list(csv.DictReader(file))
    for row in document["rows"]:
        own = [start for start in starts if start["schedule"] == row["schedule"]]
        waited = sorted(float(start["start"]) - submits[start["job"]] for start in own)
        assert len(waited) == row["count"] == 120
        assert waited[0] >= 0
        assert row["mean_wait"] == pytest.approx(sum(waited) / 120)
        assert row["max_wait"] == pytest.approx(waited[-1])
        assert 0 < row["bytes_used"] < row["nodes_used"] <= 1
    assert document == forebay("study", "jobs", *options[:-2], "--out", "again").json


def test_staging_holds_bytes_before_the_start_and_after_the_end(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "job,submit,nodes,walltime,runtime,bytes,bytes_in,bytes_out\n1,0,1,600,60,9,5GB,2GB\n"
    )
    options = ("--jobs", "x.csv", *MACHINE, "--schedule", "sjf-bb", "--json", "--starts", "starts.csv")
    [row] = forebay("study", "jobs", *options, "--mode", "transfers", "--pfs", "0.1 GB/s").json["rows"]
    assert (row["mean_wait"], row["makespan"]) == (pytest.approx(50), pytest.approx(50 + 60 + 20))
    assert row["bytes_used"] == pytest.approx(9 / 160e9)
    assert row["nodes_used"] == pytest.approx(60 / 130 / 16)
    assert (tmp_path / "starts.csv").read_text() == "job,start,end,disks,schedule,jobs\n1,50,110,,sjf-bb,x\n"


def test_real_disks_have_numbers_and_fragments_count(forebay: Forebay, tmp_path: Path) -> None:
    bandwidths = 'write_bandwidth = "1 GB/s"\nread_bandwidth = "1 GB/s"'
    disk = f'[[node.disk]]\ncount = 2\ncapacity = "10 GB"\n{bandwidths}\n'
    (tmp_path / "two.toml").write_text(f'name = "two"\n[[node]]\nname = "n"\nnetwork_bandwidth = "1 GB/s"\n{disk}')
    rows = ["1,0,1,100,100,6GB", "2,1,1,100,50,6GB", "3,2,1,100,100,8GB"]  # 8 GB are free, but 4 on each disk
    (tmp_path / "x.csv").write_text("\n".join(["job,submit,nodes,walltime,runtime,bytes", *rows]) + "\n")
    options = ("--jobs", "x.csv", "--nodes", 16, "--workers", 1, "--schedule", "fcfs-bb", "--starts", "starts.csv")
    ran = forebay("study", "jobs", *options, "--platform", "two.toml", "--policy", "worst-fit", "--out", "disks")
    assert ran.code == 0
    with (tmp_path / "starts.csv").open(newline="") as file:
        first, second, third = csv.DictReader(file)
    assert [float(job["start"]) for job in (first, second, third)] == [0, 1, 51]
    assert {first["disks"], second["disks"]} == {"0", "1"}
    assert third["disks"] == second["disks"]
    forebay("study", "jobs", *options, "--space", "20GB", "--out", "pool")
    with (tmp_path / "starts.csv").open(newline="") as file:
        assert [float(row["start"]) for row in csv.DictReader(file)] == [0, 1, 2]


def test_several_files_are_parts_wherever_they_stand(forebay: Forebay, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv"):
        (tmp_path / name).write_text(f"{HEAD}\n1,0,1,60,{ord(name[0])},0\n")
    document = forebay("study", "jobs", "--jobs", "a.csv", "b.csv", *MACHINE, "--jobs", "c.csv", *TWO, "--json").json
    assert {row["jobs"] for row in document["rows"]} == {"a", "b", "c"}


def test_bad_rows_are_left_out_with_a_line_each(forebay: Forebay, tmp_path: Path) -> None:
    rows = ["1,0,1,60,60,0", "2,-1,1,60,60,0", "3,0,17,60,60,0", "4,0,1,60,60,200000000000", "1,0,1,60,60,0"]
    (tmp_path / "x.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    ran = forebay("study", "jobs", "--jobs", "x.csv", *MACHINE, *TWO, "--json")
    assert ran.err.splitlines() == [
        "forebay: x.csv:3: submit must not be negative, not -1; left out",
        "forebay: x.csv:6: job '1' appears twice, on line 2; job ids must be unique; left out",
        "forebay: x.csv:4: job 3 needs 17 nodes, but the machine has 16; left out",
        "forebay: x.csv:5: job 4 needs 200.00 GB, but the burst buffer has 160.00 GB; left out",
        "forebay: 4 jobs left out",
    ]
    document = json.loads(ran.out)
    assert [row["line"] for row in document["rejected"]] == [3, 6, 4, 5]
    assert {row["count"] for row in document["rows"]} == {1}


def test_many_bad_rows_are_summarised(forebay: Forebay, tmp_path: Path) -> None:
    rows = "\n".join(f"{n},-1,1,60,60,0" for n in range(100))
    (tmp_path / "x.csv").write_text(f"{HEAD}\nok,0,1,60,60,0\n{rows}\n")
    ran = forebay("study", "jobs", "--jobs", "x.csv", *MACHINE, *TWO, "--json")
    assert len(ran.err.splitlines()) == 11
    assert ran.err.endswith("forebay: 100 jobs left out, 90 of them not shown here; results.json lists all\n")
    assert len(json.loads(ran.out)["rejected"]) == 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--jobs: is missing"),
        (("--jobs", EXAMPLE), "--nodes: is missing"),
        (("--jobs", EXAMPLE, "--nodes", 16), "--space: is missing"),
        (("--jobs", EXAMPLE, "--nodes", 16, "--space", "480"), "--space: needs a unit, like '200 GB', not '480'"),
        (("--jobs", EXAMPLE, "--nodes", 16, "--space", "-4GB"), "--space: must be from 1 byte"),
        (("--jobs", EXAMPLE, "--nodes", 16, "--space", "much"), "--space: 'much' is not a number with a unit"),
        (("--jobs", EXAMPLE, "--nodes", 0, "--space", "1GB"), "'--nodes'"),
        (("--jobs", "no.csv", *MACHINE), "no.csv: no such file"),
        (("--jobs", EXAMPLE, *MACHINE, "--schedule", "sjf"), "no scheduling policy 'sjf'; did you mean"),
        (("--jobs", EXAMPLE, *MACHINE, "--schedule", ","), "--schedule: names no policy"),
        (("--jobs", EXAMPLE, *MACHINE, "--sweep", "spaces"), "--sweep: unknown sweep 'spaces'; did you mean 'space'?"),
        (("--jobs", EXAMPLE, *MACHINE, "--sweep", "space=0"), "values must be factors above 0"),
        (("--jobs", EXAMPLE, *MACHINE, "--sweep", "walltimes=0.5"), "would kill every job"),
        (("--jobs", EXAMPLE, *MACHINE, "--window", "3d"), "--window: must be START:LENGTH"),
        (("--jobs", EXAMPLE, *MACHINE, "--window", "3d:-1h"), "--window: LENGTH must be above 0"),
        (("--jobs", EXAMPLE, *MACHINE, "--starts", "no/where.csv"), "--starts: the folder no does not exist"),
        (
            ("--jobs", "wide.csv", *MACHINE),
            "wide.csv: has no job that fits on the machine (first: job 1 needs 17 nodes, but the machine has 16)",
        ),
        (("--jobs", "bad.csv", *MACHINE), "bad.csv:1: unknown column 'node'"),
    ],
)
def test_wrong_input_is_one_line_and_nothing_is_written(
    forebay: Forebay, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    (tmp_path / "wide.csv").write_text(f"{HEAD}\n1,0,17,60,60,0\n")
    (tmp_path / "bad.csv").write_text(f"{HEAD.replace('nodes', 'node')}\n1,0,17,60,60,0\n")
    ran = forebay("study", "jobs", *options, "--out", "new")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"wide.csv", "bad.csv"}


@pytest.mark.skipif(not KTH.is_dir(), reason="the workloads of KTH are not on this machine")
def test_a_part_of_kth_has_the_numbers_of_an_independent_implementation(forebay: Forebay) -> None:
    part = KTH / "alloc-only-02.csv.gz"
    options = ("--nodes", 96, "--space", "480GB", "--schedule", "fcfs-bb,sjf-bb,filler", "--workers", 1, "--json")
    ran = forebay("study", "jobs", "--jobs", part, *options)
    rows = {row["schedule"]: row for row in json.loads(ran.out)["rows"]}
    expected = {"fcfs-bb": (13572, 10.09), "sjf-bb": (15335, 11.28), "filler": (17733, 19.02)}
    for name, (wait, slowdown) in expected.items():
        assert rows[name]["mean_wait"] == pytest.approx(wait, rel=0.01)
        assert rows[name]["mean_bounded_slowdown"] == pytest.approx(slowdown, rel=0.01)
