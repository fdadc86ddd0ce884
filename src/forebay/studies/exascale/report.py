"""The report: tables, figures, findings, and what they rest on."""

from __future__ import annotations

import json
from typing import Any

from forebay.model.units import plural
from forebay.show.report import Report, Section
from forebay.show.rows import records
from forebay.studies.exascale.figures import figures_of
from forebay.studies.exascale.findings import LEFT_OUT, conclusions
from forebay.studies.exascale.results import ExascaleResults
from forebay.studies.exascale.tables import gains_table, kind_table, row_records, sensitivity_table, won_table

_SOURCES = "Bytes, seconds and bytes per second. The files of machine and workload say where each number comes from."


def make_report(results: ExascaleResults) -> Report:
    settings: Any = results.settings
    rows, said = row_records(results), conclusions(results)
    assumed = [Section(f"The {part}", text=json.dumps(settings[part], indent=1)) for part in ("machine", "workload")]
    return Report(
        title=f"Study: a month of {settings['machine']['name']}",
        about=f"{plural(results.months, 'drawn month')} of {settings['workload']['month']['days']:g} days, in "
        f"simulation, seed {settings['seed']}: what the centre does today against all four decisions of Forebay, each "
        "alone, and all but each.",
        findings=[Section("What came out", said)],
        records={"rows": rows, "jobs": records(results.runs)},
        document={
            "settings": dict(settings),
            "months": results.months,
            "conclusions": said,
            "left_out": LEFT_OUT,
            "gains": [gain._asdict() for gain in results.gains],
            "rows": rows,
        },
        figures=figures_of(results),
        summary=[won_table(results)],
        tables=[won_table(results), kind_table(results), sensitivity_table(results), gains_table(results)],
        remarks=[Section("What it leaves out", LEFT_OUT), Section("What it assumes", [_SOURCES]), *assumed],
    )
