"""A finished study of request windows as files: tables, figures, report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forebay.model.units import format_size
from forebay.show.export import write_table
from forebay.show.figures.sheet import write_figures
from forebay.show.output import plain
from forebay.studies.report import write_request_windows_report
from forebay.studies.request_windows.differences import request_windows_differences
from forebay.studies.request_windows.figures.study import sketch_request_windows_study
from forebay.studies.request_windows.findings import FITTED, request_windows_conclusions
from forebay.studies.request_windows.records import (
    demanded_records,
    detected_records,
    instance_records,
    learned_records,
    precision_records,
    scheduler_records,
    situation_records,
    tuner_records,
    window_records,
)
from forebay.studies.request_windows.results import RequestWindowsResults
from forebay.studies.request_windows.tables import all_tables, situation_table

_TABLES: dict[str, Callable[[RequestWindowsResults], list[dict[str, Any]]]] = {
    "situations": situation_records,
    "windows": window_records,
    "schedulers": scheduler_records,
    "learned": learned_records,
    "tuners": tuner_records,
    "instances": instance_records,
    "detected": detected_records,
    "precision": precision_records,
    "demanded": demanded_records,
}
_TOLD = ("situations", "windows", "schedulers", "tuners", "instances", "precision")


def publish_request_windows(results: RequestWindowsResults, command: str, out: Path) -> dict[str, Any]:
    """Write everything into `out`; returns the JSON document, which is among it.

    `command` is what makes the same study again.
    """
    out.mkdir(parents=True, exist_ok=True)
    tables = {name: rows(results) for name, rows in _TABLES.items()}
    for name, rows in tables.items():
        if rows:
            write_table(rows, out / name)
    said, differ = request_windows_conclusions(results), request_windows_differences(results)
    parts = {
        "settings": results.settings,
        "situations": len(results.experiments),
        "windows": len(results.windows),
        "total": _totals(results),
        "fitted": FITTED,
        "conclusions": said,
        "differences": differ,
        "tables": [t for t in all_tables(results) if t.rows],
        "every": situation_table(results),
    }
    figures = write_figures(sketch_request_windows_study(results), out)
    write_request_windows_report(parts, figures, command, out / "report.html")
    document: dict[str, Any] = plain(
        {
            "study": "request-windows",
            "settings": dict(results.settings),
            "note": FITTED,
            "conclusions": said,
            "differences": differ,
            **{name: tables[name] for name in _TOLD},
        }
    )
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def _totals(results: RequestWindowsResults) -> str:
    totals = sorted({e.workload.total for e in results.experiments})
    return " to ".join(_size(total) for total in dict.fromkeys((totals[0], totals[-1])))


def _size(total: int) -> str:
    """
    >>> _size(4 << 30), _size(1_500_000_000)
    ('4 GiB', '1.50 GB')
    """
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if total % unit == 0:
            return f"{total // unit} {name}"
    return format_size(total)
