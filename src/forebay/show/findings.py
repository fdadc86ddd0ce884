"""Findings as text and as JSON."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import typer

from forebay.model.units import format_duration, format_size, plural
from forebay.profile.findings.diagnosis import MOST_LOGS, Diagnosis
from forebay.profile.findings.finding import Finding
from forebay.show.calibration import describe_calibration, describe_kept, describe_stored
from forebay.show.output import print_table, printable


def print_findings(diagnosis: Diagnosis) -> None:
    """`forebay diagnose` of one log."""
    typer.echo(describe_run(diagnosis))
    if diagnosis.is_stored:
        typer.echo(f"From the history, as found when the log was read: {printable(diagnosis.log)} no longer exists.")
    for sentence in describe_logs(diagnosis):
        typer.echo(textwrap.fill(sentence, 100))
    if not diagnosis.findings:
        typer.echo(describe_nothing(diagnosis))
        return
    for number, finding in enumerate(diagnosis.findings, 1):
        gain = f", {finding.predicted_gain:.1f} times as fast without it" if finding.predicted_gain else ""
        share = f", {100 * finding.share:.0f} % of the I/O time" if finding.share is not None else ""
        typer.echo(f"\n{number}. {finding.code} ({finding.severity}{share}{gain})")
        for label, text in (("seen", finding.seen), ("why", finding.because), ("do", finding.remedy)):
            typer.echo(textwrap.fill(text, 100, initial_indent=f"   {label + ':':6}", subsequent_indent=" " * 9))
        if finding.files:
            typer.echo(f"   files: {', '.join(map(printable, finding.files))}")
    if diagnosis.gain_together is not None and len(diagnosis.findings) > 1:
        typer.echo(f"\nAll remedies together: {diagnosis.gain_together:.1f} times as fast.")
    typer.echo("\n" + textwrap.fill(describe_basis(diagnosis), 100))


def describe_basis(diagnosis: Diagnosis) -> str:
    """What the predicted gains rest on."""
    if diagnosis.is_stored:
        return describe_kept(diagnosis.kept_calibration)
    return describe_calibration(diagnosis.calibration)


def describe_logs(diagnosis: Diagnosis) -> list[str]:
    """Which logs of a run of several the diagnosis rests on."""
    if diagnosis.logs_of_run == 1:
        return []
    if diagnosis.is_stored:
        return [f"The run has {diagnosis.logs_of_run:,} logs. The findings are those of the log with most bytes alone."]
    if diagnosis.logs == diagnosis.logs_of_run:
        return [f"From all {diagnosis.logs:,} logs of the run, one for each process."]
    share = diagnosis.share_of_bytes
    part = f", with {100 * share:.0f} % of its bytes" if share is not None else ""
    left_out = "the largest" if diagnosis.logs >= MOST_LOGS else "the others no longer exist or cannot be read"
    return [f"From {diagnosis.logs:,} of the {diagnosis.logs_of_run:,} logs of the run{part}: {left_out}."]


def describe_run(diagnosis: Diagnosis) -> str:
    """One line: the program, how long it ran, and how much I/O it did."""
    command = diagnosis.exe.split()
    program = printable(command[0].rpartition("/")[2] if command else Path(diagnosis.log).name)
    each = format_duration(diagnosis.io_seconds / diagnosis.processes)
    whole = format_duration(diagnosis.run_time) if diagnosis.run_time > 0 else "unknown run time"
    in_threads = 0 < diagnosis.run_time < diagnosis.io_seconds / diagnosis.processes
    return (
        f"{program}: {plural(diagnosis.processes, 'process')}, {whole}, "
        f"{format_size(diagnosis.total_bytes)} moved, I/O {each} a process on average"
        + (" (its threads added up)" if in_threads else "")
    )


def describe_nothing(diagnosis: Diagnosis) -> str:
    """Why a run has no finding."""
    if diagnosis.evidence is not None and diagnosis.evidence.records.dfs["bytes"].any() and not diagnosis.total_bytes:
        return "The I/O of this run went to DAOS, which no rule covers."
    if not diagnosis.total_bytes and not diagnosis.used_files:
        return "The log has no I/O of files, so there is nothing to find."
    if not diagnosis.matters:
        return "No finding: I/O takes less than 0.5 % of the run, so no change of it can matter."
    return "No finding: no change that Forebay knows would make this run's I/O at least 5 % faster."


def print_application(app: str, diagnoses: Mapping[int, Diagnosis], missing: int) -> None:
    """`forebay diagnose` of an application: how many runs have each finding, then the newest run."""
    stored = sum(diagnosis.is_stored for diagnosis in diagnoses.values())
    whence = f" ({stored:,} from the history, as the log no longer exists)" if stored else ""
    typer.echo(f"{printable(app)}: {plural(len(diagnoses), 'run')} diagnosed{whence}")
    if missing:
        typer.echo(f"{plural(missing, 'run')} left out: no readable log, and no findings in the history")
    rows = [
        (code, len(runs), _format_median([f.share for f in runs.values()], "{:.0%}"),
         _format_median([f.predicted_gain for f in runs.values()], "{:.1f}"), max(runs))
        for code, runs in _group(diagnoses)
    ]  # fmt: skip
    if rows:
        columns = ("finding", "runs", "share of I/O time", "predicted gain", "latest run")
        print_table("Over all runs, medians", columns, rows)
    newest = next(iter(diagnoses))
    typer.echo(f"The newest, run {newest}:")
    print_findings(diagnoses[newest])


def _group(diagnoses: Mapping[int, Diagnosis]) -> list[tuple[str, dict[int, Finding]]]:
    """The findings of each code by run, the code of most runs first."""
    groups: dict[str, dict[int, Finding]] = {}
    for run, diagnosis in diagnoses.items():
        for finding in diagnosis.findings:
            groups.setdefault(finding.code, {})[run] = finding
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def _format_median(values: Sequence[float | None], text: str) -> str:
    known = [value for value in values if value is not None]
    return text.format(median(known)) if known else "-"


def findings_document(diagnosis: Diagnosis) -> dict[str, object]:
    """`forebay diagnose --json` of one log."""
    return {
        "log": diagnosis.log,
        "from_history": diagnosis.is_stored,
        "logs": diagnosis.logs,
        "logs_of_run": diagnosis.logs_of_run,
        "share_of_bytes": diagnosis.share_of_bytes,
        "processes": diagnosis.processes,
        "run_time": diagnosis.run_time,
        "total_bytes": diagnosis.total_bytes,
        "io_seconds": diagnosis.io_seconds,
        "gain_together": diagnosis.gain_together,
        "calibration": _calibration_document(diagnosis),
        "findings": [_finding_document(finding) for finding in diagnosis.findings],
    }


def application_document(app: str, diagnoses: Mapping[int, Diagnosis], missing: int) -> dict[str, object]:
    """`forebay diagnose --json` of an application: each code as the newest run that has it shows it."""
    findings = [_finding_document(runs[max(runs)]) | {"runs": sorted(runs)} for _, runs in _group(diagnoses)]
    stored = sorted(run for run, diagnosis in diagnoses.items() if diagnosis.is_stored)
    return {
        "app": app,
        "runs": sorted(diagnoses),
        "from_history": stored,
        "missing": missing,
        "calibration": _calibration_document(next(iter(diagnoses.values()))),
        "findings": findings,
    }


def _calibration_document(diagnosis: Diagnosis) -> Mapping[str, object] | None:
    return diagnosis.kept_calibration if diagnosis.is_stored else describe_stored(diagnosis.calibration)


def _finding_document(finding: Finding) -> dict[str, object]:
    return {
        "code": str(finding.code),
        "severity": finding.severity,
        "share": finding.share,
        "evidence": {"seen": finding.seen, "because": finding.because, "files": finding.files, **finding.numbers},
        "remedy": finding.remedy,
        "predicted_gain": finding.predicted_gain,
        "confidence": finding.confidence,
    }
