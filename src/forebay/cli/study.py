"""`forebay study`: the papers' evaluations."""

from __future__ import annotations

import math
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli import burst_buffer, exascale, request_windows, striping
from forebay.model.errors import BadInput
from forebay.model.units import plural
from forebay.show.options import Json, Seed, Workers

if TYPE_CHECKING:
    from forebay.history.curves import Curves
    from forebay.studies.io_resources.experiment import Study
    from forebay.studies.io_resources.results import Results

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
Out = Annotated[Path | None, typer.Option(help="Folder for what comes out [default: study-NAME].")]
Applications = Annotated[int, typer.Option(help="Applications in each set.", min=1)]
Targets = Annotated[int, typer.Option(help="I/O nodes or OSTs.", min=1)]
Nodes = Annotated[float, typer.Option(help="Compute nodes.", min=1)]
Horizon = Annotated[float, typer.Option(help="Seconds to measure over.", min=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A study by name, and the policies that it runs where none are given."""

    name: str
    summary: str
    example: str
    allocate: str | None = None
    place: str | None = None


_KINDS = (
    _Kind(
        name="io-nodes",
        summary="How many and which I/O nodes (Bandet et al., VI-A). Every policy, on many drawn sets of applications.",
        example="forebay study io-nodes --curves marenostrum4.csv --sets 20 --loads 0.2:1.2:0.2",
    ),
    _Kind(
        name="osts",
        summary="How many and which OSTs (Bandet et al., VI-C). Like io-nodes, with curves of object storage targets.",
        example="forebay study osts --sets 20 --loads 0.2:1.2:0.2",
    ),
    _Kind(
        name="robustness",
        summary="Policies that see only curves' classes (Bandet, VI-B).",
        example="forebay study robustness --curves marenostrum4.csv --sets 20",
        allocate="tcpu,best-bandwidth,forebay",
        place="greedy-non-clairvoyant,greedy-clairvoyant",
    ),
)


def _command(kind: _Kind) -> Callable[..., None]:
    def command(
        curves: CurvesFile = None,
        sets: Sets = 100,
        loads: Loads = "0.2:1.2:0.1",
        allocate: Allocate = kind.allocate,
        place: Place = kind.place,
        seed: Seed = 0,
        workers: Workers = None,
        out: Out = None,
        applications: Applications = 60,
        targets: Targets = 20,
        compute_nodes: Nodes = 480,
        horizon: Horizon = 20_000,
        json: Json = False,
    ) -> None:
        from forebay.model.system import System
        from forebay.show.options import load_range, policy_list
        from forebay.studies.io_resources.experiment import Study
        from forebay.studies.io_resources.results import CLASS, TRUE

        for option, value in (("--compute-nodes", compute_nodes), ("--horizon", horizon)):
            if not math.isfinite(value):
                raise BadInput(option, f"must be finite, not {value:g}")
        middles, step = load_range(loads)
        measured = _curves(kind.name, curves, seed)
        study = Study(
            name=kind.name,
            curves=measured.by_name,
            origin=measured.origin,
            system=System(targets=targets, compute_nodes=compute_nodes),
            applications=applications,
            horizon=horizon,
            allocators=policy_list("allocate", allocate),
            placers=policy_list("place", place),
            sees=(TRUE, CLASS) if kind.name == "robustness" else (TRUE,),
            seed=seed,
            loads=middles,
            step=step,
            sets=sets,
        )
        again = _again(study, curves, loads)
        perform(study, again, out or Path(f"study-{kind.name}"), workers=workers, json=json)

    return command


io_nodes, osts, robustness = (
    app.command(kind.name, help=kind.summary, epilog=f"Example: {kind.example}")(_command(kind)) for kind in _KINDS
)


@contextmanager
def to_be_continued() -> Iterator[None]:
    """What is finished when it is interrupted is kept, and the user told how to go on."""
    from forebay.studies.pieces import Interrupted

    try:
        yield
    except Interrupted as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not cut the tidying short
        typed = shlex.join(["forebay", *sys.argv[1:]])
        typer.echo(f"forebay: {error}; the same command goes on from there: {typed}", err=True)
        sys.exit(130 if error.by_user else 1)


def perform(study: Study, again: str, out: Path, *, workers: str | None, json: bool) -> None:
    """Run the study, write what came out, and say it; Ctrl-C keeps what is finished.

    `again` is the command that makes the same study.
    """
    from forebay.show.output import print_json, print_table, progress
    from forebay.show.workers import hired
    from forebay.studies.io_resources.experiment import run
    from forebay.studies.io_resources.publish import publish

    with to_be_continued():
        with (
            hired(workers) as crew,
            progress(f"{study.name}: {plural(len(study.keys()), 'set')}", len(study.keys())) as told,
        ):
            results = run(study, out / ".pieces", workers=crew, progress=told)
        with progress(f"{study.name}: figures and report", math.inf):
            document = publish(results, study.curves, again, out)
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
    lines: dict[tuple[object, ...], dict[object, object]] = {}
    for row in results.rows():
        lines.setdefault(tuple(row[k] for k in ("allocate", "place", "curves")), {})[row["load_low"]] = row[metric]
    heads = ["allocate", "place", "sees", *(f"{b.middle:g}" for b in results.bins)]
    return heads, [[*p, *(values.get(b.low, math.nan) for b in results.bins)] for p, values in lines.items()]


app.command("burst-buffer", epilog=burst_buffer.EXAMPLE)(burst_buffer.burst_buffer)
app.command("striping", epilog=striping.EXAMPLE)(striping.striping)
app.command("request-windows", epilog=request_windows.EXAMPLE)(request_windows.request_windows)
app.command("exascale", epilog=exascale.EXAMPLE)(exascale.exascale)


def _curves(name: str, file: Path | None, seed: int) -> Curves:
    import numpy as np

    from forebay.history.curves import read_curves
    from forebay.profile.synthetic import PAPER_COUNTS, Kind, synthetic_curves

    if file is not None:
        return read_curves(file)
    kind: Kind = "osts" if name == "osts" else "io-nodes"
    return synthetic_curves(kind, PAPER_COUNTS[kind], np.random.default_rng(seed))


def _again(study: Study, curves: Path | None, loads: str) -> str:
    """The command that makes the same study; how many workers did it, and where it went, don't matter."""
    options = {
        "curves": None if curves is None else curves.name,
        "sets": study.sets,
        "loads": loads,
        "allocate": ",".join(study.allocators),
        "place": ",".join(study.placers),
        "seed": study.seed,
        "applications": study.applications,
        "targets": study.system.targets,
        "compute-nodes": f"{study.system.compute_nodes:g}",
        "horizon": f"{study.horizon:g}",
    }
    words = [part for key, value in options.items() if value is not None for part in (f"--{key}", str(value))]
    return shlex.join(["forebay", "study", study.name, *words])
