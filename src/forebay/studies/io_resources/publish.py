"""A finished study as files: tables, figures, report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from forebay.model.curve import Curve
from forebay.show.export import write_table
from forebay.show.figures.sheet import write_figures
from forebay.show.output import plain
from forebay.studies.io_resources.figures.study import sketch_study
from forebay.studies.io_resources.findings import conclusions
from forebay.studies.io_resources.results import RUN, Results
from forebay.studies.report import write_report


def publish(results: Results, curves: Mapping[str, Curve], command: str, out: Path) -> dict[str, object]:
    """Write everything into `out`; returns the JSON document, which is among it."""
    names = RUN.names or ()
    columns = [results.runs[name].tolist() for name in names]
    write_table([dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)], out / "sets")
    write_table(results.rows(), out / "rows")
    figures = write_figures(sketch_study(results, curves), out)
    said = conclusions(results)
    write_report(results, said, figures, command, out / "report.html")
    document: dict[str, object] = {
        "study": results.study,
        "curves": results.origin,
        "settings": dict(results.settings),
        "conclusions": said,
        "rows": results.rows(),
    }
    (out / "results.json").write_text(json.dumps(plain(document), indent=1) + "\n", encoding="utf-8")
    return document
