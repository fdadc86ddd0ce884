"""A finished storage study as files: tables, figures, report."""

from __future__ import annotations

import json
from pathlib import Path

from forebay.show.export import write_table
from forebay.show.figures.sheet import write_figures
from forebay.show.output import plain
from forebay.studies.burst_buffer.figures.study import sketch_storage_study
from forebay.studies.burst_buffer.findings import storage_changes, storage_conclusions
from forebay.studies.burst_buffer.results import StorageResults
from forebay.studies.burst_buffer.tables import disk_records, records
from forebay.studies.burst_buffer.view import StorageView, effects
from forebay.studies.report import write_storage_report


def publish_storage(results: StorageResults, command: str, out: Path) -> dict[str, object]:
    """Write everything into `out`; returns the JSON document, which is among it.

    `command` is what makes the same study again.
    """
    out.mkdir(parents=True, exist_ok=True)
    view = StorageView(results)
    tables = {"runs": records(results.runs), "disks": disk_records(view), "effects": effects(view)}
    for name, rows in tables.items():
        if rows:  # one policy alone has no effects
            write_table(rows, out / name)
    figures = write_figures(sketch_storage_study(results), out)
    said, changes = storage_conclusions(results), storage_changes(results)
    write_storage_report(results, said, changes, figures, command, out / "report.html")
    document: dict[str, object] = plain(
        {
            "study": "burst-buffer",
            "requests": results.origin,
            "settings": dict(results.settings),
            "conclusions": said,
            "changes": changes,
            "runs": tables["runs"],
            "effects": tables["effects"],
        }
    )
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document
