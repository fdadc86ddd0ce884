"""`forebay study request-windows`."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.model.units import plural
from forebay.show.options import Json, Seed, Workers

if TYPE_CHECKING:
    from forebay.studies.request_windows.experiment import RequestWindowsStudy

EXAMPLE = (
    "Example: forebay study request-windows --repetitions 1 --tuner epsilon-greedy:epsilon=0.1,forebay --total 1GiB"
)


def request_windows(
    repetitions: Annotated[int, typer.Option(help="Of each experiment under fifo and each window.", min=1)] = 3,
    tuner: Annotated[
        str | None,
        typer.Option(help="Tuners by commas, or 'all' [default: epsilon-greedy with several epsilon, and all others]."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Schedulers by commas, beside fifo and twins, which are always run [default: all]."),
    ] = None,
    total: Annotated[str, typer.Option(help="How much each experiment reads or writes.")] = "4 GiB",
    seed: Seed = 0,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out. [study-request-windows]")] = None,
    json: Json = False,
) -> None:
    """Windows of twins in 144 situations, and who learns them.

    After Bez et al. 2019, with who recognises the situations. The model of the data servers is fitted to the paper's
    figures: what comes out is not a validation of the paper.
    """
    from forebay.studies.request_windows.experiment import check, default_tuners, other_schedulers, paper_study

    study = replace(
        paper_study(repetitions=repetitions, seed=seed, total=_bytes(total)),
        tuners=_named("tune", "--tuner", tuner, default_tuners()),
        schedulers=[n for n in _named("order", "--scheduler", scheduler, other_schedulers()) if n not in _ALWAYS],
    )
    check(study)
    again = _again(study, tuner, scheduler, total)
    perform(study, again, out or Path("study-request-windows"), workers=workers, json=json)


def perform(study: RequestWindowsStudy, again: str, out: Path, *, workers: str | None, json: bool) -> None:
    """Run the study, write what came out, and say it; Ctrl-C keeps what is finished."""
    from forebay.cli.study import to_be_continued
    from forebay.show.output import print_json, print_table, progress
    from forebay.show.workers import hired
    from forebay.studies.request_windows.experiment import run
    from forebay.studies.request_windows.publish import publish_request_windows
    from forebay.studies.request_windows.tables import gains_table, scheduler_table, tuner_table

    with to_be_continued():
        with (
            hired(workers) as crew,
            progress(f"request-windows: {plural(study.count(), 'piece')}", study.count()) as told,
        ):
            results = run(study, out / ".pieces", workers=crew, progress=told)
        with progress("request-windows: figures and report", math.inf):
            document = publish_request_windows(results, again, out)
    if json:
        print_json(document)
        return
    for table in (gains_table(results), tuner_table(results), scheduler_table(results)):
        if table.rows:
            print_table(table.title, table.heads, table.rows)
            typer.echo()
    for sentence in [*document["conclusions"], *document["differences"], document["note"]]:
        typer.echo(f"- {sentence}")
    files = "situations.csv, windows.csv, tuners.csv and others"
    typer.echo(f"\nReport: {out / 'report.html'}   tables: {files} (also .parquet)   figures: {out}/*.png")


_ALWAYS = ("fifo", "twins")


def _named(kind: str, option: str, text: str | None, default: tuple[str, ...]) -> list[str]:
    from forebay.show.options import policy_list

    if text is None:
        return list(default)
    if not text.strip(", "):
        raise BadInput(option, "names none")
    return policy_list(kind, text)  # type: ignore[arg-type]


def _bytes(text: str) -> int:
    from forebay.model.units import parse_size
    from forebay.simulate.requests.workload import paper_experiments

    try:
        size = parse_size(text)
        if not 0 < size < 1 << 50:
            raise ValueError(f"must be more than nothing and less than 1 PiB, not {text!r}")
        paper_experiments(int(size))
    except (BadInput, ValueError) as error:
        raise BadInput("--total", str(error)) from None
    return int(size)


def _again(study: RequestWindowsStudy, tuner: str | None, scheduler: str | None, total: str) -> str:
    """The command that makes the same study; how many workers did it, and where it went, don't matter."""
    words = ["--repetitions", str(study.repetitions), "--seed", str(study.seed), "--total", total]
    words += ["--tuner", ",".join(study.tuners)] if tuner else []
    words += ["--scheduler", ",".join(study.schedulers)] if scheduler else []
    return shlex.join(["forebay", "study", "request-windows", *words])
