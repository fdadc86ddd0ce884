"""A finished striping study as files: tables, figures, report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forebay.show.export import write_table
from forebay.show.figures.sheet import write_figures
from forebay.show.output import plain
from forebay.simulate.striping.machine import CORI, LOCAL
from forebay.studies.report import write_striping_report
from forebay.studies.striping.figures.study import sketch_striping_study
from forebay.studies.striping.findings import striping_conclusions, striping_differences
from forebay.studies.striping.results import StripingResults
from forebay.studies.striping.tables import (
    all_tables,
    assumed_records,
    gain_records,
    level_records,
    mean_records,
    noise_records,
    run_records,
)


def publish_striping(results: StripingResults, command: str, out: Path) -> dict[str, Any]:
    """Write everything into `out`; returns the JSON document, which is among it.

    `command` is what makes the same study again.
    """
    out.mkdir(parents=True, exist_ok=True)
    tables = {
        "runs": run_records(results),
        "means": mean_records(results),
        "gains": gain_records(results),
        "noise": noise_records(results),
        "noise-levels": level_records(results),
        "assumed": assumed_records(results),
    }
    for name, rows in tables.items():
        if rows:
            write_table(rows, out / name)
    said, differ = striping_conclusions(results), striping_differences(results)
    write_striping_report(
        {
            "settings": results.settings,
            "conclusions": said,
            "differences": differ,
            "tables": [t for t in all_tables(results) if t.rows],
        },
        write_figures(sketch_striping_study(results), out),
        command,
        out / "report.html",
    )
    document: dict[str, Any] = plain(
        {
            "study": "striping",
            "settings": dict(results.settings),
            "machines": [asdict(machine) for machine in (LOCAL, CORI)],
            "conclusions": said,
            "differences": differ,
            "gains": tables["gains"],
            "means": tables["means"],
            "noise": tables["noise-levels"],
            "assumed": tables["assumed"],
        }
    )
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document
