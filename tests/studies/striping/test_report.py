"""A striping study as files, words and figures."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from forebay.show.rows import select
from forebay.simulate.striping.machine import LOCAL
from forebay.studies.runner import publish
from forebay.studies.striping.figures import beside, figures_of
from forebay.studies.striping.findings import (
    assumed_table,
    conclusions,
    differences,
    gains_table,
    level_records,
    make_report,
    mean_records,
    model_table,
    noise_table,
)
from forebay.studies.striping.results import ASSUMED, NOISE, RUN, StripingResults

pytestmark = pytest.mark.filterwarnings("error")

COMMAND = "forebay study striping --policy 'a & b' --seed 7"
SETTINGS: dict[str, object] = {"runs": 4, "repetitions": 2, "noise runs": 20, "seed": 7}
POLICIES = ("default", "tapp-io", "dca-io", "forebay", "my<own>")
RATE = {"default": 1e9, "tapp-io": 1.2e9, "dca-io": 1.8e9, "forebay": 2.0e9, "dca-io:interference=false": 1.5e9}


def panel(
    figure: int, application: str, processes: int, fio: int = 0, machine: str = "local", times: float = 1
) -> list[tuple[Any, ...]]:
    names = POLICIES if not fio else ("default", "dca-io:interference=false", "dca-io", "forebay")
    return [
        (figure, machine, application, processes, 1, fio, name, repetition, number, 2, 1 << 20, 1, "rule", rate, rate)
        for name in names
        for repetition in range(2)
        for number in range(1, 5)
        for rate in (times * RATE.get(name, 1.1e9) * (1 if number > 1 else 0.5),)
    ]


def results_of(*panels: list[tuple[Any, ...]], noise: bool = True) -> StripingResults:
    levels = [
        ("local", "VPIC-IO", 4, level, history, name, seed, 0 if name == "default" else seed + 1, 0.5, 0.9, 0.8)
        for level in (0.05, 0.2)
        for history in ("others", "nobody")
        for name in POLICIES
        for seed in range(3)
    ]
    return StripingResults(
        settings=SETTINGS,
        runs=np.array([row for own in panels for row in own], dtype=RUN),
        noise=np.array(levels if noise else [], dtype=NOISE),
        assumed=np.array(
            [
                ("lock_seconds", factor, figure, "VPIC-IO", against, 10 * factor + figure)
                for factor in (0.5, 1.0, 2.0)
                for figure in (9, 12)
                for against in ("default", "tapp-io")
            ]
            if noise
            else [],
            dtype=ASSUMED,
        ),
    )


FULL = results_of(
    panel(9, "VPIC-IO", 1),
    panel(9, "VPIC-IO", 4),
    panel(12, "VPIC-IO independent", 32, machine="Cori"),
    panel(14, "VPIC-IO", 4, 1),
    panel(14, "GCRM-IO", 4, 1),
    panel(14, "VPIC-IO", 2, 1),
    panel(14, "GCRM-IO", 2, 1, times=2),
)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("study") / "new"
    return out, publish("striping", make_report(FULL), COMMAND, out)


def test_all_tables_are_there_with_all_rows(published: tuple[Path, dict[str, Any]]) -> None:
    out, document = published
    counts = {
        "runs": FULL.runs.size,
        "means": len(document["means"]),
        "gains": len(document["gains"]),
        "noise": FULL.noise.size,
        "noise-levels": len(document["noise"]),
        "assumed": FULL.assumed.size,
    }
    for name, count in counts.items():
        with (out / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == count > 0
        with duckdb.connect() as database:
            assert len(database.read_parquet(str(out / f"{name}.parquet")).fetchall()) == count


def test_the_document_is_what_is_in_the_file_and_knows_no_nan(published: tuple[Path, dict[str, Any]]) -> None:
    out, document = published
    text = (out / "results.json").read_text(encoding="utf-8")
    assert json.loads(text) == document
    assert "NaN" not in text and "Infinity" not in text
    names = ["study", "settings", "machines", "conclusions", "differences", "gains", "means", "noise", "assumed"]
    assert list(document) == names
    assert document["machines"][0]["target_bandwidth"] == LOCAL.target_bandwidth


def test_the_report_needs_nothing_else(published: tuple[Path, dict[str, Any]]) -> None:
    out, document = published
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!data:image/png;base64,)', page)
    assert page.count("<figure") == len(list(out.glob("*.png"))) == 4
    assert page.count("<li>") == len(document["conclusions"]) + len(document["differences"])
    assert "&#39;a &amp; b&#39;" in page
    assert "my&lt;own&gt;" in page and "my<own>" not in page
    assert "Samsung 850 Pro" in page


def test_the_same_results_give_the_same_bytes(published: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    first, _ = published
    publish("striping", make_report(FULL), COMMAND, tmp_path)
    assert sorted(p.name for p in first.iterdir()) == sorted(p.name for p in tmp_path.iterdir())
    for path in first.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_figures_have_the_papers_numbers_and_say_what_they_show() -> None:
    sketches = list(figures_of(FULL))
    assert [sketch.name for sketch in sketches] == [
        "figure-09-vpic-io",
        "figure-12-vpic-io-independent",
        "figure-14-beside-fio",
        "figure-noise",
    ]
    assert "first 4 runs: means of 2 repetitions" in sketches[0].caption
    assert "runs 3 to 4" in sketches[2].caption
    assert "1 case (application, machine, processes) and 3 seeds" in sketches[3].caption


def test_no_bar_leaves_its_panel() -> None:
    figure = beside(FULL, 14)
    for axes in figure.axes:
        bars = [patch.get_height() for patch in axes.patches if isinstance(patch, Rectangle)]
        assert len(bars) == 4 and axes.get_ylim()[0] == 0 and max(bars) < axes.get_ylim()[1]
    titles = ["VPIC-IO, 4 processes", "GCRM-IO, 4 processes", "VPIC-IO, 2 processes", "GCRM-IO, 2 processes"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == titles


def test_one_policy_alone_is_a_study_too(tmp_path: Path) -> None:
    rows = results_of(panel(7, "FIO sequential", 1), noise=False)
    alone = replace(rows, runs=select(rows.runs, policy="my<own>"))
    document = publish("striping", make_report(alone), COMMAND, tmp_path)
    assert document["gains"] == [] and not (tmp_path / "gains.csv").exists()
    assert document["noise"] == [] and not (tmp_path / "noise.csv").exists()
    assert document["conclusions"] == [] and document["differences"] == []
    assert [p.name for p in tmp_path.glob("*.png")] == ["figure-07-fio-sequential.png"]


def test_gains_are_of_settled_runs_beside_the_papers() -> None:
    table = gains_table(FULL)
    rows = {(row[0], row[1], row[2]): row[3:] for row in table.rows}
    assert rows["9", "VPIC-IO", "default"] == ("70 %", "80 %", "1 process", "100 %")
    assert rows["9", "VPIC-IO", "tapp-io"][:2] == ("45 %", "50 %")
    assert rows["14", "GCRM-IO", "itself without Procedure 3"][:2] == ("31 %", "20 %")
    assert rows["14", "VPIC-IO", "default"][2] == "FIO on 1 of 4"
    assert len(rows) == 6


def test_means_are_over_the_repetitions() -> None:
    rows = [r for r in mean_records(FULL) if (r["figure"], r["processes"], r["policy"]) == (9, 1, "dca-io")]
    assert [(r["run"], r["throughput"], r["deviation"], r["repetitions"]) for r in rows] == [
        (1, 0.9e9, 0.0, 2),
        (2, 1.8e9, 0.0, 2),
        (3, 1.8e9, 0.0, 2),
        (4, 1.8e9, 0.0, 2),
    ]
    assert (rows[0]["stripe_count"], rows[0]["stripe_size"]) == (2, 1 << 20)


def test_a_run_that_never_comes_near_counts_one_more_than_there_are() -> None:
    rows = {(r["noise"], r["history"], r["policy"]): r for r in level_records(FULL)}
    never, soon = rows[0.05, "others", "default"], rows[0.05, "others", "dca-io"]
    assert (never["first_near_best"], never["never_near_best"]) == (21.0, 1.0)
    assert (soon["first_near_best"], soon["never_near_best"], soon["sequences"]) == (2.0, 0.0, 3)
    assert len(noise_table(FULL).rows) == len(rows) == 20


def test_every_number_of_the_model_is_told_with_its_source() -> None:
    rows = {row[0]: row[1:] for row in model_table().rows}
    assert rows["bandwidth of a target, MB/s"][:2] == ("520", "3000")
    assert rows["largest RPC, MiB"][:2] == ("4", "4")
    assert rows["a lock from another node, ms"][0] == "2.8"
    assert all(row[-1] for row in model_table().rows)
    assert len(rows) == 17


def test_what_hangs_on_a_number_is_told_for_each_figure() -> None:
    table = assumed_table(FULL)
    assert table.heads == (
        "number: halved / unchanged / doubled",
        "Fig. 9, default",
        "Fig. 9, tapp-io",
        "Fig. 12, tapp-io",
    )
    assert table.rows == [("a lock from another node", "14 / 19 / 29", "14 / 19 / 29", "17 / 22 / 32")]


def test_the_words_say_what_the_numbers_say() -> None:
    said = conclusions(FULL)
    assert said[0] == (
        "Figure 9, dca-io: VPIC-IO up to 80 % faster than default (paper: 70 %; 1 process) and up to 50 % faster "
        "than tapp-io (paper: 45 %; 1 process)."
    )
    assert any("Procedure 3 makes dca-io up to 20 % faster" in s and "2 processes" in s for s in said)
    assert any("forebay has 11.1 % more throughput than dca-io on average over 7 panels" in s for s in said)
    assert sum("% noise, when" in s for s in said) == 4


def test_differences_are_explained_where_there_are_some() -> None:
    told = differences(FULL)
    assert [t.split(":")[0] for t in told] == ["Figure 12", "Figure 14"]  # within ten points in figure 9
