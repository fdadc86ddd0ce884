"""`forebay simulate`: simulates applications that share I/O targets, or requests for storage space."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput
from forebay.model.units import format_duration, format_size, parse_duration
from forebay.show.options import (
    DEFAULT_ALLOCATE,
    DEFAULT_PLACE,
    Allocate,
    Json,
    Place,
    Plot,
    Seed,
    check_file,
    parse_quantity,
    policy_list,
)
from forebay.show.output import Document, draw, print_json, print_table, progress, ranges, whole_file

if TYPE_CHECKING:
    from forebay.simulate.applications.engine import Measures
    from forebay.simulate.applications.scenario import Scenario
    from forebay.simulate.storage.scenario import StorageScenario

commands = typer.Typer()
_DEFAULT_STORAGE = "forebay"
_PER_APPLICATION = ("phases_done", "io_seconds", "slowdown", "rho_io", "rho_con")
_OVERALL = {
    "mean_io_slowdown": "mean I/O slowdown",
    "max_io_slowdown": "max",
    "machine_idle": "machine idle",
    "io_load": "I/O-load",
    "io_spread": "I/O-spread",
}
_STORAGE_COLUMNS = {
    "allocated_share": "bytes served",
    "allocated": "served",
    "refused": "refused",
    "failed": "failed",
    "delayed": "delayed",
    "parts": "parts",
    "max_concurrent": "most at once",
    "disk_use": "fullest disk",
    "disk_crowd": "most on a disk",
    "mean_slowdown": "mean slowdown",
}
_MOST_DISKS = 40
"""Disks that are listed."""


@commands.command(epilog="Example: forebay simulate examples/machine.toml --allocate all")
def simulate(
    file: Annotated[Path, typer.Argument(help="TOML file with [system] and [[application]] tables, or [storage].")],
    allocate: Allocate = None,
    place: Place = None,
    horizon: Annotated[str | None, typer.Option(help="Simulated time, such as 20000 or '6 h'.")] = None,
    until_first_finish: Annotated[
        bool, typer.Option("--until-first-finish", help="Stop when the first application has finished.")
    ] = False,
    policy: Annotated[str | None, typer.Option(help="Comma-separated policies, or 'all', or 'optimal'.")] = None,
    platform: Annotated[str | None, typer.Option(help="Platform by name (32TB/nNnD), or a .toml or .yml file.")] = None,
    requests: Annotated[
        list[str] | None, typer.Option(help="theta-2020, or a trace: .yml, .csv (twice), .swf, also .gz.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split requests above this size ('200 GB'), or 'no'.")] = None,
    requeue: Annotated[bool | None, typer.Option(help="Retry refused requests every 5 min for an hour.")] = None,
    rules: Annotated[str | None, typer.Option("--as", help="Rules: 'correct', or 'storalloc' to the letter.")] = None,
    feedback: Annotated[bool | None, typer.Option(help="Jobs take longer where they share bandwidth.")] = None,
    swf_volume: Annotated[str | None, typer.Option(help="For .swf: 'memory', or a size per processor.")] = None,
    decisions: Annotated[Path | None, typer.Option(help="Write the outcome of every part to this CSV file.")] = None,
    seed: Seed = 0,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Simulate policies on applications' I/O, or on storage requests.

    With one policy of each kind, prints all details; with several, one line per combination. Applications with fixed
    `targets` keep them. The file has the defaults of the options: [policy] and [measure], or [storage].
    """
    from forebay.history.toml import load_toml

    first = until_first_finish or None
    applications = {"allocate": allocate, "place": place, "horizon": horizon, "until_first_finish": first}
    storage = {
        "policy": policy,
        "platform": platform and _from_here(platform),
        "requests": [_from_here(name) for name in requests] if requests else None,
        "split": False if split == "no" else split,
        "requeue": requeue,
        "as": rules,
        "feedback": feedback,
        "swf_volume": swf_volume,
    }
    changes = {key: value for key, value in storage.items() if value is not None}
    if "storage" in load_toml(file):
        _refuse("is for scenarios with applications; this one has a [storage] table", applications)
        _simulate_storage(file, changes, seed, decisions, plot, json)
    else:
        _refuse("is for scenarios with a [storage] table", changes | {"decisions": decisions})
        _simulate_applications(file, applications, seed, plot, json)


def _from_here(name: str) -> str:
    """Make a file's path absolute, so that a scenario in another folder finds it; leave other names unchanged."""
    return str(Path(name).absolute()) if Path(name).suffix and not name.startswith("history:") else name


def _refuse(because: str, options: Document) -> None:
    for option, value in options.items():
        if value is not None:
            raise BadInput(f"--{option.replace('_', '-')}", because)


def _simulate_applications(file: Path, options: Document, seed: int, plot: Path | None, json: bool) -> None:
    """Simulate each pair of policies; `options` are the command line's options for applications."""
    from dataclasses import replace

    import numpy as np

    from forebay.decide.registry import find
    from forebay.simulate.applications.engine import simulate
    from forebay.simulate.applications.scenario import read_scenario

    scenario, allocate, place = read_scenario(file), options["allocate"], options["place"]
    if options["horizon"] is not None:
        rule = (lambda seconds: 0 < seconds < math.inf), "must be positive and finite"
        scenario = replace(scenario, horizon=parse_quantity("--horizon", options["horizon"], parse_duration, *rule))
    first = options["until_first_finish"] or scenario.stop_at_first_finish
    held, nodes = sum(a.compute_nodes for a in scenario.applications), scenario.system.compute_nodes
    if held > nodes * (1 + 1e-9):
        warning = f"the applications use {held:g} of {nodes:g} compute nodes; the machine's idle time counts them all"
        typer.echo(f"forebay: warning: {warning}", err=True)
    if scenario.all_fixed and allocate is None and place is None:
        pairs = [("fixed", "fixed")]
    else:
        placers = policy_list("place", place or scenario.place or DEFAULT_PLACE)
        allocators = policy_list("allocate", allocate or scenario.allocate or DEFAULT_ALLOCATE)
        pairs = [(allocator, placer) for allocator in allocators for placer in placers]
    runs: list[tuple[Any, Measures]] = []
    for allocator, placer in pairs:
        seconds = scenario.needed_horizon(not first)
        with progress(f"{allocator} + {placer}", seconds) as report:
            placement: Any = scenario.fixed
            if allocator != "fixed":
                rng = np.random.default_rng(seed)
                placement = scenario.schedule(find("allocate", allocator), find("place", placer), rng)
            limits: Document = {"horizon": seconds, "stop_at_first_finish": first, "progress": report}
            runs.append((placement, simulate(scenario.system, scenario.applications, placement, **limits)))
    placement, best = min(runs, key=lambda run: _known_first(run[1].mean_io_slowdown))
    names = [application.name for application in scenario.applications]
    draw(plot, "simulation:draw_simulation", names, placement, best.slowdown, best.rho_io, best.occupancy)
    documents = [_document(scenario, pair, *run) for pair, run in zip(pairs, runs, strict=True)]
    if json:
        print_json(documents[0] if len(documents) == 1 else {"runs": documents})
        return
    _print_applications(documents)
    with_io = {a.name for a in scenario.applications if a.volume > 0}
    stuck = {a["name"] for run in documents for a in run["applications"] if math.isnan(a["slowdown"])} & with_io
    if stuck:
        listed = ", ".join(sorted(stuck)[:5]) + (" and others" if len(stuck) > 5 else "")
        typer.echo(f"no I/O phase completed, so not in the means: {listed}; a longer --horizon may help", err=True)


def _document(scenario: Scenario, pair: tuple[str, str], placement: Any, measures: Measures) -> Document:
    columns = {name: getattr(measures, name).tolist() for name in _PER_APPLICATION}
    overall = ("mean_io_slowdown", "max_io_slowdown", "io_load", "io_spread", "machine_idle")
    return {
        "allocate": pair[0],
        "place": pair[1],
        "horizon": measures.horizon,
        "events": measures.events,
        "applications": [
            {"name": application.name, "n": len(targets), "targets": list(targets)}
            | {name: columns[name][i] for name in _PER_APPLICATION}
            for i, (application, targets) in enumerate(zip(scenario.applications, placement, strict=True))
        ],
        **{name: getattr(measures, name) for name in overall},
        "occupancy": measures.occupancy.tolist(),
    }


def _print_applications(documents: list[Document]) -> None:
    if len(documents) == 1:
        run = documents[0]
        print_table(
            f"{run['allocate']} + {run['place']} over {format_duration(run['horizon'])}",
            ("application", "n", "targets", "phases done", "I/O s", "slowdown", "by allocation", "by congestion"),
            [
                (a["name"], a["n"], ranges(a["targets"]), *(a[key] for key in _PER_APPLICATION))
                for a in run["applications"]
            ],
        )
        print_table("", list(_OVERALL.values()), [[run[key] for key in _OVERALL]])
        return
    best = sorted(documents, key=lambda run: _known_first(run["mean_io_slowdown"]))
    rows = [[run[key] for key in ("allocate", "place", *_OVERALL)] for run in best]
    title = f"{len(documents)} combinations, the lowest slowdown first"
    print_table(title, ("allocate", "place", *_OVERALL.values()), rows)


def _known_first(value: float) -> tuple[bool, float]:
    return math.isnan(value), value


def _simulate_storage(
    file: Path, changes: Document, seed: int, decisions: Path | None, plot: Path | None, json: bool
) -> None:
    """Simulate each policy; `changes` are keys of [storage] that the command line replaces."""
    import csv

    from forebay.decide.registry import find
    from forebay.simulate.storage.outcome import DECISION, document
    from forebay.simulate.storage.outcome import decisions as decisions_of
    from forebay.simulate.storage.rules import OPTIMAL
    from forebay.simulate.storage.run import run_storage
    from forebay.simulate.storage.scenario import read_storage_scenario

    if decisions is not None:
        check_file("--decisions", decisions, b"request,part,")
    try:
        scenario = read_storage_scenario(file, changes, seed=seed)
    except BadInput as error:
        raise _name_option(error, file, changes) from None
    names = policy_list("storage", scenario.policy or _DEFAULT_STORAGE, also=(OPTIMAL,))
    for option, path in (("--decisions", decisions), ("--plot", plot)):
        if path is not None and (len(names) > 1 or OPTIMAL in names):
            raise BadInput(option, "requires exactly one policy, other than 'optimal'")
    runs = []
    for name in names:
        if name != OPTIMAL:
            with progress(name, len(scenario.requests)) as report:
                how: Document = {"feedback": scenario.feedback, "seed": seed, "progress": report}
                policy = find("storage", name)
                runs.append(run_storage(scenario.platform, scenario.requests, policy, scenario.rules, **how))
    documents = [document(run) | {"decisions_file": None} for run in runs]
    if OPTIMAL in names:
        documents.append(_bound_document(scenario))
    if decisions is not None:
        with whole_file(decisions) as rows:
            writer = csv.writer(rows, lineterminator="\n")
            writer.writerow(DECISION)
            writer.writerows(decisions_of(runs[0]))
        documents[0]["decisions_file"] = str(decisions)
    if plot is not None:
        draw(plot, "storage_run:draw_storage_run", runs[0])
    if json:
        print_json(documents[0] if len(documents) == 1 else {"runs": documents})
    else:
        _print_storage(scenario, documents)


def _name_option(error: BadInput, file: Path, changes: Document) -> BadInput:
    """The error, with the name of the option in place of the file's key that it replaces."""
    key = error.where.removeprefix(f"{file}: storage.").partition("[")[0]
    return BadInput(f"--{key.replace('_', '-')}", error.reason) if key in changes else error


def _bound_document(scenario: StorageScenario) -> Document:
    from forebay.simulate.storage.run import bound_of

    if scenario.rules.letter:
        raise BadInput("policy 'optimal'", "requires --as correct: it is a bound for what disks really store")
    total = int(scenario.requests.bytes.sum())
    bound = bound_of(scenario.platform, scenario.requests, scenario.rules)
    return {
        "mode": scenario.rules.mode,
        "platform": scenario.platform.name,
        "policy": "optimal",
        "bound": bound.how,
        "requests": len(scenario.requests),
        "sum_bytes": total,
        "allocated_bytes": bound.bytes,
        "allocated_share": bound.bytes / total,
    }


def _print_storage(scenario: StorageScenario, documents: list[Document]) -> None:
    total = format_size(float(scenario.requests.bytes.sum()))
    typer.echo(f"{scenario.requests.origin}, {total}, on {scenario.platform.name}; rules: {scenario.rules.mode}")
    best = [_flatten(run) for run in sorted(documents, key=lambda run: -run["allocated_share"])]
    keys = [key for key in _STORAGE_COLUMNS if any(key in run for run in best)]
    rows = [[run["policy"], *(run.get(key, "-") for key in keys)] for run in best]
    print_table("", ("policy", *(_STORAGE_COLUMNS[key] for key in keys)), rows)
    if len(documents) == 1 and "disks" in documents[0]:
        _print_storage_run(documents[0])


def _flatten(document: Document) -> Document:
    """Flatten a run to one line of the table."""
    flat = document | (document.get("jobs") or {})
    flat["allocated_share"] = f"{100 * document['allocated_share']:.2f}%"
    if "disks" in document:
        flat["disk_use"] = f"{100 * max(disk['max_use'] for disk in document['disks']):.1f}%"
        flat["disk_crowd"] = max(disk["max_allocations"] for disk in document["disks"])
    return flat


def _print_storage_run(document: Document) -> None:
    if document["reasons"]:
        rows = [(r["reason"], r["requests"], format_size(r["bytes"])) for r in document["reasons"]]
        print_table("Not served", ("reason", "requests", "volume"), rows)
    disks = [
        (
            d["node"], d["disk"], format_size(d["capacity"]), f"{100 * d['max_use']:.1f}%",
            f"{100 * d['mean_use']:.2f}%", d["max_allocations"], d["mean_allocations"],
        )
        for d in document["disks"]
    ]  # fmt: skip
    title = "Disks" if len(disks) <= _MOST_DISKS else f"Disks, the first {_MOST_DISKS}"
    columns = ("node", "disk", "capacity", "max use", "mean use", "max allocations", "mean")
    print_table(title, columns, disks[:_MOST_DISKS])
    if document["decisions_file"]:
        typer.echo(f"decisions: {document['decisions_file']}")
