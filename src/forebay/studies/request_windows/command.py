"""`forebay study request-windows`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.model.process_mapping import check_mapping
from forebay.show.options import Seed, policy_list
from forebay.studies.command import StudyCommand

if TYPE_CHECKING:
    from forebay.decide.policy import Kind
    from forebay.studies.request_windows.experiment import RequestWindowsStudy

_ALWAYS = ("fifo", "twins")


def build(
    repetitions: Annotated[int, typer.Option(help="Runs of each experiment under fifo and each window.", min=1)] = 3,
    tuner: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated tuners, or 'all' [default: epsilon-greedy with several epsilon, and all others]."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Comma-separated schedulers; fifo and twins always run [default: all]."),
    ] = None,
    mapping: Annotated[str, typer.Option(help="Of processes to I/O nodes: block or round-robin.")] = "block",
    total: Annotated[str, typer.Option(help="How much each experiment reads or writes.")] = "4 GiB",
    seed: Seed = 0,
) -> RequestWindowsStudy:
    """Windows of twins in 144 situations, and their tuners.

    Follows Bez et al. 2019, including the detection of access patterns. The model of the data servers is fitted to the
    paper's figures, so the results do not validate the paper.
    """
    from forebay.studies.request_windows.experiment import default_tuners, other_schedulers, paper_study

    check_mapping(mapping)
    study = replace(
        paper_study(repetitions=repetitions, seed=seed, total=_parse_total(total), mapping=mapping),
        tuners=_names("tune", "--tuner", tuner, default_tuners()),
        schedulers=[n for n in _names("order", "--scheduler", scheduler, other_schedulers()) if n not in _ALWAYS],
    )
    study.check()
    return study


def _names(kind: Kind, option: str, text: str | None, default: tuple[str, ...]) -> list[str]:
    if text is None:
        return list(default)
    if not text.strip(", "):
        raise BadInput(option, "must name at least one policy, or 'all'")
    return policy_list(kind, text)


def _parse_total(text: str) -> int:
    from forebay.model.units import parse_size
    from forebay.simulate.requests.workload import paper_experiments

    try:
        size = parse_size(text)
        if not 0 < size < 1 << 50:
            raise ValueError(f"must be more than 0 and less than 1 PiB, not {text!r}")
        paper_experiments(int(size))
    except (BadInput, ValueError) as error:
        raise BadInput("--total", error.reason if isinstance(error, BadInput) else str(error)) from None
    return int(size)


REQUEST_WINDOWS = StudyCommand(
    name="request-windows",
    build=build,
    example="forebay study request-windows --repetitions 1 --tuner epsilon-greedy:epsilon=0.1,forebay --total 1GiB",
)
