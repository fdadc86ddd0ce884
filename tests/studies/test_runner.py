"""Whatever a study runs, the runner gives it workers, resume, progress, tables, figures, a report and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest
import typer

from forebay.studies.runner import publish, run_study
from support.command import Forebay
from support.small_study import DICE, DiceStudy

DICES = DiceStudy(most=3, seed=1)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    """The command line with this study."""
    app, group = typer.Typer(), typer.Typer(callback=lambda: None)
    DICE.add_to(group)
    app.add_typer(group, name="study")
    monkeypatch.setattr("forebay.cli.command", lambda: typer.main.get_command(app))
    return Forebay(capfd, monkeypatch)


def test_a_small_study_writes_all_that_a_large_one_does(forebay: Forebay, tmp_path: Path) -> None:
    ran = forebay("study", "dice", "--seed", "1", "--workers", "2", "--out", tmp_path / "out", "--json")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        ".pieces",
        "figure-01-means.pdf",
        "figure-01-means.png",
        "report.html",
        "results.json",
        "throws.csv",
        "throws.parquet",
    }
    assert ran.json == json.loads((tmp_path / "out/results.json").read_text())
    assert list(ran.json) == ["study", "conclusions"]
    with (tmp_path / "out/throws.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150
    with duckdb.connect() as database:
        assert len(database.read_parquet(str(tmp_path / "out/throws.parquet")).fetchall()) == 150
    page = (tmp_path / "out/report.html").read_text()
    assert "forebay study dice --most 3 --seed 1" in page
    assert "Study: dice" in page and page.count("<figure") == 1 and page.count("<li>") == 1


def test_tables_and_findings_go_to_the_screen(forebay: Forebay, tmp_path: Path) -> None:
    ran = forebay("study", "dice", "--most", "2", "--workers", "1", "--out", tmp_path)
    assert ran.code == 0
    assert "Throws" in ran.out and "- 2 dice are 3." in ran.out
    assert f"Report: {tmp_path}/report.html   tables: throws.csv (also .parquet)" in ran.out


def test_its_options_are_its_own_and_those_of_every_study(forebay: Forebay) -> None:
    ran = forebay("study", "dice", "--help")
    assert "Throw dice." in ran.out and "forebay study dice --most 5" in ran.out
    for option in ("--most", "--seed", "--workers", "--out", "--json"):
        assert option in ran.out


def test_it_goes_on_where_it_stopped_with_any_number_of_workers(
    forebay: Forebay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DiceStudy.run_piece

    def tired(study: DiceStudy, key: str) -> object:
        if key == "dice-3":
            raise KeyboardInterrupt
        return real(study, key)

    monkeypatch.setattr(DiceStudy, "run_piece", tired)
    ran = forebay("study", "dice", "--workers", "1", "--out", tmp_path / "a")
    assert ran.code == 130
    assert "2 of 3 pieces are saved. To resume, run: forebay study dice" in ran.err
    monkeypatch.setattr(DiceStudy, "run_piece", real)
    counts: list[int] = []
    run_study(DiceStudy(most=3, seed=0), tmp_path / "a/.pieces", workers=1, progress=counts.append)
    assert counts == [2, 3]
    for out, workers in (("a", 1), ("b", 2)):
        assert forebay("study", "dice", "--workers", workers, "--out", tmp_path / out).code == 0
    for path in (tmp_path / "a").glob("*.*"):
        assert path.name == ".pieces" or path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_other_settings_need_another_folder(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("study", "dice", "--workers", "1", "--out", tmp_path / "a").code == 0
    ran = forebay("study", "dice", "--seed", "2", "--workers", "1", "--out", tmp_path / "a")
    assert ran.code == 2 and "different settings (seed)" in ran.err


def test_what_a_page_shows_is_escaped(tmp_path: Path) -> None:
    report = DICES.report(run_study(DICES, tmp_path / "pieces", workers=1, progress=lambda _: None))
    publish("dice", report, "forebay study dice --name '<b> & c'", tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text()
    assert "&lt;b&gt; &amp; c" in page and "<b>" not in page
