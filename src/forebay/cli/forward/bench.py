"""`forebay forward bench`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.cli.forward.mount import LOOK, addresses, check_layer
from forebay.model.errors import BadInput
from forebay.show.options import Json, Plot, Seed

if TYPE_CHECKING:
    from forebay.act.forward.bench.client_processes import LayerAccess
    from forebay.act.forward.bench.layer import BenchLayer, Shape
    from forebay.act.forward.bench.rounds import Comparison, Plan

commands = typer.Typer()


@commands.command(
    epilog="Example: forebay forward bench --processes 8 --pattern shared-strided --operation both --request '256 KiB' "
    "--total '512 MiB' --schedulers fifo,twins:window=1000000"
)
def bench(
    processes: Annotated[int, typer.Option(help="Client processes.", min=1, max=1024)] = 8,
    pattern: Annotated[
        str, typer.Option(help="file-per-process, shared-contiguous or shared-strided.")
    ] = "file-per-process",
    operation: Annotated[str, typer.Option(help="read, write or both.")] = "both",
    request: Annotated[str, typer.Option(help="Size of each request.")] = "256 KiB",
    total: Annotated[str, typer.Option(help="What all processes move together, in each round.")] = "256 MiB",
    rounds: Annotated[int, typer.Option(help="How often; several ways take turns.", min=1, max=1000)] = 3,
    schedulers: Annotated[
        str, typer.Option(help="Request schedulers to compare, by commas; NAME:option=value sets an option.")
    ] = "fifo",
    servers: Annotated[int, typer.Option(help="Data servers to start.", min=1, max=64)] = 4,
    ions: Annotated[int, typer.Option(help="I/O nodes to start.", min=1, max=64)] = 1,
    stripes: Annotated[int | None, typer.Option(help="Stripe count [default: all servers].", min=1)] = None,
    stripe_size: Annotated[str, typer.Option(help="Stripe size.")] = "64 KiB",
    emulate: Annotated[
        float,
        typer.Option(help="Servers as slow as the modelled ones, in time dilated so many times; 0 is not at all."),
    ] = 0.0,
    council: Annotated[
        bool, typer.Option("--council", help="What a council costs, and which windows it chooses over time.")
    ] = False,
    tuner: Annotated[str, typer.Option(help="How the council learns.")] = "forebay",
    loop: Annotated[
        str | None, typer.Option(help="striping: one program many times, its layout advised from its runs.")
    ] = None,
    policy: Annotated[str, typer.Option(help="With --loop, the striping policy.")] = "forebay",
    runs: Annotated[int, typer.Option(help="How many runs --council and --loop make.", min=1, max=1000)] = 10,
    db: Annotated[str | None, typer.Option(help="With --loop, a history to go on with [default: a new one].")] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Use this layer instead: its I/O nodes, with commas between; needs --key.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The key of the layer that --nodes names.")] = None,
    fsync: Annotated[bool, typer.Option("--fsync", help="Writing ends with an fsync, which counts.")] = False,
    seed: Seed = 1,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Drive a layer with the patterns of MPI-IO Test.

    Real processes write and read; every byte that comes back is checked.
    """
    from forebay.act.forward.bench.rounds import Plan, bench
    from forebay.act.forward.bench.workload import OPERATIONS, Workload
    from forebay.model.errors import UnknownName
    from forebay.show.output import progress

    if operation not in OPERATIONS:
        raise UnknownName("operation", operation, OPERATIONS)
    workload = Workload(
        processes=processes,
        pattern=pattern,  # type: ignore[arg-type]
        request=_bytes("--request", request),
        total=_bytes("--total", total),
    )
    plan = Plan(workload=workload, operation=operation, rounds=rounds, seed=seed, sync=fsync)
    shape = _shape(servers, ions, stripes, _bytes("--stripe-size", stripe_size), emulate)
    if council or loop is not None:
        _longer(plan, shape, schedulers, council, tuner, loop, policy, runs, db, nodes, plot, json)
        return
    with _ways(shape, schedulers, nodes, key) as by_name, progress("rounds", rounds) as told:
        found = bench(plan, by_name, told)
    if plot is not None:
        from forebay.show.figures.forward_bench import draw_ways

        draw_ways(found, shape.dilation or 1, plot)
        typer.echo(f"drawn: {plot}", err=True)
    if json:
        from forebay.show.output import print_json

        print_json(_document(plan, shape, found, nodes))
    else:
        _print(plan, shape, found, nodes)


def _longer(
    plan: Plan,
    shape: Shape,
    schedulers: str,
    council: bool,
    tuner: str,
    loop: str | None,
    policy: str,
    runs: int,
    db: str | None,
    nodes: str | None,
    plot: Path | None,
    json: bool,
) -> None:
    from forebay.cli.forward import bench_modes as modes
    from forebay.decide.registry import known
    from forebay.show.options import policy_list

    known("--tuner", "tune", tuner)
    if council and loop is not None:
        raise BadInput("--loop", "goes without --council")
    if nodes is not None:
        raise BadInput("--nodes", "--council and --loop start a layer of their own")
    default = "twins" if council and schedulers == "fifo" else schedulers
    names = policy_list("order", default)
    if len(names) > 1:
        raise BadInput("--schedulers", "one is enough here")
    if loop is not None:
        modes.loop(plan, shape, names[0], loop, policy, runs, db, json)
    else:
        modes.council(plan, shape, names[0], tuner, runs, plot, json)


def _shape(servers: int, ions: int, stripes: int | None, stripe_size: int, emulate: float) -> Shape:
    from forebay.act.forward.bench.layer import Shape
    from forebay.history.toml import locate_errors
    from forebay.model.layout import Layout

    if not 0 <= emulate <= 1000:
        raise BadInput("--emulate", f"a time dilation must be between 0 and 1000, not {emulate:g}")
    if stripes is not None and stripes > servers:
        raise BadInput("--stripes", f"there are {servers} servers, not {stripes}")
    layout = locate_errors("--stripe-size", lambda: Layout(count=stripes or servers, size=stripe_size))
    return Shape(servers=servers, nodes=ions, layout=layout, dilation=emulate)


@contextmanager
def _ways(shape: Shape, schedulers: str, nodes: str | None, key: Path | None) -> Iterator[dict[str, LayerAccess]]:
    """By name, how the processes come to their files: a layer that is there, or one for each scheduler."""
    from forebay.act.forward.bench.client_processes import LayerAccess
    from forebay.act.forward.bench.layer import temporary_layer
    from forebay.act.forward.net.key import read_key
    from forebay.show.options import policy_list

    if nodes is not None:
        if key is None:
            raise BadInput("--key", "is needed with --nodes")
        there, secret = tuple(addresses(nodes)), read_key(key)
        check_layer(nodes, there, secret, LOOK)
        yield {"given": LayerAccess(there, secret)}
        return
    names = policy_list("order", schedulers)
    with temporary_layer(shape) as layer:
        found = {name: _through(layer, number, name) for number, name in enumerate(names)}
        layer.ready()
        yield found


def _through(layer: BenchLayer, number: int, scheduler: str) -> LayerAccess:
    from forebay.act.forward.bench.client_processes import LayerAccess

    plain = re.sub(r"[^a-z0-9-]+", "-", scheduler.lower())[:20]
    return LayerAccess(layer.nodes(f"{number}-{plain}", "--scheduler", scheduler), layer.key)


def _bytes(option: str, text: str) -> int:
    from forebay.model.units import parse_size

    try:
        size = parse_size(text)
    except ValueError as error:
        raise BadInput(option, str(error)) from None
    if not 1 <= size <= 1 << 50 or size != int(size):
        raise BadInput(option, f"must be whole bytes, at least one and at most a PiB, not {text!r}")
    return int(size)


def _document(plan: Plan, shape: Shape, found: Sequence[Comparison], nodes: str | None) -> dict[str, Any]:
    load = plan.workload
    return {
        "processes": load.processes,
        "pattern": load.pattern,
        "request": load.request,
        "bytes": load.bytes,
        "rounds": plan.rounds,
        "fsync": plan.sync,
        "layer": "given" if nodes else {"servers": shape.servers, "nodes": shape.nodes, "dilation": shape.dilation},
        "ways": [
            {
                "scheduler": way.name,
                "operation": way.doing,
                "bandwidth": way.bandwidth * (shape.dilation or 1),
                "bandwidths": [b * (shape.dilation or 1) for b in way.bandwidths],
                "ratio": way.ratio,
            }
            for way in found
        ],
    }


def _print(plan: Plan, shape: Shape, found: Sequence[Comparison], nodes: str | None) -> None:
    from forebay.decide.stripe.reasons import many, stripe_size
    from forebay.show.output import print_table

    load = plan.workload
    layer = "the layer given" if nodes else f"{many(shape.nodes, 'I/O node')}, {many(shape.servers, 'data server')}"
    typer.echo(
        f"{many(load.processes, 'process')}, {load.pattern}, {stripe_size(load.bytes)} in requests of "
        f"{stripe_size(load.request)}; {layer}; every byte was checked"
    )
    if shape.dilation:
        typer.echo(f"servers emulated at {shape.dilation:g}-fold time; bandwidths are those of the emulated machine")
    factor = (shape.dilation or 1) / 1e6
    rows = [
        (
            way.name,
            way.doing,
            *(f"{width * factor:.1f}" for width in (way.bandwidth, min(way.bandwidths), max(way.bandwidths))),
            way.ratio,
        )
        for way in found
    ]
    columns = ("scheduler", "operation", "MB/s", "least", "most", f"of {found[0].name}")
    print_table("", columns, rows)
