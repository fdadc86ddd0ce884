"""`forebay study exascale`."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.units import plural
from forebay.show.options import Json, Seed, Workers

if TYPE_CHECKING:
    from forebay.studies.exascale.experiment import ExascaleStudy

EXAMPLE = "Example: forebay study exascale --quick"
_QUICK_DAYS, _QUICK_MONTHS = 1.0, 2


def exascale(
    machine: Annotated[Path | None, typer.Option(help="The machine [default: Frontier and Orion].")] = None,
    workload: Annotated[Path | None, typer.Option(help="The jobs [default: those of the example].")] = None,
    months: Annotated[int, typer.Option(help="Months to draw, each with jobs of its own.", min=1)] = 5,
    days: Annotated[float | None, typer.Option(help="Days of a month [default: the workload's].", min=0.1)] = None,
    sensitivity: Annotated[bool, typer.Option(help="Also under other assumptions.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Two months of one day, as assumed, in seconds.")] = False,
    seed: Seed = 0,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out. [study-exascale]")] = None,
    json: Json = False,
) -> None:
    """Node-hours that a whole centre would win in a month.

    All four decisions, against what the centre does today.
    """
    from forebay.simulate.centre.machine import read_centre
    from forebay.simulate.centre.workload import read_workload
    from forebay.studies.exascale.experiment import ExascaleStudy

    if quick:
        days, months, sensitivity = _QUICK_DAYS, _QUICK_MONTHS, False
    jobs = read_workload(workload or _example("workload.toml"))
    if days is not None:
        jobs = jobs.model_copy(update={"month": jobs.month.model_copy(update={"days": days})})
    study = ExascaleStudy(
        centre=read_centre(machine or _example("machine.toml")),
        workload=jobs,
        seeds=months,
        seed=seed,
        sensitivity=sensitivity,
    )
    options = {"machine": machine and machine.name, "workload": workload and workload.name, "months": months}
    options |= {"days": None if days is None else f"{days:g}", "seed": seed}
    words = [part for key, value in options.items() if value is not None for part in (f"--{key}", str(value))]
    words += [] if sensitivity else ["--no-sensitivity"]
    again = shlex.join(["forebay", "study", "exascale", *words])
    perform(study, again, out or Path("study-exascale"), workers=workers, json=json)


def _example(name: str) -> Path:
    """Examples are part of the package."""
    import forebay.show

    return Path(forebay.show.__file__).parent / "examples" / "exascale" / name


def perform(study: ExascaleStudy, again: str, out: Path, *, workers: str | None, json: bool) -> None:
    """Run the study, write what came out, and say it; Ctrl-C keeps what is finished."""
    from forebay.cli.study import to_be_continued
    from forebay.show.output import print_json, print_table, progress
    from forebay.show.workers import hired
    from forebay.studies.exascale.experiment import run
    from forebay.studies.exascale.publish import publish_exascale
    from forebay.studies.exascale.tables import won_table

    pieces = len(study.keys())
    with to_be_continued():
        with hired(workers) as crew, progress(f"exascale: {plural(pieces, 'month')}", pieces) as told:
            results = run(study, out / ".pieces", workers=crew, progress=told)
        with progress("exascale: figures and report", math.inf):
            document = publish_exascale(results, again, out)
    if json:
        print_json(document)
        return
    table = won_table(results)
    print_table(table.title, table.heads, table.rows)
    typer.echo()
    for sentence in document["conclusions"]:
        typer.echo(f"- {sentence}")
    typer.echo(f"\nReport: {out / 'report.html'}   tables: rows.csv, jobs.csv (also .parquet)   figures: {out}/*.png")
