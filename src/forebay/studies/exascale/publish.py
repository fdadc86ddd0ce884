"""A finished month of a whole centre as files: tables, figures, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forebay.show.export import write_table
from forebay.show.figures.sheet import write_figures
from forebay.show.output import plain
from forebay.studies.exascale.figures import sketch_exascale_study
from forebay.studies.exascale.findings import LEFT_OUT, conclusions
from forebay.studies.exascale.results import ExascaleResults
from forebay.studies.exascale.tables import (
    gains_table,
    job_records,
    kind_table,
    row_records,
    sensitivity_table,
    won_table,
)
from forebay.studies.report import write_exascale_report


def publish_exascale(results: ExascaleResults, command: str, out: Path) -> dict[str, Any]:
    """Write everything into `out`; returns the JSON document, which is among it.

    `command` is what makes the same study again.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows = row_records(results)
    write_table(rows, out / "rows")
    write_table(job_records(results), out / "jobs")
    said = conclusions(results)
    tables = [won_table(results), kind_table(results), sensitivity_table(results), gains_table(results)]
    parts = {
        "settings": results.settings,
        "months": results.months,
        "conclusions": said,
        "left_out": LEFT_OUT,
        "tables": [table for table in tables if table.rows],
    }
    figures = write_figures(sketch_exascale_study(results), out)
    write_exascale_report(parts, figures, command, out / "report.html")
    document: dict[str, Any] = plain(
        {
            "study": "exascale",
            "settings": dict(results.settings),
            "months": results.months,
            "conclusions": said,
            "left_out": LEFT_OUT,
            "gains": [gain._asdict() for gain in results.gains],
            "rows": rows,
        }
    )
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document
