"""`forebay study request-windows` as a user types it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.model.situation import PATTERNS
from forebay.simulate.requests.workload import Experiment, Workload
from forebay.studies.request_windows import experiment as request_windows
from forebay.studies.request_windows.experiment import RequestWindowsStudy
from forebay.studies.request_windows.results import INSTANCES
from support.command import Forebay

FEW = ("--tuner", "epsilon-greedy:epsilon=0.1,forebay", "--scheduler", "hbrr", "--workers", 1)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.chdir(tmp_path)
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two situations and two windows instead of all."""

    def study(*, repetitions: int, seed: int, total: int, mapping: str) -> RequestWindowsStudy:
        assert (total, mapping) == (4 << 30, "block")
        two = [INSTANCES["B"], INSTANCES["B"]._replace(nodes=1)]
        unseen = [
            Workload(processes=8, pattern=p, operation="read", request=100_000, total=8_000_000) for p in PATTERNS
        ]
        return RequestWindowsStudy(
            experiments=[e._replace(workload=replace(e.workload, total=16 << 20)) for e in two],
            unseen=[Experiment(nodes=2, workload=work) for work in unseen],
            windows=(125_000, 8_000_000),
            repetitions=repetitions,
            period=0.02,
            steps=20,
            together=20,
            horizon=30,
            replays=2,
            demand_replays=1,
            demand_period=0.02,
            seed=seed,
        )

    monkeypatch.setattr(request_windows, "paper_study", study)


@pytest.mark.usefixtures("short")
def test_the_study_is_run_and_told_and_the_same_again_from_what_is_kept(forebay: Forebay, tmp_path: Path) -> None:
    out = tmp_path / "new"
    ran = forebay("study", "request-windows", *FEW, "--repetitions", 1, "--out", out)
    assert (ran.code, ran.err) == (0, "")
    assert "Gains and losses of windows against fifo" in ran.out and "forebay's regret is" in ran.out
    assert "no validation of the paper" in ran.out
    assert f"Report: {out / 'report.html'}" in ran.out
    assert len(list(out.glob("*.png"))) == len(list(out.glob("*.pdf"))) == 9
    page = (out / "report.html").read_text(encoding="utf-8")
    assert (
        "forebay study request-windows --repetitions 1 --tuner epsilon-greedy:epsilon=0.1,forebay --scheduler hbrr "
        "--mapping block --total &#39;4 GiB&#39; --seed 0" in page
    )
    lost = next((out / ".pieces" / "windows").glob("*.npy"))
    lost.unlink()
    (out / "report.html").unlink()
    before = json.loads((out / "results.json").read_text(encoding="utf-8"))
    options = (*FEW, "--repetitions", 1, "--json", "--out", out)
    first = forebay("study", "request-windows", *options).json
    assert first == before and lost.exists() and (out / "report.html").exists()
    assert first["study"] == "request-windows" and len(first["situations"]) == 2
    assert {row["tuner"] for row in first["tuners"]} == {"epsilon-greedy:epsilon=0.1", "forebay"}
    assert {row["scheduler"] for row in first["schedulers"]} == {"fifo", "hbrr", "twins"}
    ran = forebay("study", "request-windows", *options, "--seed", 5)
    assert ran.code == 2 and "holds a study with different settings (seed" in ran.err and ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tuner", "epsilon-gredy"), "no tuner 'epsilon-gredy'; did you mean 'epsilon-greedy'?"),
        (("--tuner", " , "), "--tuner: must name at least one policy"),
        (("--tuner", "epsilon-greedy:epsilon=much"), "epsilon must be of type float, not 'much'"),
        (("--scheduler", "hbbr"), "no request scheduler 'hbbr'; did you mean 'hbrr'?"),
        (("--scheduler", ","), "--scheduler: must name at least one policy"),
        (("--total", "lots"), "--total: "),
        (("--total", "-1 GiB"), "--total: must be more than 0"),
        (("--total", "1e999"), "--total: must be more than 0 and less than 1 PiB"),
        (("--total", "1 MiB"), "--total: must be at least one request for each process"),
        (("--repetitions", "0"), "'--repetitions'"),
        (("--seed", "-1"), "'--seed'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    forebay: Forebay, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    ran = forebay("study", "request-windows", *options, "--out", tmp_path / "new")
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and ran.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_named(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = forebay("study", "request-windows", "--out", tmp_path / "file" / "new")
    assert ran.code == 2 and "file" in ran.err and ran.err.count("\n") == 1


def test_the_help_says_that_the_model_is_fitted(forebay: Forebay) -> None:
    told = " ".join(forebay("study", "request-windows", "--help").out.split())
    assert "fitted to the paper's figures, so the results do not validate the paper" in told
