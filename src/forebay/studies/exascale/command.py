"""`forebay study exascale`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.show.options import Seed
from forebay.studies.command import StudyCommand

if TYPE_CHECKING:
    from forebay.studies.exascale.experiment import ExascaleStudy

_QUICK_DAYS, _QUICK_MONTHS = 1.0, 2


def build(
    machine: Annotated[Path | None, typer.Option(help="File of the machine [default: Frontier and Orion].")] = None,
    workload: Annotated[Path | None, typer.Option(help="File of the workload [default: the example's].")] = None,
    months: Annotated[int, typer.Option(help="Months to draw, each with different jobs.", min=1)] = 5,
    days: Annotated[float | None, typer.Option(help="Days of a month [default: the workload's].", min=0.1)] = None,
    sensitivity: Annotated[bool, typer.Option(help="Also vary the assumptions.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Two months of one day each, in seconds.")] = False,
    seed: Seed = 0,
) -> ExascaleStudy:
    """Node-hours that a whole centre would save in a month.

    Compares all four decisions with what the centre does today.
    """
    from forebay.simulate.centre.machine import read_centre
    from forebay.simulate.centre.workload import read_workload
    from forebay.studies.exascale.experiment import ExascaleStudy

    if quick:
        days, months, sensitivity = _QUICK_DAYS, _QUICK_MONTHS, False
    jobs = read_workload(workload or _example("workload.toml"))
    if days is not None:
        jobs = jobs.model_copy(update={"month": jobs.month.model_copy(update={"days": days})})
    return ExascaleStudy(
        centre=read_centre(machine or _example("machine.toml")),
        workload=jobs,
        seeds=months,
        seed=seed,
        sensitivity=sensitivity,
    )


def _example(name: str) -> Path:
    import forebay.show

    return Path(forebay.show.__file__).parent / "examples" / "exascale" / name


EXASCALE = StudyCommand(name="exascale", build=build, example="forebay study exascale --quick")
