"""Storage on the command line: what is printed, what is written, and every mistake in one line."""

import csv
import json
from pathlib import Path

import pytest

from forebay.decide.registry import policies
from forebay.simulate.storage.outcome import DECISION
from support.command import Forebay

EXAMPLES = Path(__file__).parents[3] / "src/forebay/show/examples"
BUFFER, MACHINE = EXAMPLES / "burst-buffer.toml", EXAMPLES / "machine.toml"
FEW = ("--requests", "theta-2020:200")
PNG = b"\x89PNG"
DOCUMENTED = {"requests", "parts", "sum_bytes", "allocated_bytes", "allocated_share", "refused", "failed", "delayed"}
DOCUMENTED |= {"split", "max_concurrent", "disks", "decisions_file"}
OF_A_DISK = {"node", "disk", "capacity", "max_use", "mean_use", "max_allocations", "mean_allocations"}
PLATFORM = """
[[node]]
name = "n"
network_bandwidth = "10 GB/s"
[[node.disk]]
capacity = "10 GB"
write_bandwidth = "1 GB/s"
read_bandwidth = "1 GB/s"
count = 2
"""
SCENARIO = """
[storage]
platform = "platform.toml"
requests = "jobs.yml"
policy = "first-fit"
split = "4 GB"
"""


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    """In a folder of its own, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Forebay(capfd, monkeypatch)


def job(
    name: object, size: object, start: str = "2020-01-01 00:00:00", end: str = "2020-01-01 01:00:00", **others: object
) -> str:
    values: dict[str, object] = {
        **{"id": name, "submissionTime": "2019-12-31 00:00:00", "startTime": start, "endTime": end},  # noqa: PIE800
        **{"readBytes": 0, "writtenBytes": size},  # noqa: PIE800
    }
    return "- {" + ", ".join(f"{key}: {value}" for key, value in (values | others).items()) + "}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A scenario in a folder that is not where the command is run."""
    made = tmp_path / "there"
    made.mkdir()
    (made / "platform.toml").write_text(PLATFORM)
    (made / "s.toml").write_text(SCENARIO)
    (made / "jobs.yml").write_text(
        # 4 + 4 on disk 0, 4 + 4 on disk 1; no room; the whole platform is too small; and alone later
        "jobs:\n"
        + job("a", 16_000_000_000)
        + job("b", 3_000_000_000)
        + job("c", 21_000_000_000)
        + job("d", 2_000_000_000, "2020-01-01 01:00:00", "2020-01-01 02:00:00")
    )
    return made


# forebay simulate


def test_simulate_prints_one_json_document_with_the_documented_keys(forebay: Forebay) -> None:
    found = forebay("simulate", BUFFER, *FEW, "--json").json
    assert set(found) >= DOCUMENTED
    assert [set(disk) for disk in found["disks"]] == [OF_A_DISK] * 8
    assert (found["policy"], found["mode"], found["platform"]) == ("best-bandwidth", "correct", "16TB/nNnD")
    assert (found["requests"], found["decisions_file"], found["split_bytes"]) == (200, None, 200 * 10**9)
    assert found["allocated_share"] == found["allocated_bytes"] / found["sum_bytes"]


def test_simulate_says_by_hand_what_comes_of_a_trace(forebay: Forebay, folder: Path) -> None:
    found = forebay("simulate", folder / "s.toml", "--json").json
    assert {key: found[key] for key in ("requests", "parts", "sum_bytes", "allocated_bytes", "max_concurrent")} == {
        "requests": 4,
        "parts": 4 + 1 + 6 + 1,
        "sum_bytes": 42 * 10**9,
        "allocated_bytes": 18 * 10**9,
        "max_concurrent": 4,
    }
    assert found["origin"] == "4 requests from jobs.yml"
    assert found["platform"] == "platform"
    assert [disk["max_use"] for disk in found["disks"]] == [0.8, 0.8]
    assert [disk["mean_use"] for disk in found["disks"]] == pytest.approx([0.5, 0.4])
    assert {reason["reason"] for reason in found["reasons"]} == {"larger than the whole platform", "no disk with room"}


def test_simulate_prints_tables(forebay: Forebay, folder: Path) -> None:
    ran = forebay("simulate", folder / "s.toml")
    assert (ran.code, ran.err) == (0, "")
    assert "4 requests from jobs.yml, 42.00 GB, on platform; rules: correct" in ran.out
    assert "42.86%" in ran.out
    assert "Not served" in ran.out
    assert "larger than the whole platform" in ran.out
    assert ran.out.count("10.00 GB") == 2  # the disks


def test_a_scenario_without_a_policy_is_decided_by_forebay(forebay: Forebay, folder: Path) -> None:
    text = SCENARIO.replace('policy = "first-fit"', "")
    (folder / "s.toml").write_text(text)
    assert forebay("simulate", folder / "s.toml", "--json").json["policy"] == "forebay"


def test_every_decision_is_written(forebay: Forebay, folder: Path) -> None:
    ran = forebay("simulate", folder / "s.toml", "--decisions", "d.csv", "--json")
    assert ran.json["decisions_file"] == "d.csv"
    with Path("d.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == DECISION
    assert len(rows) == 12
    assert rows[0] == ["a", "0", "allocated", "n", "0", "4000000000", "1577836800.0", "1577840400.0", ""]
    assert rows[3][4] == "1"
    assert rows[4][2:5] == ["refused", "", ""]
    assert rows[4][-1] == "no disk with room"
    assert [path.name for path in Path().iterdir()] == ["d.csv"]
    assert "decisions: e.csv" in forebay("simulate", folder / "s.toml", "--decisions", "e.csv").out


def test_by_storallocs_rules_its_own_fields_are_there_too(forebay: Forebay, folder: Path) -> None:
    found = forebay("simulate", folder / "s.toml", "--as", "storalloc", "--json").json
    assert set(found) >= DOCUMENTED | {"tt_allocated_gb", "refused_requests_count", "tt_delay_time_minutes", "nodes"}
    assert found["mode"] == "storalloc"
    assert found["requests_count"] == found["parts"] == 12
    assert found["nodes"][0]["id"] == "S-0:0"


def test_with_feedback_jobs_have_slowdowns(forebay: Forebay, folder: Path) -> None:
    found = forebay("simulate", folder / "s.toml", "--feedback", "--json").json
    assert found["jobs"]["mean_slowdown"] > 1
    assert "mean slowdown" in forebay("simulate", folder / "s.toml", "--feedback").out
    assert forebay("simulate", folder / "s.toml", "--no-feedback", "--json").json["jobs"] is None


def test_all_policies_and_the_bound_are_compared(forebay: Forebay) -> None:
    runs = forebay("simulate", BUFFER, *FEW, "--platform", "8TB/nNnD", "--policy", "all,optimal", "--json").json["runs"]
    *found, bound = runs
    assert [run["policy"] for run in found] == list(policies("storage"))
    assert (bound["policy"], bound["requests"]) == ("optimal", 200)
    assert all(run["allocated_share"] <= bound["allocated_share"] <= 1 for run in found)


def test_who_serves_most_is_the_first_in_the_table(forebay: Forebay, folder: Path) -> None:
    ran = forebay("simulate", folder / "s.toml", "--policy", "first-fit,optimal")
    assert ran.out.index("optimal") < ran.out.index("first-fit")
    assert "Disks" not in ran.out  # details are of one run


def test_the_bound_alone(forebay: Forebay) -> None:
    found = forebay("simulate", BUFFER, *FEW, "--policy", "optimal", "--json").json
    assert found["bound"] in ("nothing competes", "integer programming")
    assert forebay("simulate", BUFFER, *FEW, "--policy", "optimal").code == 0


def test_the_command_line_goes_before_the_file(forebay: Forebay, folder: Path) -> None:
    mine = folder / "platform.toml"
    options = ["--platform", mine, "--requests", folder / "jobs.yml", "--split", "no", "--requeue", "--policy", "fill"]
    found = forebay("simulate", BUFFER, *options, "--seed", 3, "--json").json
    assert (found["platform"], found["policy"], found["split_bytes"], found["seed"]) == ("platform", "fill", None, 3)
    assert found["requeue"] == {"tries": 12, "interval": 300.0}


def test_files_named_on_the_command_line_are_looked_for_here(
    forebay: Forebay, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = forebay("simulate", BUFFER, "--platform", "platform.toml", "--requests", "jobs.yml", "--json").json
    assert (found["platform"], found["requests"]) == ("platform", 4)


def test_the_volume_of_swf_jobs_can_be_said(forebay: Forebay) -> None:
    Path("t.swf").write_text("1 0 10 100 4 -1 1000 4 100 -1 1 1 1 1 1 1 -1 -1\n")
    found = forebay("simulate", BUFFER, "--requests", "t.swf", "--swf-volume", "3 GB", "--json").json
    assert found["sum_bytes"] == 12 * 10**9


def test_two_csv_files_are_one_trace(forebay: Forebay) -> None:
    Path("d.csv").write_text(
        "COBALT_JOBID,NPROCS,RUN_TIME,TOTAL_POSIX_BYTES_READ,TOTAL_POSIX_BYTES_WRITTEN,TOTAL_POSIX_F_READ_TIME,"
        "TOTAL_POSIX_F_WRITE_TIME\n7,4,100,0,20000000000,0,80\n"
    )
    Path("s.csv").write_text(
        "COBALT_JOBID,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP\n"
        "7.0,2020-01-02 02:06:18,2020-01-02 02:16:18,2020-01-02 02:26:18\n"
    )
    found = forebay("simulate", BUFFER, "--requests", "d.csv", "--requests", "s.csv", "--json").json
    assert (found["requests"], found["sum_bytes"]) == (1, 20 * 10**9)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_gives_the_same_document(forebay: Forebay, seed: int) -> None:
    one, other = (forebay("simulate", BUFFER, *FEW, "--policy", "random", "--seed", seed, "--json").out for _ in "ab")
    assert one == other


def test_simulate_draws_a_picture_of_one_run(forebay: Forebay) -> None:
    ran = forebay("simulate", BUFFER, *FEW, "--plot", "run.png")
    assert (ran.code, ran.err) == (0, "drawn: run.png\n")
    assert Path("run.png").read_bytes().startswith(PNG)


# forebay size


def test_size_finds_the_smallest_of_a_family(forebay: Forebay, folder: Path) -> None:
    options = ["--requests", folder / "jobs.yml", "--platform", folder / "platform.toml", "--step", "2 GB"]
    found = forebay("size", *options, "--split", "4 GB", "--target", "0.9", "--json").json
    assert {key: found[key] for key in ("requests", "mode", "split_bytes")} == {
        "requests": "4 requests from jobs.yml",
        "mode": "correct",
        "split_bytes": 4 * 10**9,
    }
    [one] = found["sizes"]
    # 16 + 3 + 21 GB at once and 2 later; 38 of 42 are 0.9, and only without 3 is that so: 16 + 21 and 2 are 39.
    assert (one["family"], one["policy"], one["target"]) == ("platform", "forebay", 0.9)
    assert (one["capacity"], one["share"]) == (40 * 10**9, 1.0)
    assert [point["capacity"] for point in one["points"]] == sorted(point["capacity"] for point in one["points"])
    ran = forebay("size", *options, "--split", "4 GB", "--target", "90%")
    assert "40.00 GB like platform with forebay serves 100.00 % of the bytes (target 90 %)." in ran.out
    assert "split above 4.00 GB" in ran.out


def test_size_compares_policies_and_draws_them(forebay: Forebay) -> None:
    ran = forebay("size", *FEW, "--policy", "forebay,first-fit", "--plot", "size.png", "--target", "95%")
    assert (ran.code, ran.err) == (0, "drawn: size.png\n")
    assert Path("size.png").read_bytes().startswith(PNG)
    assert ran.out.count("of the bytes (target 95 %)") == 2
    sizes = forebay("size", *FEW, "--policy", "forebay,first-fit", "--json").json["sizes"]
    assert [size["policy"] for size in sizes] == ["forebay", "first-fit"]


def test_a_target_out_of_reach_is_said(forebay: Forebay) -> None:
    Path("huge.yml").write_text("jobs:\n" + job("a", 9 * 10**17) + job("b", 10**17))
    options = ["--requests", "huge.yml", "--split", "no", "--step", "1000 TB"]
    [one] = forebay("size", *options, "--json").json["sizes"]
    assert (one["capacity"], one["share"]) == (None, None)
    assert max(point["share"] for point in one["points"]) == 0.0
    ran = forebay("size", *options)
    assert ran.code == 0
    assert "No size of 32TB/nNnD serves 99 % with forebay: " in ran.out
    assert "Splitting requests (--split '200 GB') may help." in ran.out


def test_size_follows_storallocs_rules_and_requeues(forebay: Forebay) -> None:
    options = ["--policy", "worst-fit", "--as", "storalloc", "--requeue", "--target", "60%"]
    assert forebay("size", *FEW, *options, "--json").json["mode"] == "storalloc"


# forebay study burst-buffer

GRID = """
[[grid]]
platforms = ["8TB/nNnD", "16TB/1N1D"]
policies = ["worst-fit", "best-bandwidth", "forebay", "optimal"]
as = ["correct", "storalloc"]
"""
FILES = {"runs.csv", "runs.parquet", "disks.csv", "disks.parquet", "results.json", "report.html"}


def test_a_study_writes_tables_figures_and_a_report_the_same_with_any_number_of_workers(forebay: Forebay) -> None:
    Path("grid.toml").write_text(GRID)
    made = []
    for workers in (1, 2):
        out = Path(f"out-{workers}")
        ran = forebay(
            "study", "burst-buffer", *FEW, "--grid", "grid.toml", "--out", out, "--workers", workers, "--json"
        )
        document = ran.json
        assert document["study"] == "burst-buffer"
        assert len(document["runs"]) == 2 * (4 + 2)
        made.append({path.name: path.read_bytes() for path in out.iterdir() if path.is_file()})
    assert set(made[0]) >= FILES
    assert any(name.endswith(".png") for name in made[0])
    assert made[0].keys() == made[1].keys()
    assert [name for name in made[0] if made[0][name] != made[1][name]] == []
    assert json.loads(made[0]["results.json"]) == document
    report = made[0]["report.html"].decode()
    assert "data:image/png;base64," in report
    assert 'src="http' not in report


def test_a_study_prints_tables_and_conclusions(forebay: Forebay) -> None:
    Path("grid.toml").write_text(GRID)
    ran = forebay("study", "burst-buffer", *FEW, "--grid", "grid.toml", "--out", "out", "--workers", 1)
    assert (ran.code, ran.err) == (0, "")
    assert "Bytes served, in %, rules: correct" in ran.out
    assert "Bytes served, in %, rules: storalloc" in ran.out
    assert "Changes from StorAlloc's rules to the correct ones:" in ran.out
    again = forebay("study", "burst-buffer", *FEW, "--grid", "grid.toml", "--out", "out", "--workers", 1, "--seed", 7)
    assert again.code == 2
    assert "holds a study with different settings" in again.err


def test_an_interrupted_study_says_how_to_go_on(forebay: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    from forebay.studies.burst_buffer.experiment import BurstBufferStudy

    Path("grid.toml").write_text(GRID)
    arguments = ["study", "burst-buffer", *FEW, "--grid", "grid.toml", "--out", "out", "--workers", "1"]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BurstBufferStudy, "run_piece", interrupted)
        ran = forebay(*arguments)
    assert ran.code == 130
    assert "0 of 4 pieces are saved. To resume, run: forebay study burst" in ran.err
    assert not Path("out/report.html").exists()


# Lists and help


@pytest.mark.parametrize("command", [("size",), ("study", "burst-buffer")])
def test_help_shows_an_example(forebay: Forebay, command: tuple[str, ...]) -> None:
    ran = forebay(*command, "--help")
    assert ran.code == 0
    assert "Example: forebay " + " ".join(command) in ran.out


def test_storage_policies_are_listed_with_what_they_need(forebay: Forebay) -> None:
    found = [p for p in forebay("policies", "--json").json["policies"] if p["kind"] == "storage"]
    assert {p["name"] for p in found} == set(policies("storage"))
    assert found[0]["name"] == "random"
    assert all(p["summary"] and p["source"] for p in found)
    by_name = {p["name"]: p["inputs"] for p in found}
    assert by_name["random"] == []
    assert by_name["best-bandwidth"] == ["disk bandwidths", "space booked"]
    assert "'optimal', a bound for all of these" in forebay("policies").out


# Mistakes


def refused(forebay: Forebay, *arguments: object) -> str:
    """What stderr says, in one line; nothing is printed or written."""
    before = sorted(Path().rglob("*"))
    ran = forebay(*arguments)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("forebay: ")
    assert sorted(Path().rglob("*")) == before
    return ran.err.removeprefix("forebay: ").strip()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('capacity = "10 GB"\n', "", "platform.toml: node[0].disk[0].capacity: is missing"),
        ('"10 GB"\n', '"0 GB"\n', "platform.toml: node[0].disk[0].capacity: must be at least 1 byte"),
        ('"10 GB"\n', "10\n", "platform.toml: node[0].disk[0].capacity: needs a unit, like '4 TB', not 10"),
        ('"10 GB"\n', '"10"\n', "platform.toml: node[0].disk[0].capacity: needs a unit, like '4 TB', not '10'"),
        ("capacity", "capasity", "platform.toml: node[0].disk[0].capasity: is not a key; did you mean 'capacity'?"),
        (
            'write_bandwidth = "1 GB/s"',
            'write_bandwidth = "1 GB"',
            "disk[0].write_bandwidth: '1 GB' is not a bandwidth",
        ),
        (PLATFORM[PLATFORM.index("[[node.disk]]") :], "", "platform.toml: node[0].disk: is missing"),
        (PLATFORM, 'name = "empty"', "platform.toml: node: is missing; add at least one"),
        ("[[node]]", "[[node", "platform.toml:2: is not TOML"),
    ],
)
def test_a_platform_that_is_wrong(forebay: Forebay, folder: Path, old: str, new: str, said: str) -> None:
    assert old in PLATFORM
    (folder / "platform.toml").write_text(PLATFORM.replace(old, new))
    for command in (("simulate", folder / "s.toml"), ("size", "--platform", folder / "platform.toml", *FEW)):
        assert said in refused(forebay, *command)


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (job("a", 5) + job("a", 6), "jobs.yml:3: id 'a' already belongs to the job on line 2"),
        (job("a", 5, "2020-01-02 00:00:00", "2020-01-01 00:00:00"), "jobs.yml:2: endTime is before startTime"),
        (job("a", 5, "yesterday"), "jobs.yml:2: startTime "),
        (job("a", 5, end="2020-13-01 00:00:00"), "jobs.yml:2: endTime "),
        (job("a", 5, submissionTime="soon"), "jobs.yml:2: submissionTime "),
        (job("a", -5), "jobs.yml:2: writtenBytes "),
        (job("a", "5 GB"), "jobs.yml:2: writtenBytes "),
        (job("a", "~"), "jobs.yml:2: writtenBytes is missing"),
        (job("a", 0), "jobs.yml: has no requests (left out: 1 job without bytes)"),
        ("- 3\n", "jobs.yml:2: must be a job"),
        ("- {a: [\n", "jobs.yml:"),
    ],
)
def test_a_trace_that_is_wrong(forebay: Forebay, folder: Path, jobs: str, said: str) -> None:
    (folder / "jobs.yml").write_text("jobs:\n" + jobs)
    for command in (
        ("simulate", folder / "s.toml"),
        ("size", "--requests", folder / "jobs.yml"),
        ("study", "burst-buffer", "--requests", folder / "jobs.yml"),
    ):
        assert said in refused(forebay, *command)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "wurst-fit"], "--policy: no storage policy 'wurst-fit'; did you mean 'worst-fit'?"),
        (["--policy", ","], "--policy: names no policy"),
        (["--platform", "9TB/nNnD"], "--platform: unknown platform '9TB/nNnD'; give a file"),
        (["--platform", "nowhere.toml"], "nowhere.toml: no such file or directory"),
        (["--requests", "nowhere.yml"], "nowhere.yml: no such file or directory"),
        (["--requests", "trace.txt"], "trace.txt: file names must end in .yml"),
        (["--requests", "theta-2020:many"], "--requests: 'theta-2020:many': the number must be a whole number"),
        (["--requests", ""], "--requests: is empty; name a file"),
        (["--split", "200"], "--split: needs a unit, like '200 GB', not '200'"),
        (["--split", "0.5 GB", "--as", "storalloc"], "--split: must be positive and whole GB"),
        (["--split", "yes"], "--split: 'yes' is not a number with a unit"),
        (["--as", "exact"], "--as: must be 'correct' or 'storalloc', not 'exact'"),
        (["--as", "storalloc", "--feedback"], "--feedback: needs as = 'correct'"),
        (["--as", "storalloc", "--policy", "optimal"], "policy 'optimal': requires --as correct"),
        (["--swf-volume", "much"], "--swf-volume: must be 'memory', or a size per processor"),
        (["--allocate", "tcpu"], "--allocate: is for scenarios with applications; this one has a [storage] table"),
        (["--place", "random"], "--place: is for scenarios with applications"),
        (["--horizon", "5 min"], "--horizon: is for scenarios with applications"),
        (["--until-first-finish"], "--until-first-finish: is for scenarios with applications"),
        (["--decisions", "nowhere/d.csv"], "--decisions: the folder "),
        (["--decisions", "."], "--decisions: . is a folder"),
        (["--plot", "nowhere/d.png"], "--plot: the folder "),
        (["--plot", "."], "--plot: . is a folder"),
        (["--decisions", "d.csv", "--policy", "all"], "--decisions: requires exactly one policy"),
        (["--plot", "d.png", "--policy", "fill,random"], "--plot: requires exactly one policy"),
        (["--decisions", "d.csv", "--policy", "optimal"], "--decisions: requires exactly one policy"),
        (["--plot", "d.png", "--policy", "optimal"], "--plot: requires exactly one policy"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--loads", "3"], "No such option: --loads"),
    ],
)
def test_options_of_simulate_that_are_wrong(forebay: Forebay, folder: Path, options: list[str], said: str) -> None:
    assert said in refused(forebay, "simulate", folder / "s.toml", *options)


@pytest.mark.parametrize(
    "options",
    [
        ["--policy", "fill"],
        ["--platform", "8TB/nNnD"],
        ["--requests", "theta-2020"],
        ["--split", "no"],
        ["--split", "200 GB"],
        ["--requeue"],
        ["--no-requeue"],
        ["--as", "correct"],
        ["--feedback"],
        ["--no-feedback"],
        ["--swf-volume", "2 GB"],
        ["--decisions", "d.csv"],
    ],
)
def test_options_of_storage_are_refused_for_applications(forebay: Forebay, options: list[str]) -> None:
    option = options[0].replace("--no-", "--")
    assert refused(forebay, "simulate", MACHINE, *options) == f"{option}: is for scenarios with a [storage] table"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[storage]", "s.toml: storage.platform: is missing"),
        ("storage = 3", "s.toml: storage: "),
        (SCENARIO + "nodes = 3", "s.toml: storage.nodes: is not a key of this table"),
        (SCENARIO + "[system]\ntargets = 3", "s.toml: system: is not a key of this table"),
        ("[storage", "s.toml:1: is not TOML"),
        ("", "s.toml: system: is missing"),
    ],
)
def test_a_scenario_that_is_wrong(forebay: Forebay, folder: Path, text: str, said: str) -> None:
    (folder / "s.toml").write_text(text)
    assert said in refused(forebay, "simulate", folder / "s.toml")


def test_a_storage_scenario_is_nothing_for_allocate(forebay: Forebay, folder: Path) -> None:
    assert "s.toml: system: is missing" in refused(forebay, "allocate", folder / "s.toml")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "lots"], "--target: must be a share like 99% or 0.99, not 'lots'"),
        (["--target", "99"], "--target: must be a share like 99% or 0.99, not '99'"),
        (["--target", "0%"], "--target: must be a share"),
        (["--target", "101%"], "--target: must be a share"),
        (["--target", "nan"], "--target: must be a share"),
        (["--step", "1"], "--step: needs a unit, like '200 GB', not '1'"),
        (["--step", "0 TB"], "--step: must be between 1 byte and 1e+18, not '0 TB'"),
        (["--split", "200"], "--split: needs a unit"),
        (["--split", "0.5 GB", "--as", "storalloc"], "split: must be positive and whole GB"),
        (["--as", "exact"], "--as: must be correct or storalloc, not 'exact'"),
        (["--policy", "frist-fit"], "no storage policy 'frist-fit'; did you mean 'first-fit'?"),
        (["--policy", "optimal"], "no storage policy 'optimal'"),
        (["--platform", "9TB"], "--platform: unknown platform '9TB'; give a file"),
        (["--requests", "theta-2020:0"], "--requests: 'theta-2020:0': the number must be a whole number"),
        (["--requests", "nowhere.swf"], "nowhere.swf: no such file or directory"),
        (["--plot", "nowhere/x.png"], "--plot: the folder "),
    ],
)
def test_options_of_size_that_are_wrong(forebay: Forebay, options: list[str], said: str) -> None:
    assert said in refused(forebay, "size", *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--as", "exact"], "--as: must be correct, storalloc or both, not 'exact'"),
        (["--policy", "frist-fit"], "no storage policy 'frist-fit'; did you mean 'first-fit'?"),
        (
            ["--policy", "forebay,optimal", "--as", "storalloc"],
            "policies: StorAlloc has none of these; 'storalloc' needs",
        ),
        (["--grid", "nowhere.toml"], "nowhere.toml: no such file or directory"),
        (["--requests", "theta-2020:x"], "--requests: 'theta-2020:x': the number must be a whole number"),
        (["--requests", "nowhere.yml"], "nowhere.yml: no such file or directory"),
        (["--workers", "-1"], "--workers: must be a number of processes, dask://HOST:PORT or slurm:N, not '-1'"),
    ],
)
def test_options_of_the_study_that_are_wrong(forebay: Forebay, options: list[str], said: str) -> None:
    few = () if "--requests" in options else FEW
    assert said in refused(forebay, "study", "burst-buffer", *few, *options)


def test_a_study_goes_nowhere_but_into_a_folder(forebay: Forebay) -> None:
    Path("file").write_text("")
    Path("grid.toml").write_text(GRID)
    assert "file" in refused(forebay, "study", "burst-buffer", *FEW, "--grid", "grid.toml", "--out", "file")
