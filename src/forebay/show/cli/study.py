"""`forebay study`: the papers' evaluations."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.show.cli.options import Json, Seed

if TYPE_CHECKING:
    from forebay.history.curves import Curves
    from forebay.simulate.studies.io_resources import Study
    from forebay.simulate.studies.results import Results

app = typer.Typer(
    help="Run a paper's whole evaluation: tables, figures and a report.", no_args_is_help=True, rich_markup_mode=None
)

CurvesFile = Annotated[
    Path | None,
    typer.Option(help="Measured curves: FORGE results, or CSV application,n,bandwidth [default: synthetic]."),
]
Sets = Annotated[int, typer.Option(help="Sets of applications for each load.", min=1)]
Loads = Annotated[str, typer.Option(help="LOW:HIGH:STEP of I/O-load(pi_sys); STEP is the width of a bin.")]
Allocate = Annotated[str | None, typer.Option(help="Allocation policies by commas [default: all but optimal].")]
Place = Annotated[str | None, typer.Option(help="Placement policies by commas [default: all].")]
Workers = Annotated[int, typer.Option(help="Processes [default: one per core].", min=0, show_default=False)]
Out = Annotated[Path | None, typer.Option(help="Folder for what comes out [default: study-NAME].")]
Applications = Annotated[int, typer.Option(help="Applications in each set.", min=1)]
Targets = Annotated[int, typer.Option(help="I/O nodes or OSTs.", min=1)]
Nodes = Annotated[float, typer.Option(help="Compute nodes.", min=1)]
Horizon = Annotated[float, typer.Option(help="Seconds to measure over.", min=1)]


@app.command(
    "io-nodes", epilog="Example: forebay study io-nodes --curves marenostrum4.csv --sets 20 --loads 0.2:1.2:0.2"
)
def io_nodes(
    curves: CurvesFile = None,
    sets: Sets = 100,
    loads: Loads = "0.2:1.2:0.1",
    allocate: Allocate = None,
    place: Place = None,
    seed: Seed = 0,
    workers: Workers = 0,
    out: Out = None,
    applications: Applications = 60,
    targets: Targets = 20,
    compute_nodes: Nodes = 480,
    horizon: Horizon = 20_000,
    json: Json = False,
) -> None:
    """How many and which I/O nodes: every policy, on many drawn sets of applications (Bandet et al., VI-A)."""
    _run("io-nodes", curves, sets, loads, allocate, place, seed, workers, out, applications, targets, compute_nodes, horizon, json)  # fmt: skip  # noqa: E501


@app.command("osts", epilog="Example: forebay study osts --sets 20 --loads 0.2:1.2:0.2")
def osts(
    curves: CurvesFile = None,
    sets: Sets = 100,
    loads: Loads = "0.2:1.2:0.1",
    allocate: Allocate = None,
    place: Place = None,
    seed: Seed = 0,
    workers: Workers = 0,
    out: Out = None,
    applications: Applications = 60,
    targets: Targets = 20,
    compute_nodes: Nodes = 480,
    horizon: Horizon = 20_000,
    json: Json = False,
) -> None:
    """How many and which OSTs: the same with curves of object storage targets (Bandet et al., VI-C)."""
    _run("osts", curves, sets, loads, allocate, place, seed, workers, out, applications, targets, compute_nodes, horizon, json)  # fmt: skip  # noqa: E501


@app.command("robustness", epilog="Example: forebay study robustness --curves marenostrum4.csv --sets 20")
def robustness(
    curves: CurvesFile = None,
    sets: Sets = 100,
    loads: Loads = "0.2:1.2:0.1",
    allocate: Allocate = "tcpu,best-bandwidth,forebay",
    place: Place = "greedy-non-clairvoyant,greedy-clairvoyant",
    seed: Seed = 0,
    workers: Workers = 0,
    out: Out = None,
    applications: Applications = 60,
    targets: Targets = 20,
    compute_nodes: Nodes = 480,
    horizon: Horizon = 20_000,
    json: Json = False,
) -> None:
    """Policies that see only the class of each curve, against the truth (Bandet et al., VI-B)."""
    _run("robustness", curves, sets, loads, allocate, place, seed, workers, out, applications, targets, compute_nodes, horizon, json)  # fmt: skip  # noqa: E501


def _run(
    name: str,
    curves_file: Path | None,
    sets: int,
    loads: str,
    allocate: str | None,
    place: str | None,
    seed: int,
    workers: int,
    out: Path | None,
    applications: int,
    targets: int,
    compute_nodes: float,
    horizon: float,
    json: bool,
) -> None:
    from forebay.model.system import System
    from forebay.show.cli.lists import load_range, policy_list
    from forebay.simulate.studies.io_resources import Study
    from forebay.simulate.studies.results import CLASS, TRUE

    middles, step = load_range(loads)
    curves = _curves(name, curves_file, seed)
    study = Study(
        name=name,
        curves=curves.by_name,
        origin=curves.origin,
        system=System(targets=targets, compute_nodes=compute_nodes),
        applications=applications,
        horizon=horizon,
        allocators=policy_list("allocate", allocate),
        placers=policy_list("place", place),
        sees=(TRUE, CLASS) if name == "robustness" else (TRUE,),
        seed=seed,
        loads=middles,
        step=step,
        sets=sets,
    )
    perform(study, out or Path(f"study-{name}"), workers=workers or os.cpu_count() or 1, json=json)


def perform(study: Study, out: Path, *, workers: int, json: bool) -> None:
    """Run the study, write what came out, and say it; Ctrl-C keeps what is finished."""
    from forebay.show.output import print_json, print_table, progress
    from forebay.show.study import publish
    from forebay.simulate.studies.io_resources import run
    from forebay.simulate.studies.pieces import Interrupted

    command = _command()
    try:
        with progress(f"{study.name}: {len(study.keys())} sets", len(study.keys())) as told:
            results = run(study, out / ".pieces", workers=workers, progress=told)
    except Interrupted as error:
        typer.echo(f"forebay: {error}; the same command goes on from there: {command}", err=True)
        raise typer.Exit(130 if error.by_user else 1) from None
    document = publish(results, study.curves, command, out)
    if json:
        print_json(document)
        return
    for metric, title in (("mean_io_slowdown", "Mean I/O slowdown"), ("machine_idle", "Machine idle time")):
        print_table(f"{title} by load, {results.origin}", *_by_load(results, metric))
    typer.echo()
    for sentence in document["conclusions"]:  # type: ignore[attr-defined]
        typer.echo(f"- {sentence}")
    typer.echo(f"\nReport: {out / 'report.html'}   tables: rows.csv, sets.csv (also .parquet)   figures: {out}/*.png")


def _by_load(results: Results, metric: str) -> tuple[list[str], list[list[object]]]:
    """A line for each combination of policies, a column for each bin."""
    lines: dict[tuple[object, ...], list[object]] = {}
    for row in results.rows():
        lines.setdefault(tuple(row[k] for k in ("allocate", "place", "curves")), []).append(row[metric])
    heads = ["allocate", "place", "sees", *(f"{b.middle:g}" for b in results.bins)]
    return heads, [[*policies, *values] for policies, values in lines.items()]


def _curves(name: str, file: Path | None, seed: int) -> Curves:
    import numpy as np

    from forebay.history.curves import read_curves
    from forebay.profile.synthetic import PAPER_COUNTS, Kind, synthetic_curves

    if file is not None:
        return read_curves(file)
    kind: Kind = "osts" if name == "osts" else "io-nodes"
    return synthetic_curves(kind, PAPER_COUNTS[kind], np.random.default_rng(seed))


def _command() -> str:
    """What the user typed, so that it can be typed again."""
    import sys

    return shlex.join(["forebay", *sys.argv[1:]])
