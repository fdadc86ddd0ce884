"""`forebay allocate`: decides how many I/O targets each application gets, and which."""

from pathlib import Path
from typing import Annotated

import typer

from forebay.model.units import format_bandwidth
from forebay.show.options import DEFAULT_ALLOCATE, DEFAULT_PLACE, Json, Seed
from forebay.show.output import Document, print_json, print_table, ranges

commands = typer.Typer()
Allocate = Annotated[str | None, typer.Option(help=f"Allocation policy [default: the file's, or {DEFAULT_ALLOCATE}].")]
Place = Annotated[str | None, typer.Option(help=f"Placement policy [default: the file's, or {DEFAULT_PLACE}].")]


@commands.command(
    epilog="Example: forebay allocate examples/machine.toml --allocate tcpu --place greedy-non-clairvoyant"
)
def allocate(
    file: Annotated[Path, typer.Argument(help="TOML file with [system] and [[application]] tables.")],
    allocate: Allocate = None,
    place: Place = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Decide how many I/O targets each application gets, and which."""
    import numpy as np

    from forebay.decide.registry import find
    from forebay.decide.view import View
    from forebay.profile.curve_shapes import classify
    from forebay.simulate.applications.scenario import read_scenario

    scenario = read_scenario(file)
    allocator = find("allocate", allocate or scenario.allocate or DEFAULT_ALLOCATE)
    placer = find("place", place or scenario.place or DEFAULT_PLACE)
    placement = scenario.schedule(allocator, placer, np.random.default_rng(seed))
    documents: list[Document] = [
        {
            "name": a.name,
            "n": len(targets),
            "targets": list(targets),
            "bandwidth": a.curve.at(len(targets)),
            "n_perf": a.curve.n_perf,
            "n_sys": a.n_sys,
            "io_ratio": a.io_ratio(len(targets)),
            "io_stress": a.io_stress(len(targets)),
            "curve_class": classify(a.curve).value,
        }
        for a, targets in zip(scenario.applications, placement, strict=True)
    ]
    io_load = View(scenario.system, scenario.applications).io_load([len(targets) for targets in placement])
    if json:
        print_json({"allocate": allocator.name, "place": placer.name, "io_load": io_load, "applications": documents})
        return
    rows = [
        (
            d["name"], d["n"], ranges(d["targets"]), format_bandwidth(d["bandwidth"]), d["n_perf"], d["n_sys"],
            f"{100 * d['io_ratio']:.1f}%", d["curve_class"],
        )
        for d in documents
    ]  # fmt: skip
    title = f"{allocator.name} + {placer.name}, I/O-load {io_load:.3f}{' (saturated)' if io_load > 1 else ''}"
    heads = ("application", "n", "targets", "bandwidth alone", "fastest n", "lightest n", "time in I/O", "curve")
    print_table(title, heads, rows)
