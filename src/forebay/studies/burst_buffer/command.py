"""`forebay study burst-buffer`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.show.options import Seed, policy_list
from forebay.studies.command import StudyCommand

if TYPE_CHECKING:
    from forebay.studies.burst_buffer.experiment import BurstBufferStudy

_POLICIES = "random,round-robin,worst-fit,best-bandwidth,forebay,optimal"


def build(
    requests: Annotated[
        list[str] | None, typer.Option(help="theta-2020, or a trace: .yml, .csv (twice), .swf, also .gz. [theta-2020]")
    ] = None,
    grid: Annotated[Path | None, typer.Option(help="TOML file with platforms, policies and rules. [Table 3]")] = None,
    policy: Annotated[
        str | None, typer.Option(help=f"Comma-separated storage policies; 'optimal' is the bound. [{_POLICIES}]")
    ] = None,
    rules: Annotated[
        str | None, typer.Option("--as", help="Rules: 'correct', 'storalloc' (StorAlloc's own) or 'both'. [both]")
    ] = None,
    feedback: Annotated[
        bool, typer.Option(help="Jobs take longer where they share bandwidth (rules: correct).")
    ] = False,
    swf_volume: Annotated[str | None, typer.Option(help="For .swf: 'memory', or a size per processor.")] = None,
    seed: Seed = 0,
) -> BurstBufferStudy:
    """Which disks hold each job's data: policies and platforms.

    Every policy on every platform (Monniot et al. 2023, section 5).
    """
    from forebay.simulate.storage.rules import MODES, OPTIMAL, Feedback
    from forebay.simulate.storage.scenario import find_requests
    from forebay.studies.burst_buffer.experiment import BurstBufferStudy, paper_grid, read_grid

    if grid is not None and (policy or rules):
        raise BadInput("--policy" if policy else "--as", "conflicts with --grid, which sets it too; remove one of them")
    rules = rules or "both"
    if rules not in (*MODES, "both"):
        raise BadInput("--as", f"must be correct, storalloc or both, not {rules!r}")
    modes = [mode for mode in reversed(MODES) if rules in (mode, "both")]
    policies = policy_list("storage", policy or _POLICIES, also=(OPTIMAL,))
    trace = requests or ["theta-2020"]
    return BurstBufferStudy(
        requests=find_requests(trace, Path(), "--requests", seed=seed, swf_volume=swf_volume),
        blocks=paper_grid(policies, modes) if grid is None else read_grid(grid),
        feedback=Feedback() if feedback else None,
        seed=seed,
    )


BURST_BUFFER = StudyCommand(
    name="burst-buffer", build=build, example="forebay study burst-buffer --requests IOJobs.yml.gz"
)
