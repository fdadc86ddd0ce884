"""`forebay study striping`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from forebay.show.options import Seed, policy_list
from forebay.studies.command import StudyCommand

if TYPE_CHECKING:
    from forebay.studies.striping.experiment import StripingStudy

_POLICIES = ("default", "tapp-io", "dca-io", "forebay")


def build(
    policy: Annotated[
        str | None, typer.Option(help=f"Comma-separated striping policies, or 'all'. [{','.join(_POLICIES)}]")
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Repetitions of each application's first ten runs.", min=1)] = 20,
    noise: Annotated[bool, typer.Option(help="Also simulate 5, 20 and 40 % noise.")] = True,
    noise_seeds: Annotated[int, typer.Option(help="Random seeds for each case at each level of noise.", min=1)] = 20,
    seed: Seed = 0,
) -> StripingStudy:
    """Stripe count, stripe size and first target, run by run.

    Runs every policy (Kim et al. 2022, section 5).
    """
    from forebay.decide.registry import policies
    from forebay.studies.striping.experiment import NUMBERS, StripingStudy, noise_cases, paper_panels

    return StripingStudy(
        panels=paper_panels(),
        cases=noise_cases() if noise else {},
        assumed=NUMBERS,
        policies=[p for p in _POLICIES if p in policies("stripe")] if policy is None else policy_list("stripe", policy),
        repetitions=repetitions,
        seeds=noise_seeds,
        seed=seed,
    )


STRIPING = StudyCommand(
    name="striping", build=build, example="forebay study striping --policy default,dca-io --no-noise"
)
