"""`forebay size`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.show.options import Json, Plot, Seed, Workers, parse_quantity, policy_list

if TYPE_CHECKING:
    from forebay.simulate.storage.rules import Rules
    from forebay.studies.sizing.search import Sizing

commands = typer.Typer()


@commands.command(epilog="Example: forebay size --requests theta-2020 --target 99% --plot size.png")
def size(
    requests: Annotated[
        list[str] | None,
        typer.Option(help="theta-2020, history[:DB], or a trace: .yml, .csv (twice), .swf, also .gz. [theta-2020]"),
    ] = None,
    target: Annotated[str, typer.Option(help="Share of all bytes to serve, like 99%.")] = "99%",
    platform: Annotated[
        str, typer.Option(help="Platform whose disks are made larger or smaller: a name, or a .toml or .yml file.")
    ] = "32TB/nNnD",
    policy: Annotated[str, typer.Option(help="Comma-separated storage policies, or 'all'.")] = "forebay",
    split: Annotated[str, typer.Option(help="Split requests above this size, or 'no'.")] = "200 GB",
    requeue: Annotated[bool, typer.Option(help="Retry refused requests every 5 min for an hour.")] = False,
    rules: Annotated[str, typer.Option("--as", help="Rules: 'correct', or 'storalloc' (StorAlloc's own).")] = "correct",
    step: Annotated[str, typer.Option(help="Step between the capacities tried.")] = "1 TB",
    swf_volume: Annotated[str | None, typer.Option(help="For .swf: 'memory', or a size per processor.")] = None,
    seed: Seed = 0,
    workers: Workers = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Find the smallest burst buffer that serves the target."""
    from forebay.show.output import print_json, progress
    from forebay.show.workers import hire_workers
    from forebay.simulate.storage.rules import MODES, TRIES, Rules
    from forebay.simulate.storage.scenario import find_platform, find_requests
    from forebay.studies.sizing.search import Search

    share, steps = _parse_share(target), _parse_bytes("--step", step)
    if rules not in MODES:
        raise BadInput("--as", f"must be {' or '.join(MODES)}, not {rules!r}")
    names = policy_list("storage", policy)
    family = find_platform(platform, Path(), "--platform")
    trace = find_requests(requests or ["theta-2020"], Path(), "--requests", seed=seed, swf_volume=swf_volume)
    threshold = 0 if split == "no" else _parse_bytes("--split", split)
    by = Rules(mode=rules, split=threshold, tries=TRIES if requeue else 0)
    label, total = ("policies", len(names)) if len(names) > 1 else (f"{names[0]}: sizes tried", math.inf)
    with hire_workers(workers) as crew, progress(label, total) as advance:
        search = Search(requests=trace, family=family, rules=by, target=share, step=steps, seed=seed)
        sizings = search.find_smallest_of_each(names, crew, advance)
    if plot is not None:
        from forebay.studies.sizing.figure import draw_sizes

        draw_sizes(sizings, plot)
        typer.echo(f"drawn: {plot}", err=True)
    if json:
        sizes = [
            {
                "family": sizing.family,
                "policy": sizing.policy,
                "target": sizing.target,
                "capacity": sizing.answer and sizing.answer.capacity,
                "share": sizing.answer and sizing.answer.share,
                "points": [point._asdict() for point in sizing.points],
            }
            for sizing in sizings
        ]
        print_json({"requests": trace.origin, "mode": rules, "split_bytes": by.split or None, "sizes": sizes})
    else:
        _print(trace.origin, sizings, by)


def _parse_share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise BadInput("--target", f"must be a share like 99% or 0.99, not {text!r}")
    return share


def _parse_bytes(option: str, text: str) -> int:
    from forebay.model.system import MOST_BYTES
    from forebay.model.units import parse_size, require_unit

    def parse(text: str) -> float:
        return parse_size(require_unit(text))

    rule = f"must be between 1 byte and {MOST_BYTES:.0e}"
    return int(parse_quantity(option, text, parse, lambda size: 1 <= size <= MOST_BYTES, rule))


def _print(origin: str, sizings: list[Sizing], rules: Rules) -> None:
    from forebay.model.units import format_size
    from forebay.show.output import print_table

    split = f"split above {format_size(rules.split)}" if rules.split else "not split"
    typer.echo(f"{origin}; {split}{', requeued' if rules.tries else ''}; rules: {rules.mode}")
    if len(sizings) == 1:
        rows = [(format_size(p.capacity), f"{100 * p.share:.2f}%") for p in sizings[0].points]
        print_table("", ("capacity", "bytes served"), rows)
    for sizing in sizings:
        best = max(sizing.points, key=lambda p: p.share)
        typer.echo(
            f"{format_size(sizing.answer.capacity)} like {sizing.family} with {sizing.policy} "
            f"serves {100 * sizing.answer.share:.2f} % of the bytes (target {100 * sizing.target:g} %)."
            if sizing.answer
            else f"No size of {sizing.family} serves {100 * sizing.target:g} % with {sizing.policy}: "
            f"{format_size(best.capacity)} serves {100 * best.share:.2f} %."
            + ("" if rules.split else " Splitting requests (--split '200 GB') may help.")
        )
