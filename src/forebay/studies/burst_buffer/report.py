"""The report: what each policy serves on each platform, figures and findings."""

from __future__ import annotations

from forebay.show.report import Details, Report, Section
from forebay.show.rows import records
from forebay.studies.burst_buffer.changes import changes
from forebay.studies.burst_buffer.figures import figures_of
from forebay.studies.burst_buffer.findings import conclusions
from forebay.studies.burst_buffer.results import StorageResults
from forebay.studies.burst_buffer.tables import disk_records, effects_table, run_tables, served_table
from forebay.studies.burst_buffer.view import StorageView, effects

_COUNTED = "The column 'served' counts requests; 'optimal' is not a run but what no policy can exceed."


def make_report(results: StorageResults) -> Report:
    view = StorageView(results)
    said, changed = conclusions(results), changes(results)
    files = {"runs": records(results.runs), "disks": disk_records(view), "effects": effects(view)}
    return Report(
        about=f"{results.origin}; every policy on every platform, after Monniot et al. 2023, section 5.",
        findings=[
            Section("What came out", said),
            Section("What changes between StorAlloc's own rules and the correct ones", changed),
        ],
        records=files,
        document={
            "requests": results.origin,
            "settings": dict(results.settings),
            "conclusions": said,
            "changes": changed,
            "runs": files["runs"],
            "effects": files["effects"],
        },
        figures=figures_of(results),
        summary=[served_table(results, mode) for mode in results.modes()],
        tables=[effects_table(view)],
        details=Details("All runs", _COUNTED, run_tables(view)),
    )
