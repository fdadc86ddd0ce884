"""Every command as a user meets it: what it prints, what it writes, how it fails."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import markupsafe
import pytest
from typer.main import get_command

from forebay.cli import app
from forebay.cli.demo import start_daemon
from forebay.model.errors import Refused, UserError
from support.command import Forebay

EXAMPLE = Path(__file__).parents[2] / "src/forebay/show/examples/machine.toml"
STUDY = ["--sets", "2", "--loads", "0.4:0.8:0.4", "--applications", "20", "--targets", "8", "--workers", "1"]
KEYS = ["allocate", "place", "curves", "load_low", "load_high", "sets", "mean_io_slowdown", "max_io_slowdown", "rho_io"]
KEYS += ["rho_con", "io_spread", "machine_idle"]


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.mark.parametrize(
    "command", [(), ("allocate",), ("simulate",), ("policies",), ("demo",), ("study",), ("study", "io-nodes")]
)
def test_every_command_has_help(forebay: Forebay, command: tuple[str, ...]) -> None:
    ran = forebay(*command, "--help")
    assert ran.code == 0
    assert "Usage: forebay" in ran.out


def groups(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every command that has commands of its own."""
    if hasattr(command, "commands"):
        yield words
        for name, inner in command.commands.items():
            yield from groups(inner, *words, name)


@pytest.mark.parametrize("group", list(groups(get_command(app))), ids=lambda words: " ".join(words) or "forebay")
def test_every_summary_fits_into_a_line(
    forebay: Forebay, monkeypatch: pytest.MonkeyPatch, group: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = forebay(*group, "--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert listed
    for line in listed:
        _, summary = line.split(maxsplit=1)
        assert summary.endswith((".", "?")) and not summary.endswith(("...", "et al.")), line
        assert len(line) < 80 and line[2] != " ", line


def leaves(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every command that has no commands of its own."""
    if not hasattr(command, "commands"):
        yield words
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, *words, name)


@pytest.mark.parametrize("command", list(leaves(get_command(app))), ids=" ".join)
def test_help_shows_an_example_and_each_default_once(forebay: Forebay, command: tuple[str, ...]) -> None:
    text = " ".join(forebay(*command, "--help").out.split())
    assert "Example: forebay " + " ".join(command) in text or "Example: eval" in text
    assert not re.search(r"\[default: [^\]]*\]\.? \[default: ", text)


def test_an_ignored_end_of_children_does_not_make_every_command_a_success(forebay: Forebay) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert forebay("--version").code == 0
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_policies_go_from_easy_to_hard_with_their_inputs(forebay: Forebay) -> None:
    found = json.loads(forebay("policies", "--json").out)["policies"]
    allocators = [p["name"] for p in found if p["kind"] == "allocate"]
    assert allocators[:3] == ["random", "static", "best-bandwidth"]
    assert allocators[-1] == "optimal"
    by_name = {(p["kind"], p["name"]): p for p in found}
    assert by_name["allocate", "tcpu"]["inputs"] == ["compute nodes", "I/O volume", "compute time", "curve b(n)"]
    assert by_name["place", "greedy-non-clairvoyant"]["inputs"] == []
    assert all(p["summary"] and p["source"] for p in found)


def test_allocate_says_how_many_and_which(forebay: Forebay) -> None:
    ran = forebay("allocate", EXAMPLE, "--allocate", "tcpu", "--place", "greedy-non-clairvoyant", "--json")
    document = json.loads(ran.out)
    assert {a["name"]: (a["n"], a["targets"]) for a in document["applications"]} == {
        "climate": (8, [0, 1, 2, 3, 4, 5, 6, 7]),
        "fusion": (2, [0, 1]),
        "genomics": (1, [2]),
    }
    assert document["io_load"] == pytest.approx(0.48779, abs=1e-5)


def test_simulate_prints_the_documented_json_and_nothing_else(forebay: Forebay) -> None:
    ran = forebay("simulate", EXAMPLE, "--allocate", "tcpu", "--json")
    document = json.loads(ran.out)
    assert ran.err == ""
    assert set(document["applications"][0]) == {
        *("name", "n", "targets", "phases_done", "io_seconds", "slowdown", "rho_io", "rho_con")
    }
    assert {"mean_io_slowdown", "max_io_slowdown", "io_load", "io_spread", "machine_idle"} <= set(document)
    assert len(document["occupancy"]) == 8
    slowdowns = [a["slowdown"] for a in document["applications"]]
    assert document["mean_io_slowdown"] == pytest.approx(sum(slowdowns) / 3)
    assert document["max_io_slowdown"] == max(slowdowns)


def test_simulate_compares_policies(forebay: Forebay) -> None:
    runs = json.loads(forebay("simulate", EXAMPLE, "--allocate", "all", "--json").out)["runs"]
    assert [r["allocate"] for r in runs] == ["random", "static", "best-bandwidth", "nsys", "tcpu", "mckp", "forebay"]
    table = forebay("simulate", EXAMPLE, "--allocate", "nsys,forebay").out
    assert table.index("forebay") < table.index("nsys")  # the lowest slowdown first


def test_simulate_draws_a_picture(forebay: Forebay, tmp_path: Path) -> None:
    ran = forebay("simulate", EXAMPLE, "--plot", tmp_path / "run.png")
    assert ran.code == 0
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_fixed_targets_need_no_policy(forebay: Forebay, tmp_path: Path) -> None:
    file = tmp_path / "fixed.toml"
    text = EXAMPLE.read_text().replace("[[application]]", "[[application]]\ntargets = [3]")
    file.write_text(text)
    document = json.loads(forebay("simulate", file, "--json").out)
    assert document["allocate"] == "fixed"
    assert [a["targets"] for a in document["applications"]] == [[3]] * 3
    assert document["occupancy"][0] == 0


def test_until_first_finish_stops_there(forebay: Forebay) -> None:
    document = json.loads(forebay("simulate", EXAMPLE, "--allocate", "forebay", "--until-first-finish", "--json").out)
    assert document["horizon"] < 6 * 3600
    assert [a["phases_done"] for a in document["applications"]][2] == 40


def test_an_application_without_a_completed_phase_is_null_and_told(forebay: Forebay) -> None:
    ran = forebay("simulate", EXAMPLE, "--horizon", "5 min", "--json")
    slowdowns = {a["name"]: a["slowdown"] for a in json.loads(ran.out)["applications"]}
    assert slowdowns["climate"] is None
    assert slowdowns["genomics"] is not None
    assert "not in the means: climate; a longer" in forebay("simulate", EXAMPLE, "--horizon", "5 min").err


def test_a_study_writes_tables_figures_and_a_report(forebay: Forebay, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = forebay("study", "io-nodes", *STUDY, "--allocate", "tcpu,best-bandwidth,nsys,forebay", "--out", out, "--json")
    document = json.loads(ran.out)
    assert list(document["rows"][0]) == KEYS
    assert len(document["rows"]) == 4 * 3 * 2
    assert "synthetic" in document["curves"]
    made = {path.name for path in out.iterdir()}
    assert {"rows.csv", "rows.parquet", "sets.csv", "sets.parquet", "results.json", "report.html"} <= made
    assert {"figure-05-mean-io-slowdown.png", "figure-10-machine-idle-time.pdf"} <= made
    report = (out / "report.html").read_text()
    assert "data:image/png;base64," in report
    assert 'src="http' not in report
    assert 'href="http' not in report
    sentences = [
        str(markupsafe.escape(sentence)).replace(" %", "\N{NO-BREAK SPACE}%") for sentence in document["conclusions"]
    ]
    assert all(sentence in report for sentence in sentences)


def test_the_same_seed_gives_the_same_bytes(forebay: Forebay, tmp_path: Path) -> None:
    made = []
    for name, workers in (("one", "1"), ("two", "2")):
        out = tmp_path / name
        arguments = [*STUDY[:-1], workers, "--allocate", "tcpu,random", "--out", out]
        assert forebay("study", "robustness", *arguments).code == 0
        made.append({p.name: p.read_bytes() for p in out.iterdir() if p.is_file()})
    assert made[0].keys() == made[1].keys()
    assert [name for name in made[0] if made[0][name] != made[1][name]] == []


def test_an_interrupted_study_says_how_to_go_on_and_goes_on_with_its_own_settings_only(
    forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forebay.studies.io_resources.experiment import IoResourcesStudy

    sets = iter(range(3))
    real = IoResourcesStudy.run_piece

    def tired(study: IoResourcesStudy, key: str) -> object:
        if next(sets) == 2:
            raise KeyboardInterrupt
        return real(study, key)

    monkeypatch.setattr(IoResourcesStudy, "run_piece", tired)
    arguments = ["study", "osts", *STUDY, "--allocate", "nsys", "--out", tmp_path / "out"]
    ran = forebay(*arguments)
    assert ran.code == 130
    assert "2 of 4 pieces are saved. To resume, run: forebay study osts" in ran.err
    monkeypatch.setattr(IoResourcesStudy, "run_piece", real)
    assert forebay(*arguments).code == 0
    before = (tmp_path / "out/rows.csv").read_bytes()
    ran = forebay(*arguments, "--seed", "5")
    assert ran.code == 2
    assert "holds a study with different settings (curves, seed)" in ran.err
    assert (tmp_path / "out/rows.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["simulate", EXAMPLE, "--allocate", "tpcu"], "no allocation policy 'tpcu'; did you mean 'tcpu'?"),
        (["simulate", EXAMPLE, "--place", "greedy"], "no placement policy 'greedy'; did you mean 'greedy-"),
        (["allocate", EXAMPLE, "--allocate", "forebay:wait=1"], "no option of policy 'forebay' 'wait'"),
        (["allocate", EXAMPLE, "--allocate", "forebay:weight=x"], "weight must be of type float, not 'x'"),
        (["allocate", EXAMPLE, "--allocate", "forebay:weight=7"], "weight must be between 0 and 1, not 7"),
        (["allocate", "nowhere.toml"], "nowhere.toml: no such file or directory"),
        (["simulate", EXAMPLE, "--horizon", "soon"], "--horizon: 'soon' is not a number"),
        (["simulate", EXAMPLE, "--allocate", ","], "--allocate: names no policy"),
        (["study", "io-nodes", "--loads", "1:0:2"], "--loads: must be LOW:HIGH:STEP"),
        (["study", "io-nodes", "--loads", "0.1:0.2:0.0000001"], "--loads: '0.1:0.2:0.0000001' makes"),
        (["study", "io-nodes", "--loads", "9"], "load: needs 3 targets per application"),
        (["study", "io-nodes", "--curves", "nowhere.csv"], "nowhere.csv: no such file"),
        (["study", "io-nodes", "--targets", "4"], "has n = 8, above --targets 4; raise --targets"),
        (["study", "io-nodes", "--allocate", "optimal", "--sets", "1"], "optimal: 1.53e+54 allocations to try"),
        (["study", "striping-of-tigers"], "No such command"),
        (["simulate"], "Missing argument"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = forebay(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--allocate", "tpcu"],
        ["--loads", "9"],
        ["--allocate", "optimal:most=10"],
        ["--allocate", "forebay:weight=5", "--workers", "2"],
        ["--horizon", "inf"],
        ["--loads", "0.2:1.2:inf"],
        ["--compute-nodes", "inf"],
    ],
)
def test_a_mistake_in_a_study_writes_nothing(
    forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = forebay("study", "io-nodes", *arguments)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_output_that_cannot_be_written_is_the_users_to_mend(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (
        ["simulate", EXAMPLE, "--plot", tmp_path / "nowhere" / "x.png"],
        ["simulate", EXAMPLE, "--plot", tmp_path],
        ["simulate", EXAMPLE, "--plot", tmp_path / "x.xyz"],
        ["size", "--plot", tmp_path / "x.svg"],
        ["forward", "bench", "--plot", tmp_path / "x"],
        ["demo", "--out", tmp_path / "file"],
        ["study", "io-nodes", "--out", tmp_path / "file"],
    ):
        ran = forebay(*arguments)
        assert ran.code == 2
        assert len(ran.err.splitlines()) == 1


def test_output_replaces_what_an_earlier_run_wrote_and_nothing_else(forebay: Forebay, tmp_path: Path) -> None:
    storage = EXAMPLE.parent / "burst-buffer.toml"
    run = ["simulate", storage, "--policy", "fill", "--requests", "theta-2020:50", "--decisions"]
    for name, arguments in (("x.png", ["simulate", EXAMPLE, "--plot"]), ("x.csv", run)):
        file = tmp_path / name
        for before in ("", None):
            if before is not None:
                file.write_text(before)
            assert forebay(*arguments, file).code == 0
        made = file.read_bytes()
        assert forebay(*arguments, file).code == 0
        assert file.read_bytes() == made or name == "x.png"
        file.write_text("127.0.0.1 localhost\n")
        ran = forebay(*arguments, file)
        assert (ran.code, ran.out) == (2, "")
        assert f"{file} holds something else and is not overwritten" in ran.err
        assert file.read_text() == "127.0.0.1 localhost\n"


def test_output_into_a_link_or_a_device_leaves_the_link_and_the_device(forebay: Forebay, tmp_path: Path) -> None:
    link, file, null = tmp_path / "link.csv", tmp_path / "x.csv", tmp_path / "null"
    link.symlink_to(file)
    null.symlink_to("/dev/null")
    storage = EXAMPLE.parent / "burst-buffer.toml"
    for path in (link, null):
        run = ["simulate", storage, "--policy", "fill", "--requests", "theta-2020:50", "--decisions", path]
        assert forebay(*run).code == 0
        assert path.is_symlink()
    assert file.read_text().startswith("request,part,")
    assert Path("/dev/null").is_char_device()


def test_policies_without_a_known_slowdown_come_last(forebay: Forebay, tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(
        "[system]\ntargets = 2\ncompute_nodes = 4\n[measure]\nhorizon = 100\n[[application]]\nname = 'a'\n"
        "compute_nodes = 1\nphases = 1\ncompute_seconds = 10\nvolume = 100\ncurve = { 1 = 1, 2 = 50 }\n"
    )
    table = forebay("simulate", file, "--allocate", "static,best-bandwidth").out
    assert table.index("best-bandwidth") < table.index("static")


def test_more_compute_nodes_than_the_machine_has_are_warned_of(forebay: Forebay, tmp_path: Path) -> None:
    file = tmp_path / "crowded.toml"
    file.write_text(EXAMPLE.read_text().replace("compute_nodes = 128", "compute_nodes = 100"))
    ran = forebay("simulate", file, "--json")
    assert ran.code == 0
    assert "use 128 of 100 compute nodes" in ran.err
    assert json.loads(ran.out)["applications"]


def test_a_study_in_which_nothing_happens_still_ends_well(forebay: Forebay, tmp_path: Path) -> None:
    policies = "tcpu,nsys,best-bandwidth,forebay"
    ran = forebay(
        "study", "io-nodes", *STUDY, "--horizon", "1", "--allocate", policies, "--out", tmp_path / "o", "--json"
    )
    assert ran.code == 0
    assert ran.err == ""
    assert json.loads(ran.out)["rows"][0]["mean_io_slowdown"] is None


def test_the_demo_runs_and_speaks_json(forebay: Forebay, tmp_path: Path) -> None:
    ran = forebay("demo", "--out", tmp_path / "demo", "--json")
    assert ran.code == 0
    allocated, simulated, studied, stored, sized, read, known, advised, driven, granted = json.loads(ran.out).values()
    assert [a["name"] for a in allocated["applications"]] == ["climate", "fusion", "genomics"]
    assert len(simulated["runs"]) == 7
    assert studied["study"] == "io-nodes"
    assert [run["policy"] for run in stored["runs"]][-1] == "forebay"
    assert all(run["jobs"]["mean_slowdown"] >= 1 for run in stored["runs"])
    assert sized["sizes"][0]["share"] >= 0.99
    assert read["logs"]["read"] > 10
    assert "ior" in {app["app"] for app in known["apps"]}
    assert advised["command"].startswith("lfs setstripe -c ")
    assert {way["scheduler"] for way in driven["ways"]} == {"fifo", "hbrr", "twins-work-conserving"}
    assert (granted["state"], granted["size"]) == ("ready", 50_000_000)
    assert (tmp_path / "demo/apps.png").exists()
    assert (tmp_path / "demo/machine.png").exists()
    assert (tmp_path / "demo/size.png").exists()
    assert (tmp_path / "demo/io-nodes/report.html").exists()


def test_a_step_of_the_demo_that_fails_says_so_and_ends_it(
    forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise Refused("grant 3f is being released: permission denied")

    monkeypatch.setattr("forebay.cli.demo.run_line", refuse)
    steps = [{"question": "May I?", "line": "forebay storage request"}]
    monkeypatch.setattr("forebay.cli.demo.read_steps", lambda _: steps)
    ran = forebay("demo", "--out", tmp_path / "demo")
    assert ran.code == 2
    assert "2. " not in ran.out
    reason = "forebay storage request: grant 3f is being released: permission denied"
    assert ran.err == f"forebay: step 1 of the demo failed: {reason}\n"


def test_a_part_of_the_demo_that_does_not_start_is_told_with_the_command(tmp_path: Path) -> None:
    words = f"forebay agent ended; run it by hand to see why: forebay agent {tmp_path}/none.toml"
    with ExitStack() as running, pytest.raises(UserError, match=words):
        start_daemon(running, "agent", f"{tmp_path}/none.toml")


def test_ctrl_c_is_one_line_and_exit_code_130(forebay: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("forebay.simulate.applications.scenario.read_scenario", interrupted)
    ran = forebay("simulate", EXAMPLE)
    assert (ran.code, ran.err) == (130, "forebay: interrupted\n")


def test_an_error_of_ours_is_exit_code_1_and_says_how_to_see_more(
    forebay: Forebay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay.simulate.applications.scenario.read_scenario", lambda _: 1 / 0)
    ran = forebay("allocate", EXAMPLE)
    assert ran.code == 1
    assert "FOREBAY_TRACEBACK=1" in ran.err
