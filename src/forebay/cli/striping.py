"""`forebay study striping`."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.model.units import plural
from forebay.show.options import Json, Seed, Workers

if TYPE_CHECKING:
    from forebay.studies.striping.experiment import StripingStudy

_POLICIES = ("default", "tapp-io", "dca-io", "forebay")
EXAMPLE = "Example: forebay study striping --policy default,dca-io --no-noise"


def striping(
    policy: Annotated[
        str | None, typer.Option(help=f"Striping policies by commas, or 'all'. [{','.join(_POLICIES)}]")
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Of the first ten runs of each application.", min=1)] = 20,
    noise: Annotated[bool, typer.Option(help="Also under 5, 20 and 40 % noise.")] = True,
    noise_seeds: Annotated[int, typer.Option(help="Of each case under each level of noise.", min=1)] = 20,
    seed: Seed = 0,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out. [study-striping]")] = None,
    json: Json = False,
) -> None:
    """Stripe count, stripe size and first target, run by run.

    Every policy (Kim et al. 2022, section 5).
    """
    from forebay.decide.registry import policies
    from forebay.show.options import policy_list
    from forebay.studies.striping.assumed import NUMBERS
    from forebay.studies.striping.experiment import StripingStudy, noise_cases, paper_settings

    if policy is not None and not policy.strip(", "):
        raise BadInput("--policy", "names no policy")
    names = policy_list("stripe", policy) if policy else [name for name in _POLICIES if name in policies("stripe")]
    study = StripingStudy(
        settings=paper_settings(),
        cases=noise_cases() if noise else {},
        assumed=NUMBERS,
        policies=names,
        repetitions=repetitions,
        seeds=noise_seeds,
        seed=seed,
    )
    options = {"policy": ",".join(names), "repetitions": repetitions, "seed": seed}
    words = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    words += ["--noise-seeds", str(noise_seeds)] if noise else ["--no-noise"]
    again = shlex.join(["forebay", "study", "striping", *words])
    perform(study, again, out or Path("study-striping"), workers=workers, json=json)


def perform(study: StripingStudy, again: str, out: Path, *, workers: str | None, json: bool) -> None:
    """Run the study, write what came out, and say it; Ctrl-C keeps what is finished."""
    from forebay.cli.study import to_be_continued
    from forebay.show.output import print_json, print_table, progress
    from forebay.show.workers import hired
    from forebay.studies.striping.experiment import run
    from forebay.studies.striping.publish import publish_striping
    from forebay.studies.striping.tables import gains_table, noise_table

    pieces = len(study.keys())
    with to_be_continued():
        with hired(workers) as crew, progress(f"striping: {plural(pieces, 'case')}", pieces) as told:
            results = run(study, out / ".pieces", workers=crew, progress=told)
        with progress("striping: figures and report", math.inf):
            document = publish_striping(results, again, out)
    if json:
        print_json(document)
        return
    for table in (gains_table(results), noise_table(results)):
        if table.rows:
            print_table(table.title, table.heads, table.rows)
            typer.echo()
    for sentence in [*document["conclusions"], *document["differences"]]:
        typer.echo(f"- {sentence}")
    files = "runs.csv, means.csv, gains.csv" + (", noise.csv" if study.cases else "")
    typer.echo(f"\nReport: {out / 'report.html'}   tables: {files} (also .parquet)   figures: {out}/*.png")
