"""`forebay study io-nodes`, `osts` and `robustness`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.show.options import Seed, load_range, policy_list
from forebay.studies.command import StudyCommand

if TYPE_CHECKING:
    from forebay.history.curves import Curves
    from forebay.studies.io_resources.experiment import IoResourcesStudy


def _builder(name: str, allocate: str | None = None, place: str | None = None) -> Callable[..., IoResourcesStudy]:
    """Return the builder of the study `name`, with these policies as defaults."""
    default_allocate, default_place = allocate, place

    def build(
        curves: Annotated[
            Path | None,
            typer.Option(help="Measured curves: FORGE results, or CSV application,n,bandwidth [default: synthetic]."),
        ] = None,
        sets: Annotated[int, typer.Option(help="Sets of applications for each load.", min=1)] = 100,
        loads: Annotated[
            str, typer.Option(help="LOW:HIGH:STEP of I/O-load(pi_sys); STEP is the width of a bin.")
        ] = "0.2:1.2:0.1",
        allocate: Annotated[
            str | None, typer.Option(help="Comma-separated allocation policies; without one, all but optimal.")
        ] = default_allocate,
        place: Annotated[
            str | None, typer.Option(help="Comma-separated placement policies; without one, all.")
        ] = default_place,
        applications: Annotated[int, typer.Option(help="Applications in each set.", min=1)] = 60,
        targets: Annotated[int, typer.Option(help="I/O nodes or OSTs.", min=1)] = 20,
        compute_nodes: Annotated[float, typer.Option(help="Compute nodes.", min=1)] = 480,
        horizon: Annotated[float, typer.Option(help="Seconds to measure over.", min=1)] = 20_000,
        seed: Seed = 0,
    ) -> IoResourcesStudy:
        from forebay.model.system import System
        from forebay.studies.io_resources.experiment import IoResourcesStudy
        from forebay.studies.io_resources.results import CLASS, TRUE

        for option, value in (("--compute-nodes", compute_nodes), ("--horizon", horizon)):
            if not math.isfinite(value):
                raise BadInput(option, f"must be finite, not {value:g}")
        middles, step = load_range(loads)
        measured = _read_curves(name, curves, seed)
        return IoResourcesStudy(
            name=name,
            curves=measured.by_name,
            origin=measured.origin,
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

    return build


def _read_curves(name: str, file: Path | None, seed: int) -> Curves:
    import numpy as np

    from forebay.history.curves import read_curves
    from forebay.profile.synthetic_curves import PAPER_COUNTS, Kind, synthetic_curves

    if file is not None:
        return read_curves(file)
    kind: Kind = "osts" if name == "osts" else "io-nodes"
    return synthetic_curves(kind, PAPER_COUNTS[kind], np.random.default_rng(seed))


IO_NODES = StudyCommand(
    name="io-nodes",
    help="How many and which I/O nodes (Bandet et al., VI-A). Runs every policy on many random sets of applications.",
    build=_builder("io-nodes"),
    example="forebay study io-nodes --curves marenostrum4.csv --sets 20 --loads 0.2:1.2:0.2",
)
OSTS = StudyCommand(
    name="osts",
    help="How many and which OSTs (Bandet et al., VI-C). Like io-nodes, with curves of object storage targets.",
    build=_builder("osts"),
    example="forebay study osts --sets 20 --loads 0.2:1.2:0.2",
)
ROBUSTNESS = StudyCommand(
    name="robustness",
    help="Policies that know only the class of each curve (VI-B).",
    build=_builder(
        "robustness", allocate="tcpu,best-bandwidth,forebay", place="greedy-non-clairvoyant,greedy-clairvoyant"
    ),
    example="forebay study robustness --curves marenostrum4.csv --sets 20",
)
