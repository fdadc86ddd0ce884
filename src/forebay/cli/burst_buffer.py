"""`forebay study burst-buffer`."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput
from forebay.show.options import Json, Seed, Workers

if TYPE_CHECKING:
    from forebay.studies.burst_buffer.experiment import StorageStudy

_POLICIES = "random,round-robin,worst-fit,best-bandwidth,forebay,optimal"
EXAMPLE = "Example: forebay study burst-buffer --requests IOJobs.yml.gz"


def burst_buffer(
    requests: Annotated[
        list[str] | None, typer.Option(help="theta-2020, or a trace: .yml, .csv (twice), .swf, also .gz. [theta-2020]")
    ] = None,
    grid: Annotated[Path | None, typer.Option(help="Platforms, policies and rules from a TOML file. [Table 3]")] = None,
    policy: Annotated[
        str | None, typer.Option(help=f"Storage policies by commas; 'optimal' is the bound. [{_POLICIES}]")
    ] = None,
    rules: Annotated[
        str | None, typer.Option("--as", help="Rules: 'correct', 'storalloc' to the letter, or 'both'. [both]")
    ] = None,
    feedback: Annotated[
        bool, typer.Option(help="Jobs take longer where they share bandwidth (rules: correct).")
    ] = False,
    swf_volume: Annotated[str | None, typer.Option(help="For .swf: 'memory', or a size per processor.")] = None,
    seed: Seed = 0,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out. [study-burst-buffer]")] = None,
    json: Json = False,
) -> None:
    """Which disks hold each job's data: policies and platforms.

    Every policy on every platform (Monniot et al. 2023, section 5).
    """
    from forebay.cli.simulate.storage import from_here
    from forebay.show.options import policy_list
    from forebay.simulate.storage.rules import MODES, OPTIMAL, Feedback
    from forebay.simulate.storage.scenario import find_requests
    from forebay.studies.burst_buffer.experiment import StorageStudy, paper_grid, read_grid

    if grid is not None and (policy or rules):
        raise BadInput("--policy" if policy else "--as", "goes without --grid, which says that itself")
    policy, rules = policy or _POLICIES, rules or "both"
    if rules not in (*MODES, "both"):
        raise BadInput("--as", f"must be correct, storalloc or both, not {rules!r}")
    modes = [mode for mode in reversed(MODES) if rules in (mode, "both")]
    names = policy_list("storage", policy, also=(OPTIMAL,))
    asked = [from_here(name) for name in requests or ["theta-2020"]]
    study = StorageStudy(
        requests=find_requests(asked, Path(), "--requests", seed=seed, swf_volume=swf_volume),
        blocks=paper_grid(names, modes) if grid is None else read_grid(grid),
        feedback=Feedback() if feedback else None,
        seed=seed,
    )
    options = {
        "requests": None,
        "grid": grid and grid.name,
        "policy": None if grid else policy,
        "as": None if grid else rules,
        "swf-volume": swf_volume,
        "seed": seed,
    }
    words = [part for name in asked for part in ("--requests", Path(name).name)]
    words += [part for key, value in options.items() if value is not None for part in (f"--{key}", str(value))]
    again = shlex.join(["forebay", "study", "burst-buffer", *words, *["--feedback"] * feedback])
    perform(study, again, out or Path("study-burst-buffer"), workers=workers, json=json)


def perform(study: StorageStudy, again: str, out: Path, *, workers: str | None, json: bool) -> None:
    """Run the study, write what came out, and say it; Ctrl-C keeps what is finished."""
    from forebay.cli.study import to_be_continued
    from forebay.show.output import print_json, print_table, progress
    from forebay.show.workers import hired
    from forebay.studies.burst_buffer.experiment import run
    from forebay.studies.burst_buffer.publish import publish_storage

    pieces = len(study.pieces())
    with to_be_continued():
        with hired(workers) as crew, progress(f"burst-buffer: {pieces} platforms and rules", pieces) as told:
            results = run(study, out / ".pieces", workers=crew, progress=told)
        with progress("burst-buffer: figures and report", math.inf):
            document: dict[str, Any] = publish_storage(results, again, out)
    if json:
        print_json(document)
        return
    for mode in results.modes():
        print_table(f"Bytes served, in %, rules: {mode}", *_by_platform(results.select(mode=mode, tries=0)))
    for title, key in (("", "conclusions"), ("Between StorAlloc's own rules and the correct ones:", "changes")):
        if document[key]:
            typer.echo(f"\n{title}".rstrip())
        for sentence in document[key]:
            typer.echo(f"- {sentence}")
    typer.echo(f"\nReport: {out / 'report.html'}   tables: runs.csv, disks.csv (also .parquet)   figures: {out}/*.png")


def _by_platform(runs: Any) -> tuple[list[str], list[list[object]]]:
    """A line for each platform and threshold, a column for each policy."""
    policies = list(dict.fromkeys(runs["policy"].tolist()))
    lines: dict[tuple[Any, ...], dict[str, float]] = {}
    for run in runs:
        key = (run["platform"].item(), int(run["split"]))
        lines.setdefault(key, {})[run["policy"].item()] = 100 * float(run["allocated_share"])
    rows: list[list[object]] = [
        [platform, f"{split / 1e9:g} GB" if split else "no"]
        + [f"{shares[p]:.2f}" if p in shares else "-" for p in policies]
        for (platform, split), shares in lines.items()
    ]
    return ["platform", "split", *policies], rows
