"""The report: gains of windows, what is learned and detected, figures and findings."""

from __future__ import annotations

from forebay.model.layout import MIB
from forebay.model.units import format_size, plural
from forebay.show.phrases import format_binary
from forebay.show.report import Details, Report, Section
from forebay.show.rows import records
from forebay.studies.request_windows import tables
from forebay.studies.request_windows.differences import differences
from forebay.studies.request_windows.figures import figures_of
from forebay.studies.request_windows.findings import FITTED, conclusions
from forebay.studies.request_windows.records import (
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

_IN_DOCUMENT = ("situations", "windows", "schedulers", "tuners", "instances", "precision")


def make_report(results: RequestWindowsResults) -> Report:
    said, differ = conclusions(results), differences(results)
    files = {
        "situations": situation_records(results),
        "windows": window_records(results),
        "schedulers": scheduler_records(results),
        "learned": learned_records(results),
        "tuners": tuner_records(results),
        "instances": instance_records(results),
        "detected": detected_records(results),
        "precision": precision_records(results),
        "demanded": records(results.demanded),
    }
    gains, tuners, schedulers = (
        make(results) for make in (tables.gains_table, tables.tuner_table, tables.scheduler_table)
    )
    every = tables.situation_table(results)
    return Report(
        about=_about(results),
        note=FITTED,
        findings=[Section("What came out", said), Section("Where this is not what the paper says, and why", differ)],
        records=files,
        document={
            "settings": dict(results.settings),
            "note": FITTED,
            "conclusions": said,
            "differences": differ,
            **{name: files[name] for name in _IN_DOCUMENT},
        },
        figures=figures_of(results),
        summary=[gains, tuners, schedulers],
        tables=[
            gains,
            tables.precision_table(results),
            tables.classifier_table(),
            tables.instance_table(results),
            tuners,
            schedulers,
            tables.model_table(),
        ],
        details=Details("All situations", "", [every]),
    )


def _about(results: RequestWindowsResults) -> str:
    settings = results.settings
    totals = sorted({e.workload.total for e in results.experiments})
    total = " to ".join(_format_total(total) for total in dict.fromkeys((totals[0], totals[-1])))
    return (
        f"{len(results.experiments)} situations and {len(results.windows)} windows of the twins scheduler, in "
        f"simulation, after Bez et al. 2019, section 6; {total} in each run, "
        f"{plural(int(str(settings.get('repetitions'))), 'repetition')}, I/O nodes that observe for "
        f"{settings.get('period')} s, {settings.get('replays')} repetitions of what is learned, seed "
        f"{settings.get('seed')}."
    )


def _format_total(total: int) -> str:
    """
    >>> _format_total(4 << 30), _format_total(1_500_000_000)
    ('4 GiB', '1.50 GB')
    """
    return format_size(total) if total % MIB else format_binary(total)
