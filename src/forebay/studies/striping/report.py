"""The report: the paper's improvements beside ours, figures and findings."""

from __future__ import annotations

from dataclasses import asdict

from forebay.show.report import Report, Section
from forebay.show.rows import records
from forebay.simulate.striping.machine import CORI, LOCAL
from forebay.studies.striping.figures import figures_of
from forebay.studies.striping.findings import conclusions, differences
from forebay.studies.striping.results import StripingResults, gains
from forebay.studies.striping.tables import (
    assumed_table,
    gains_table,
    level_records,
    mean_records,
    model_table,
    noise_table,
)


def make_report(results: StripingResults) -> Report:
    settings, said, differ = results.settings, conclusions(results), differences(results)
    files = {
        "runs": records(results.runs),
        "means": mean_records(results),
        "gains": [asdict(gain) for gain in gains(results)],
        "noise": records(results.noise),
        "noise-levels": level_records(results),
        "assumed": records(results.assumed),
    }
    summary = [gains_table(results), noise_table(results)]
    return Report(
        about=f"The first {settings.get('runs')} runs of each application under each policy, in simulation, after "
        f"Kim et al. 2022, section 5; {settings.get('repetitions')} repetitions, seed {settings.get('seed')}.",
        findings=[Section("What came out", said), Section("Where this is not what the paper says, and why", differ)],
        records=files,
        document={
            "settings": dict(settings),
            "machines": [asdict(machine) for machine in (LOCAL, CORI)],
            "conclusions": said,
            "differences": differ,
            "gains": files["gains"],
            "means": files["means"],
            "noise": files["noise-levels"],
            "assumed": files["assumed"],
        },
        figures=figures_of(results),
        summary=summary,
        tables=[*summary, model_table(), assumed_table(results)],
    )
