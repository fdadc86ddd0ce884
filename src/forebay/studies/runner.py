"""Run any study, resuming where it stopped, and write its tables, figures, report and JSON."""

import json
import math
import shlex
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import typer

from forebay.model.units import plural
from forebay.show.export import write_table
from forebay.show.figures.sheet import write_figures
from forebay.show.output import Document, plain, print_json, print_table, progress
from forebay.show.report import Report, write_report
from forebay.show.workers import hire_workers
from forebay.studies.finished_pieces import Interrupted, Store, run_all
from forebay.studies.study import Study
from forebay.work import Workers

R = TypeVar("R")


def run_study(study: Study[R], folder: Path, *, workers: Workers, progress: Callable[[int], None]) -> R:
    """Run the pieces that `folder` does not hold yet, and collect the results of all."""
    study.check()
    pieces = Store(folder, study.settings())
    pieces.open()
    done = 0
    for keys, work in study.stages(pieces):
        run_all(keys, work, pieces, workers=workers, progress=partial(_advance, progress, done))
        done += len(keys)
    return study.collect(pieces)


def _advance(progress: Callable[[int], None], before: int, count: int) -> None:
    progress(before + count)


def publish(name: str, report: Report, command: str, out: Path) -> Document:
    """Write tables, figures, report and results.json into `out`; `command` reproduces the study."""
    out.mkdir(parents=True, exist_ok=True)
    for file, rows in report.records.items():
        if rows:
            write_table(rows, out / file)
    write_report(name, report, write_figures(report.figures, out), command, out / "report.html")
    document: Document = plain({"study": name, **report.document})
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def perform(study: Study[Any], command: str, out: Path, *, workers: str | None, as_json: bool) -> None:
    """Run the study, write its results, and print them. Ctrl-C keeps the finished pieces."""
    count = len(study.keys())
    try:
        with hire_workers(workers) as crew, progress(f"{study.name}: {plural(count, study.noun)}", count) as advance:
            results = run_study(study, out / ".pieces", workers=crew, progress=advance)
        with progress(f"{study.name}: figures and report", math.inf):
            report = study.report(results)
            document = publish(study.name, report, command, out)
    except Interrupted as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the cleanup
        typed = shlex.join(["forebay", *sys.argv[1:]])
        typer.echo(f"forebay: {error}. To resume, run: {typed}", err=True)
        sys.exit(130 if error.by_user else 1)
    if as_json:
        print_json(document)
    else:
        _print(report, out)


def _print(report: Report, out: Path) -> None:
    for table in report.summary:
        if table.rows:
            print_table(table.title, table.heads, table.rows)
            typer.echo()
    for number, section in enumerate(section for section in report.findings if section.sentences):
        if number:
            typer.echo(f"\n{section.title}:")
        for sentence in section.sentences:
            typer.echo(f"- {sentence}")
    if report.note:
        typer.echo(f"- {report.note}")
    files = ", ".join(f"{name}.csv" for name, rows in report.records.items() if rows)
    typer.echo(f"\nReport: {out / 'report.html'}   tables: {files} (also .parquet)   figures: {out}/*.png")
