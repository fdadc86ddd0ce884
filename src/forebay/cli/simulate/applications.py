"""`forebay simulate`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput
from forebay.model.units import format_duration, parse_duration
from forebay.show.options import DEFAULT_ALLOCATE, DEFAULT_PLACE, Allocate, Json, Place, Plot, Seed, policy_list
from forebay.show.output import print_json, print_table, progress, ranges

if TYPE_CHECKING:
    from forebay.simulate.run import Measures
    from forebay.simulate.scenario import Scenario

_PER_APPLICATION = ("phases_done", "io_seconds", "slowdown", "rho_io", "rho_con")
commands = typer.Typer()


@commands.command(epilog="Example: forebay simulate examples/machine.toml --allocate all")
def simulate(
    file: Annotated[
        Path, typer.Argument(help="Scenario in TOML: [system] and [[application]] tables, or a [storage] table.")
    ],
    allocate: Allocate = None,
    place: Place = None,
    horizon: Annotated[str | None, typer.Option(help="How long, instead of the file's; like 20000 or '6 h'.")] = None,
    until_first_finish: Annotated[
        bool, typer.Option("--until-first-finish", help="Stop when the first application has done all its phases.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="Storage policy, or several by commas, or 'all', or 'optimal'.")
    ] = None,
    platform: Annotated[str | None, typer.Option(help="Platform by name (32TB/nNnD), or a .toml or .yml file.")] = None,
    requests: Annotated[
        list[str] | None, typer.Option(help="theta-2020, or a trace: .yml, .csv (twice), .swf, also .gz.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split requests above this size ('200 GB'), or 'no'.")] = None,
    requeue: Annotated[
        bool | None, typer.Option(help="Let refused requests come again, 5 min apart, for an hour.")
    ] = None,
    rules: Annotated[str | None, typer.Option("--as", help="Rules: 'correct', or 'storalloc' to the letter.")] = None,
    feedback: Annotated[bool | None, typer.Option(help="Jobs take longer where they share bandwidth.")] = None,
    swf_volume: Annotated[str | None, typer.Option(help="For .swf: 'memory', or a size per processor.")] = None,
    decisions: Annotated[Path | None, typer.Option(help="Write every part's fate into this CSV file.")] = None,
    seed: Seed = 0,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Simulate policies on applications' I/O, or on storage requests.

    With one policy of each kind, everything in detail; with several, one line for each
    combination. Applications with fixed `targets` keep them. What the command line doesn't say,
    the file does: [policy] and [measure], or [storage].
    """
    from forebay.cli.simulate.storage import from_here, simulate_storage
    from forebay.history.toml import load_toml

    applications = {
        "allocate": allocate,
        "place": place,
        "horizon": horizon,
        "until-first-finish": until_first_finish or None,
    }
    storage = {
        "policy": policy,
        "platform": platform and from_here(platform),
        "requests": [from_here(name) for name in requests] if requests else None,
        "split": False if split == "no" else split,
        "requeue": requeue,
        "as": rules,
        "feedback": feedback,
        "swf_volume": swf_volume,
    }
    given = {key: value for key, value in storage.items() if value is not None}
    if "storage" in load_toml(file):
        _refuse("is for scenarios with applications; this one has a [storage] table", applications)
        simulate_storage(file, given, seed=seed, decisions=decisions, plot=plot, json=json)
    else:
        _refuse("is for scenarios with a [storage] table", given | {"decisions": decisions})
        simulate_applications(file, allocate, place, horizon, until_first_finish, seed, plot, json)


def _refuse(because: str, options: dict[str, Any]) -> None:

    for option, value in options.items():
        if value is not None:
            raise BadInput(f"--{option.replace('_', '-')}", because)


def simulate_applications(
    file: Path,
    allocate: str | None,
    place: str | None,
    horizon: str | None,
    until_first_finish: bool,
    seed: int,
    plot: Path | None,
    json: bool,
) -> None:
    from dataclasses import replace

    from forebay.simulate.scenario import read_scenario

    scenario = read_scenario(file)
    if horizon is not None:
        try:
            seconds = parse_duration(horizon)
        except ValueError as error:
            raise BadInput("--horizon", str(error)) from None
        if not 0 < seconds < float("inf"):
            raise BadInput("--horizon", f"must be positive and finite, not {horizon}")
        scenario = replace(scenario, horizon=seconds)
    if until_first_finish:
        scenario = replace(scenario, stop_at_first_finish=True)
    _warn_of_nodes(scenario)
    pairs = _pairs(scenario, allocate, place)
    runs = [_run(scenario, a, p, seed) for a, p in pairs]
    if plot is not None:
        _plot(scenario, min(runs, key=lambda run: _known_first(run[1].mean_io_slowdown)), plot)
    _print(scenario, pairs, runs, json)


def _pairs(scenario: Scenario, allocate: str | None, place: str | None) -> list[tuple[str, str]]:

    if scenario.all_fixed and allocate is None and place is None:
        return [("fixed", "fixed")]
    allocators = policy_list("allocate", allocate or scenario.allocate or DEFAULT_ALLOCATE)
    placers = policy_list("place", place or scenario.place or DEFAULT_PLACE)
    return [(a, p) for a in allocators for p in placers]


def _run(scenario: Scenario, allocate: str, place: str, seed: int) -> tuple[Any, Measures]:
    import numpy as np

    from forebay.decide.registry import find
    from forebay.simulate.run import simulate

    horizon = scenario.needed_horizon(not scenario.stop_at_first_finish)
    with progress(f"{allocate} + {place}", horizon) as told:
        if allocate == "fixed":
            placement: Any = scenario.fixed
        else:
            rng = np.random.default_rng(seed)
            placement = scenario.schedule(find("allocate", allocate), find("place", place), rng)
        return placement, simulate(
            scenario.system,
            scenario.applications,
            placement,
            horizon=horizon,
            stop_at_first_finish=scenario.stop_at_first_finish,
            progress=told,
        )


def _print(scenario: Scenario, pairs: list[tuple[str, str]], runs: list[tuple[Any, Measures]], json: bool) -> None:

    documents = [_document(scenario, pair, *run) for pair, run in zip(pairs, runs, strict=True)]
    if json:
        print_json(documents[0] if len(documents) == 1 else {"runs": documents})
        return
    columns = ("mean_io_slowdown", "max_io_slowdown", "machine_idle", "io_load", "io_spread")
    heads = ("mean I/O slowdown", "max", "machine idle", "I/O-load", "I/O-spread")
    if len(runs) == 1:
        print_table(
            f"{' + '.join(pairs[0])} over {format_duration(runs[0][1].horizon)}",
            ("application", "n", "targets", "phases done", "I/O s", "slowdown", "by allocation", "by congestion"),
            [
                (a["name"], a["n"], ranges(a["targets"]), *(a[k] for k in _PER_APPLICATION))
                for a in documents[0]["applications"]
            ],
        )
        print_table("", heads, [[documents[0][c] for c in columns]])
    else:
        best = sorted(zip(pairs, documents, strict=True), key=lambda pd: _known_first(pd[1]["mean_io_slowdown"]))
        print_table(
            f"{len(runs)} combinations, the least slowdown first",
            ("allocate", "place", *heads),
            [(*pair, *(document[c] for c in columns)) for pair, document in best],
        )
    io = {a.name for a in scenario.applications if a.volume > 0}
    stuck = {a["name"] for d in documents for a in d["applications"] if math.isnan(a["slowdown"])} & io
    if stuck:
        some = ", ".join(sorted(stuck)[:5]) + (" and others" if len(stuck) > 5 else "")
        typer.echo(f"no I/O phase completed, left out of the means: {some}; a longer horizon may help", err=True)


def _known_first(value: float) -> tuple[bool, float]:
    return math.isnan(value), value


def _warn_of_nodes(scenario: Scenario) -> None:
    held = sum(a.compute_nodes for a in scenario.applications)
    if held > scenario.system.compute_nodes * (1 + 1e-9):
        typer.echo(
            f"forebay: warning: the applications hold {held:g} compute nodes of {scenario.system.compute_nodes:g}; "
            "the machine's idle time counts them all",
            err=True,
        )


def _document(scenario: Scenario, pair: tuple[str, str], placement: Any, measures: Measures) -> dict[str, Any]:
    columns = {name: getattr(measures, name).tolist() for name in _PER_APPLICATION}
    return {
        "allocate": pair[0],
        "place": pair[1],
        "horizon": measures.horizon,
        "events": measures.events,
        "applications": [
            {"name": a.name, "n": len(own), "targets": list(own)}
            | {name: columns[name][i] for name in _PER_APPLICATION}
            for i, (a, own) in enumerate(zip(scenario.applications, placement, strict=True))
        ],
        "mean_io_slowdown": measures.mean_io_slowdown,
        "max_io_slowdown": measures.max_io_slowdown,
        "io_load": measures.io_load,
        "io_spread": measures.io_spread,
        "machine_idle": measures.machine_idle,
        "occupancy": measures.occupancy.tolist(),
    }


def _plot(scenario: Scenario, run: tuple[Any, Measures], out: Path) -> None:
    from forebay.show.figures.simulation import draw_simulation

    placement, measures = run
    names = [a.name for a in scenario.applications]
    draw_simulation(names, placement, measures.slowdown, measures.rho_io, measures.occupancy, out)
    typer.echo(f"drawn: {out}", err=True)
