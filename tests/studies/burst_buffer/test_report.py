"""A storage study as files."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

from forebay.studies.burst_buffer.findings import make_report
from forebay.studies.burst_buffer.tables import effects_table, run_tables
from forebay.studies.runner import publish
from support.storage_rows import PAPER, SPLIT, random_results, results_of, run_rows

pytestmark = pytest.mark.filterwarnings("error")

COMMAND = "forebay study burst-buffer --requests 'a & b.yml' --seed 7"
SMALL = random_results(platforms=("16TB/nNnD", "32TB/nNnD"), policies=PAPER[2:], tries=(0,))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    out = tmp_path_factory.mktemp("study") / "new"
    return out, publish("burst-buffer", make_report(SMALL), COMMAND, out)


def test_all_tables_are_there_with_all_rows(published: tuple[Path, dict[str, object]]) -> None:
    out, document = published
    counts = {"runs": SMALL.runs.size, "disks": SMALL.disks().size, "effects": len(document["effects"])}  # type: ignore[arg-type]
    for name, count in counts.items():
        with (out / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == count > 0
        with duckdb.connect() as database:
            assert len(database.read_parquet(str(out / f"{name}.parquet")).fetchall()) == count


def test_the_document_is_what_is_in_the_file_and_knows_no_nan(published: tuple[Path, dict[str, object]]) -> None:
    out, document = published
    text = (out / "results.json").read_text(encoding="utf-8")
    assert json.loads(text) == document
    assert "NaN" not in text and "Infinity" not in text
    assert list(document) == ["study", "requests", "settings", "conclusions", "changes", "runs", "effects"]
    assert document["study"] == "burst-buffer" and document["requests"] == SMALL.origin
    runs = document["runs"]
    assert isinstance(runs, list) and runs[0]["mean_slowdown"] is None
    assert runs[0]["allocated_share"] == SMALL.runs["allocated_share"][0]


def test_the_report_needs_nothing_else(published: tuple[Path, dict[str, object]]) -> None:
    out, document = published
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!data:image/png;base64,)', page)
    assert page.count("<figure") == len(list(out.glob("*.png"))) == 8
    assert "&#39;a &amp; b.yml&#39;" in page
    assert "Changes from StorAlloc&#39;s rules to the correct ones" in page
    assert "Table 5" in page
    sentences = [*document["conclusions"], *document["changes"]]  # type: ignore[misc]
    assert page.count("<li>") == len(sentences)
    groups = run_tables(SMALL)
    assert page.count("<details") == len(groups)
    assert sum(len(group.rows) for group in groups) == SMALL.runs.size


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    results = results_of(*(run_rows("correct", "32TB/nNnD", policy) for policy in PAPER[:2]))
    first, second = tmp_path / "a", tmp_path / "b"
    for out in (first, second):
        publish("burst-buffer", make_report(results), COMMAND, out)
    assert sorted(p.name for p in first.iterdir()) == sorted(p.name for p in second.iterdir())
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_one_run_of_one_disk_is_a_study_too(tmp_path: Path) -> None:
    alone = results_of(run_rows("storalloc", "mine", "my<own>", capacity=1, split=0, disks=[("a", "", np.nan, np.nan)]))
    document = publish("burst-buffer", make_report(alone), COMMAND, tmp_path)
    assert document["effects"] == [] and not (tmp_path / "effects.csv").exists()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "my&lt;own&gt;" in page and "my<own>" not in page
    assert "What changes" not in page and "Table 5" not in page


def test_table_5_sets_best_bandwidth_beside_every_other_policy() -> None:
    table = effects_table(SMALL)
    assert table.heads == ("rules", "platform", "disks", "worst-fit")
    assert [row[:3] for row in table.rows[:4]] == [
        ("as StorAlloc", "32 TB", "all"),
        ("as StorAlloc", "32TB/heterogeneous", "all"),
        ("as StorAlloc", "32TB/heterogeneous", "SSD"),
        ("as StorAlloc", "32TB/heterogeneous", "HDD"),
    ]
    assert effects_table(results_of(run_rows("correct", "8TB/nNnD", "random"))).rows == []


def test_runs_are_grouped_by_rules_splitting_and_capacity_the_best_first() -> None:
    groups = run_tables(
        results_of(
            run_rows("correct", "8TB/nNnD", "random", allocated_share=0.25),
            run_rows("correct", "8TB/nN1D", "fill", allocated_share=0.5, tries=3, allocated=1234),
            run_rows("storalloc", "8TB/nNnD", "random", split=0),
            run_rows("correct", "8TB/nNnD", "optimal", split=SPLIT, allocated_share=0.75),
        )
    )
    assert groups[0].title == "as StorAlloc, not split, 8 TB: 1 run"
    assert groups[1].title == "correct, split at 200 GB, 8 TB: 3 runs"
    assert [row[:5] for row in groups[1].rows] == [
        ("8TB/nNnD", "optimal", "no", "75.00 %", "–"),
        ("8TB/nN1D", "fill", "yes", "50.00 %", "1,234"),
        ("8TB/nNnD", "random", "no", "25.00 %", "0"),
    ]
    assert groups[1].rows[1][-4:] == ("75.0 %", "1.25 %", "22", "–")
