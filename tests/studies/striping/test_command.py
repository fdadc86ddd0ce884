"""`forebay study striping` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.studies.striping import experiment as striping
from support.command import Forebay


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.chdir(tmp_path)
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two panels and one case instead of all."""
    panels, cases = striping.paper_panels(), striping.noise_cases()
    keys = ("figure-09/processes-4", "figure-14/vpic-io/processes-4/fio-1")
    monkeypatch.setattr(striping, "paper_panels", lambda: {key: panels[key] for key in keys})
    monkeypatch.setattr(striping, "noise_cases", lambda: {"vpic-io-4": cases["vpic-io-4"]})


@pytest.mark.usefixtures("short")
def test_the_study_is_run_and_told(forebay: Forebay, tmp_path: Path) -> None:
    out = tmp_path / "new"
    options = ("--policy", "default,dca-io", "--repetitions", 2, "--noise-seeds", 2, "--workers", 1, "--out", out)
    ran = forebay("study", "striping", *options)
    assert (ran.code, ran.err) == (0, "")
    assert "263 %" in ran.out and "Effect of noise on each policy" in ran.out
    assert f"Report: {out / 'report.html'}" in ran.out
    assert {p.name for p in out.glob("*.png")} == {
        "figure-09-vpic-io.png",
        "figure-14-beside-fio.png",
        "figure-noise.png",
    }
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "forebay study striping --policy default,dca-io --repetitions 2 --noise-seeds 2 --seed 0" in page


@pytest.mark.usefixtures("short")
def test_json_is_one_document_and_the_same_again(forebay: Forebay, tmp_path: Path) -> None:
    options = ("--policy", "default,dca-io", "--no-noise", "--repetitions", 1, "--workers", 1, "--json")
    first = forebay("study", "striping", *options, "--out", tmp_path / "a").json
    assert first["study"] == "striping" and first["noise"] == []
    assert {row["policy"] for row in first["means"]} == {"default", "dca-io", "dca-io:interference=false"}
    assert forebay("study", "striping", *options, "--out", tmp_path / "b").json == first
    assert forebay("study", "striping", *options, "--seed", 1, "--out", tmp_path / "c").json["means"] != first["means"]


@pytest.mark.usefixtures("short")
def test_all_of_the_papers_policies_are_run_unless_told(forebay: Forebay, tmp_path: Path) -> None:
    ran = forebay("study", "striping", "--no-noise", "--repetitions", 1, "--workers", 1, "--json", "--out", tmp_path)
    named = [row["policy"] for row in ran.json["means"] if row["figure"] == 9 and row["run"] == 1]
    assert named[:3] == ["default", "tapp-io", "dca-io"] and set(named[3:]) <= {"forebay"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "dca-oi"), "no striping policy 'dca-oi'; did you mean 'dca-io'?"),
        (("--policy", " , "), "--policy: names no policy"),
        (("--policy", "dca-io:interference=maybe"), "interference must be of type bool, not 'maybe'"),
        (("--policy", "dca-io:speed=2"), "no option of policy 'dca-io' 'speed'"),
        (("--repetitions", "0"), "'--repetitions'"),
        (("--noise-seeds", "none"), "'--noise-seeds'"),
        (("--seed", "-1"), "'--seed'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    forebay: Forebay, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    ran = forebay("study", "striping", *options, "--out", tmp_path / "new")
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and ran.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("short")
def test_a_folder_with_another_study_is_not_mixed_up(forebay: Forebay, tmp_path: Path) -> None:
    options = ("--policy", "default", "--no-noise", "--repetitions", 1, "--workers", 1, "--out", tmp_path)
    assert forebay("study", "striping", *options).code == 0
    ran = forebay("study", "striping", *options, "--seed", 5)
    assert ran.code == 2 and "holds a study with different settings (seed" in ran.err


@pytest.mark.usefixtures("short")
def test_noise_can_be_added_later_to_what_is_there(forebay: Forebay, tmp_path: Path) -> None:
    options = (
        "--policy",
        "default",
        "--noise-seeds",
        1,
        "--repetitions",
        1,
        "--workers",
        1,
        "--out",
        tmp_path,
        "--json",
    )
    first = forebay("study", "striping", *options, "--no-noise").json
    second = forebay("study", "striping", *options).json
    assert first["noise"] == [] and len(second["noise"]) == 6
    assert first["means"] == second["means"]


def test_a_folder_that_cannot_be_made_is_named(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = forebay("study", "striping", "--policy", "default", "--out", tmp_path / "file" / "new")
    assert ran.code == 2 and "file" in ran.err and ran.err.count("\n") == 1
