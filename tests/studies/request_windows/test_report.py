"""A study of request windows as files, words and figures."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from forebay.show.rows import select
from forebay.studies.request_windows.detection import confusion
from forebay.studies.request_windows.findings import make_report
from forebay.studies.request_windows.results import SEEN, UNSEEN, Way, last_values, over_steps, step_reached
from forebay.studies.request_windows.tables import (
    accuracy,
    detected_records,
    gains_table,
    instance_table,
    learned_records,
    model_table,
    precision_table,
    scheduler_table,
    situation_records,
    tuner_records,
    tuner_table,
    window_records,
)
from forebay.studies.runner import publish
from support.request_windows import BINS, LOSES, OVER, PAPERS, TENTH, TUNERS, WINDOWS, made_up, others

pytestmark = pytest.mark.filterwarnings("error")

COMMAND = "forebay study request-windows --tuner 'a & b' --seed 7"
FULL = made_up()
FIGURES = [
    "figure-windows",
    "figure-windows-spread",
    "figure-03-confusion",
    "figure-04-precision",
    "figure-precision-horizon",
    "figure-05-concurrent",
    "figure-tuners",
    "figure-demand",
    "figure-schedulers",
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("study") / "new"
    return out, publish("request-windows", make_report(FULL), COMMAND, out)


def test_all_tables_are_there_with_all_rows(published: tuple[Path, dict[str, Any]]) -> None:
    out, document = published
    counts = {
        "situations": 9,
        "windows": 9 * (1 + len(WINDOWS)),
        "schedulers": 9 * 4,
        "learned": FULL.learned.size,
        "tuners": len(TUNERS) + 1,
        "instances": 3 * (len(TUNERS) + 1),
        "detected": FULL.detected.size,
        "precision": len(document["precision"]),
        "demanded": FULL.demanded.size,
    }
    for name, count in counts.items():
        with (out / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == count > 0, name
        with duckdb.connect() as database:
            assert len(database.read_parquet(str(out / f"{name}.parquet")).fetchall()) == count, name


def test_the_document_is_what_is_in_the_file_and_knows_no_nan(published: tuple[Path, dict[str, Any]]) -> None:
    out, document = published
    text = (out / "results.json").read_text(encoding="utf-8")
    assert json.loads(text) == document
    assert "NaN" not in text and "Infinity" not in text
    assert document["study"] == "request-windows" and "no validation" in document["note"]


def test_the_report_needs_nothing_else_and_says_that_the_model_is_fitted(
    published: tuple[Path, dict[str, Any]],
) -> None:
    out, document = published
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!data:image/png;base64,)', page)
    assert page.count("<figure") == len(list(out.glob("*.png"))) == len(FIGURES)
    assert page.count("<li>") == len(document["conclusions"]) + len(document["differences"])
    assert "&#39;a &amp; b&#39;" in page
    assert "my&lt;own&gt;" in page and "my<own>" not in page
    assert "fitted to the paper" in page and "no validation of the paper" in page
    assert "4 GiB in each run, 2 repetitions" in page


def test_the_same_results_give_the_same_bytes(published: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    first, _ = published
    publish("request-windows", make_report(FULL), COMMAND, tmp_path)
    assert sorted(p.name for p in first.iterdir()) == sorted(p.name for p in tmp_path.iterdir())
    for path in first.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_figures_say_what_they_show(published: tuple[Path, dict[str, Any]]) -> None:
    out, _ = published
    page = (out / "report.html").read_text(encoding="utf-8")
    captions = re.findall(r'<figure id="([\w-]+)">.*?<figcaption>(.*?)</figcaption>', page, re.DOTALL)
    drawn = dict(captions)
    assert list(drawn) == FIGURES
    for name in drawn:
        assert (out / f"{name}.png").read_bytes()[:4] == b"\x89PNG" and (out / f"{name}.pdf").read_bytes()[
            :4
        ] == b"%PDF"
    assert "9 situations" in drawn["figure-windows"] and "no validation" in drawn["figure-windows"]
    assert "Means of 2 repetitions" in drawn["figure-windows"]
    assert "(B) 128 processes, shared, contiguous writes of 32 KiB, 2 I/O nodes" in drawn["figure-04-precision"]
    assert "11,595 of 11,616" in drawn["figure-03-confusion"]


def test_what_was_not_run_has_no_figure_and_no_table(tmp_path: Path) -> None:
    few = made_up(others()[:2], tuners=("my<own>",), schedulers=())
    document = publish("request-windows", make_report(few), COMMAND, tmp_path)
    names = sorted(p.stem for p in tmp_path.glob("*.png"))
    absent = {"figure-04-precision", "figure-precision-horizon", "figure-05-concurrent", "figure-demand"}
    assert names == sorted(set(FIGURES) - absent)
    assert document["instances"] == [] and not (tmp_path / "demanded.csv").exists()
    assert not any("epsilon" in sentence or "demand" in sentence for sentence in document["conclusions"])


def test_gains_are_over_fifo_and_means_of_repetitions() -> None:
    rows = [r for r in window_records(FULL) if r["experiment"] == 0]
    assert [r["window"] for r in rows] == [0, *WINDOWS]
    assert [r["bandwidth"] for r in rows] == pytest.approx([8e8, 8e8, 8.8e8, 10e8])
    assert [r["gain"] for r in rows] == pytest.approx([0, 0, 0.1, 0.25])
    assert rows[0]["deviation"] == pytest.approx(0.05 * 8e8)
    assert (rows[0]["pattern"], rows[0]["nodes"], rows[0]["processes"]) == ("shared-strided", 8, 128)


def test_each_situation_has_its_best_and_its_worst_window() -> None:
    for row in situation_records(FULL):
        over = OVER[row["pattern"]]
        assert row["best_window"] == WINDOWS[over.index(max(over))]
        assert row["best_gain"] == pytest.approx(max(over) - 1)
        assert row["worst_gain"] == pytest.approx(min(over) - 1)


def test_situations_that_win_and_lose_are_counted_by_kind() -> None:
    rows = {row[0]: row[1:] for row in gains_table(FULL).rows}
    assert rows["shared, contiguous, reads"] == ("2", "2", "0", "+20.0 %", "+20.0 %", "-30.0 %", "1 (2)")
    assert rows["file per process, reads"][:4] == ("1", "0", "0", "+1.0 %")  # 1 % is no difference
    assert rows["1 I/O node"][:3] == ("6", "4", "0")
    assert sum(int(str(cells[0])) for head, cells in rows.items() if "node" not in str(head)) == 9


def test_tables_1_and_2_stand_beside_the_papers() -> None:
    table = precision_table(FULL)
    assert table.heads == ("", "paper", "network, seen", "tree, seen", "network, unseen", "tree, unseen")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["write"][0] == "53.8 / 97.9 / 100 / 100"
    assert rows["shared, strided"] == (
        "53.8 / 98.9 / 100 / 100",
        "100 / 100 / 100 / 100",
        "100 / 100 / 100 / 100",
        "90 / 90 / 90 / 90",
        "100 / 100 / 100 / 100",
    )
    assert list(rows) == ["read", "write", "total", "file per process", "shared, contiguous", "shared, strided"]


def test_accuracy_is_the_share_on_the_diagonal() -> None:
    assert accuracy(confusion(FULL.detected, SEEN, "network")) == 1
    assert accuracy(confusion(FULL.detected, UNSEEN, "network")) == pytest.approx(580 / 600)


def test_detected_periods_are_told_by_name() -> None:
    row = next(r for r in detected_records(FULL) if (r["set"], r["pattern"]) == (UNSEEN, "shared-strided"))
    assert (row["as_shared_contiguous"], row["as_shared_strided"]) == (10, 90)


def test_instances_have_the_papers_shares_where_it_has_some() -> None:
    rows = {row[:2]: row[2:] for row in instance_table(FULL).rows}
    assert rows["A", "epsilon 0.15"] == ("0.87 → 1.00", "0.88 → 0.98", "20 → 70 %")
    assert rows["C", "epsilon 0.1"][0] == "–"
    assert len(rows) == 9


def test_tuners_are_compared_by_what_they_lose() -> None:
    rows = {(r["tuner"], r["similar"]): r for r in tuner_records(FULL)}
    ours = rows["forebay", "no"]
    assert ours["regret"] == pytest.approx(LOSES["forebay"] * BINS) and ours["steps"] == 10 * BINS
    assert ours["of_epsilon_0.1"] == pytest.approx(LOSES["forebay"] / LOSES[TENTH])
    assert ours["situations_at_most_half"] == 1 and rows[PAPERS, "no"]["situations_at_most_half"] == 0
    assert [row[0] for row in tuner_table(FULL).rows] == [
        "forebay, after similar situations",
        "forebay",
        "epsilon 0.1",
        "epsilon 0.15",
        "my<own>",
    ]


def test_twins_is_compared_with_its_best_window() -> None:
    rows = {row[0]: row[1:] for row in scheduler_table(FULL).rows}
    assert rows["hbrr"] == ("+50.0 %", "+50.0 %", "+50.0 %", "9", "0")
    assert rows["wfq"] == ("0 %", "0 %", "0 %", "0", "0")
    assert rows["twins, best window"][1:3] == ("+1.0 %", "+25.0 %")


def test_every_number_of_the_model_is_told() -> None:
    rows = {row[0]: row[1] for row in model_table().rows}
    assert rows["time for any request, µs"] == "60" and rows["bandwidth of a server, MB/s"] == "600"
    assert len(rows) == 9


def test_ways_come_in_the_order_asked_for() -> None:
    assert FULL.ways() == [Way(TENTH), Way(PAPERS), Way("forebay"), Way("forebay", True), Way("my<own>")]


def test_modes_of_learning_are_told_apart() -> None:
    modes = [r["mode"] for r in learned_records(FULL)]
    counts = (9 * BINS * len(TUNERS), 9 * BINS, 3 * BINS * len(TUNERS))
    assert tuple(modes.count(mode) for mode in ("alone", "after similar", "in turns")) == counts


def test_bins_without_a_value_are_left_out() -> None:
    rows = select(FULL.learned, together=True, tuner=TENTH)
    at, values = over_steps(rows, "precision")
    assert at.tolist() == [20, 30, 40, 50, 60]
    assert values[0] == pytest.approx(0.3)


def test_the_best_is_reached_when_it_is_not_left_again() -> None:
    heard, own = FULL.learned_alone(Way("forebay", True)), FULL.learned_alone(Way(TENTH))
    assert step_reached(heard) == 10
    assert step_reached(own) != step_reached(own)  # 0.978 in the end is not near
    dip = own.copy()
    dip["share"] = [1.0, 1.0, 0.5, 1.0, 1.0, 1.0] * 9
    assert step_reached(dip) == 40
    assert last_values(own, "regret").tolist() == pytest.approx([LOSES[TENTH] * BINS] * 9)
