"""`forebay allocate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forebay.show.cli.options import DEFAULT_ALLOCATE, DEFAULT_PLACE, Json, Seed

EXAMPLE = "Example: forebay allocate examples/machine.toml --allocate tcpu --place greedy-non-clairvoyant"


def allocate(
    file: Annotated[Path, typer.Argument(help="TOML file with [system] and [[application]] tables.")],
    allocate: Annotated[
        str | None, typer.Option(help=f"Allocation policy [default: the file's, or {DEFAULT_ALLOCATE}].")
    ] = None,
    place: Annotated[
        str | None, typer.Option(help=f"Placement policy [default: the file's, or {DEFAULT_PLACE}].")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """How many I/O targets each application should get, and which."""
    import numpy as np

    from forebay.decide.registry import find
    from forebay.decide.view import View
    from forebay.model.units import format_bandwidth
    from forebay.profile.classes import classify
    from forebay.show.output import print_json, print_table, ranges
    from forebay.simulate.scenario import read_scenario

    scenario = read_scenario(file)
    allocator = find("allocate", allocate or scenario.allocate or DEFAULT_ALLOCATE)
    placer = find("place", place or scenario.place or DEFAULT_PLACE)
    placement = scenario.schedule(allocator, placer, np.random.default_rng(seed))
    counts = [len(own) for own in placement]
    rows = [
        {
            "name": a.name,
            "n": n,
            "targets": list(own),
            "bandwidth": a.curve.at(n),
            "n_perf": a.curve.n_perf,
            "n_sys": a.n_sys,
            "io_ratio": a.io_ratio(n),
            "io_stress": a.io_stress(n),
            "curve_class": classify(a.curve).value,
        }
        for a, n, own in zip(scenario.applications, counts, placement, strict=True)
    ]
    io_load = View(scenario.system, scenario.applications).io_load(counts)
    if json:
        print_json({"allocate": allocator.name, "place": placer.name, "io_load": io_load, "applications": rows})
        return
    title = f"{allocator.name} + {placer.name}, I/O-load {io_load:.3f}" + (" (saturated)" if io_load > 1 else "")
    print_table(
        title,
        ("application", "n", "targets", "bandwidth alone", "fastest n", "lightest n", "time in I/O", "curve"),
        [
            (
                r["name"],
                r["n"],
                ranges(own),
                format_bandwidth(a.curve.at(len(own))),
                r["n_perf"],
                r["n_sys"],
                f"{100 * a.io_ratio(len(own)):.1f}%",
                r["curve_class"],
            )
            for r, a, own in zip(rows, scenario.applications, placement, strict=True)
        ],
    )
