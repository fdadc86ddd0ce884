"""`forebay forward bench`: compares schedulers, a council or layouts with real processes on a layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.forward.processes import LOOK, addresses, check_layer
from forebay.model.errors import BadInput, UnknownName
from forebay.model.units import parse_size
from forebay.show.options import Json, Plot, Seed, parse_quantity, policy_list
from forebay.show.output import Document, draw, print_json, print_table, progress

if TYPE_CHECKING:
    from forebay.act.forward.bench.advice_loop import Step
    from forebay.act.forward.bench.client_processes import LayerAccess, Task
    from forebay.act.forward.bench.layer import Decision, Shape
    from forebay.act.forward.bench.rounds import Comparison

commands = typer.Typer()
_LOOPS = ("striping",)


@commands.command(
    epilog="Example: forebay forward bench --processes 8 --pattern shared-strided --operation both --request '256 KiB' "
    "--total '512 MiB' --schedulers fifo,twins:window=1000000"
)
def bench(
    processes: Annotated[int, typer.Option(help="Number of client processes.", min=1, max=1024)] = 8,
    pattern: Annotated[
        str, typer.Option(help="file-per-process, shared-contiguous or shared-strided.")
    ] = "file-per-process",
    operation: Annotated[str, typer.Option(help="read, write or both.")] = "both",
    request: Annotated[str, typer.Option(help="Size of each request.")] = "256 KiB",
    total: Annotated[str, typer.Option(help="Bytes that all processes together move in a round.")] = "256 MiB",
    rounds: Annotated[int, typer.Option(help="Number of rounds; schedulers take turns.", min=1, max=1000)] = 3,
    schedulers: Annotated[str, typer.Option(help="Comma-separated schedulers, as NAME:option=value.")] = "fifo",
    servers: Annotated[int, typer.Option(help="Number of data servers to start.", min=1, max=64)] = 4,
    ions: Annotated[int, typer.Option(help="Number of I/O nodes to start.", min=1, max=64)] = 1,
    mapping: Annotated[str, typer.Option(help="Of processes to I/O nodes: block or round-robin.")] = "round-robin",
    stripes: Annotated[int | None, typer.Option(help="Stripe count [default: all servers].", min=1)] = None,
    stripe_size: Annotated[str, typer.Option(help="Stripe size.")] = "64 KiB",
    emulate: Annotated[float, typer.Option(help="Emulate modelled servers, this many times slower; 0: off.")] = 0.0,
    council: Annotated[bool, typer.Option("--council", help="Measure a council's cost and choices.")] = False,
    tuner: Annotated[str, typer.Option(help="With --council, the tuner.")] = "forebay",
    loop: Annotated[str | None, typer.Option(help="striping: advise each run's layout from the runs before.")] = None,
    policy: Annotated[str, typer.Option(help="With --loop, the striping policy.")] = "forebay",
    runs: Annotated[int, typer.Option(help="Number of runs for --council and --loop.", min=1, max=1000)] = 10,
    db: Annotated[str | None, typer.Option(help="With --loop, an existing history [default: a new one].")] = None,
    nodes: Annotated[str | None, typer.Option(help="Comma-separated I/O nodes of a running layer.")] = None,
    key: Annotated[Path | None, typer.Option(help="File with the key of the layer in --nodes.")] = None,
    fsync: Annotated[bool, typer.Option("--fsync", help="Count an fsync at the end of writing.")] = False,
    seed: Seed = 1,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Measure a layer with the patterns of MPI-IO Test. Checks every byte that it reads back."""
    from forebay.act.forward.bench.client_processes import Task
    from forebay.act.forward.bench.workload import DOINGS, Workload

    if operation not in DOINGS:
        raise UnknownName("operation", operation, DOINGS)
    workload = Workload(
        processes=processes,
        pattern=pattern,  # type: ignore[arg-type]
        request=_parse_bytes("--request", request),
        total=_parse_bytes("--total", total),
    )
    task = Task(workload=workload, doings=DOINGS[operation], seed=seed, sync=fsync)
    shape = _parse_shape(servers, ions, stripes, _parse_bytes("--stripe-size", stripe_size), emulate, mapping)
    if not council and loop is None:
        _compare_schedulers(task, rounds, shape, schedulers, nodes, key, plot, json)
        return
    if council and loop is not None:
        raise BadInput("--loop", "cannot be combined with --council")
    if nodes is not None:
        raise BadInput("--nodes", "cannot be combined with --council or --loop, which start their own layer")
    names = policy_list("order", "twins-work-conserving:window=0" if council and schedulers == "fifo" else schedulers)
    if len(names) > 1:
        raise BadInput("--schedulers", "must name one scheduler with --council and --loop")
    if loop is None:
        _measure_council(task, rounds, shape, names[0], tuner, runs, plot, json)
    elif loop in _LOOPS:
        _run_advice_loop(task, shape, names[0], policy, runs, db, json)
    else:
        raise UnknownName("loop", loop, _LOOPS)


def _parse_bytes(option: str, text: str) -> int:
    def is_valid(size: float) -> bool:
        return 1 <= size <= 1 << 50 and size == int(size)

    return int(parse_quantity(option, text, parse_size, is_valid, "must be whole bytes, from 1 B to 1 PiB"))


def _parse_shape(servers: int, ions: int, stripes: int | None, stripe_size: int, emulate: float, mapping: str) -> Shape:
    from forebay.act.forward.bench.layer import Shape
    from forebay.history.toml import locate_errors
    from forebay.model.layout import Layout

    if not 0 <= emulate <= 1000:
        raise BadInput("--emulate", f"must be a factor between 0 and 1000, not {emulate:g}")
    if stripes is not None and stripes > servers:
        raise BadInput("--stripes", f"must be at most {servers}, the number of servers, not {stripes}")
    layout = locate_errors("--stripe-size", lambda: Layout(count=stripes or servers, size=stripe_size))
    return Shape(servers=servers, nodes=ions, layout=layout, dilation=emulate, mapping=mapping)


def _compare_schedulers(
    task: Task, rounds: int, shape: Shape, schedulers: str, nodes: str | None, key: Path | None, plot: Plot, json: Json
) -> None:
    from forebay.act.forward.bench.rounds import bench as measure

    with _layers(shape, schedulers, nodes, key) as by_name, progress("rounds", rounds) as report:
        ways = measure(task, rounds, by_name, report)
    factor = shape.dilation or 1
    draw(plot, "forward_bench:draw_ways", ways, factor)
    if not json:
        _print_comparison(task, shape, ways, nodes)
        return
    load, layer = task.workload, {name: getattr(shape, name) for name in ("servers", "nodes", "dilation", "mapping")}
    print_json(
        {
            **{name: getattr(load, name) for name in ("processes", "pattern", "request", "bytes")},
            "rounds": rounds,
            "fsync": task.sync,
            "layer": "given" if nodes else layer,
            "ways": [
                {
                    "scheduler": way.name,
                    "operation": way.doing,
                    "bandwidth": way.bandwidth * factor,
                    "bandwidths": [bandwidth * factor for bandwidth in way.bandwidths],
                    "ratio": way.ratio,
                }
                for way in ways
            ],
        }
    )


@contextmanager
def _layers(shape: Shape, schedulers: str, nodes: str | None, key: Path | None) -> Iterator[dict[str, LayerAccess]]:
    """Give access to a running layer, or to new I/O nodes for each scheduler, by name."""
    from forebay.act.forward.bench.client_processes import LayerAccess
    from forebay.act.forward.bench.layer import temporary_layer
    from forebay.act.forward.net.key import read_key

    if nodes is not None:
        if key is None:
            raise BadInput("--key", "is required with --nodes")
        existing, secret = tuple(addresses(nodes)), read_key(key)
        check_layer(nodes, existing, secret, LOOK)
        yield {"given": LayerAccess(existing, secret, mapping=shape.mapping)}
        return
    names = policy_list("order", schedulers)
    with temporary_layer(shape) as layer:
        accesses = {}
        for number, name in enumerate(names):
            label = re.sub(r"[^a-z0-9-]+", "-", name.lower())[:20]
            accesses[name] = layer.add_nodes(f"{number}-{label}", name)
        layer.wait_until_ready()
        yield accesses


def _print_comparison(task: Task, shape: Shape, ways: Sequence[Comparison], nodes: str | None) -> None:
    from forebay.decide.stripe.phrases import stripe_size
    from forebay.model.units import plural

    load, factor = task.workload, (shape.dilation or 1) / 1e6
    started = f"{plural(shape.nodes, 'I/O node')}, {plural(shape.servers, 'data server')}"
    layer = "the running layer" if nodes else started
    requests = f"{stripe_size(load.bytes)} in requests of {stripe_size(load.request)}"
    typer.echo(f"{plural(load.processes, 'process')}, {load.pattern}, {requests}; {layer}; every byte was checked")
    if shape.dilation:
        typer.echo(f"Servers are emulated in time dilated by {shape.dilation:g}; bandwidths are in emulated time.")
    rows = []
    for way in ways:
        bandwidths = (way.bandwidth, min(way.bandwidths), max(way.bandwidths))
        rows.append((way.name, way.doing, *(f"{bandwidth * factor:.1f}" for bandwidth in bandwidths), way.ratio))
    print_table("", ("scheduler", "operation", "MB/s", "least", "most", f"of {ways[0].name}"), rows)


def _measure_council(
    task: Task, rounds: int, shape: Shape, scheduler: str, tuner: str, runs: int, plot: Path | None, json: bool
) -> None:
    """Measure what a council costs while I/O nodes ignore it, then which windows it chooses while they obey it."""
    from forebay.act.forward.bench.layer import busy_decisions, read_decisions, temporary_layer
    from forebay.act.forward.bench.rounds import bench as measure
    from forebay.act.forward.bench.rounds import learn
    from forebay.decide.registry import check_policy

    check_policy("--tuner", "tune", tuner)
    dilation = shape.dilation or 1
    with temporary_layer(shape) as layer:
        by_name = {
            "no council": layer.add_nodes("alone", scheduler),
            "council, ignored": layer.add_nodes("ignored", scheduler, council=("--ignore", "--tuner", tuner)),
        }
        learning = layer.add_nodes("learning", scheduler, council=("--tuner", tuner))
        layer.wait_until_ready()
        with progress("rounds", rounds) as report:
            ways = measure(task, rounds, by_name, report)
        learned = learn(task, learning, runs)
        decisions = busy_decisions(read_decisions(layer.decision_log("learning")))
    ignored = [way for way in ways if way.name != "no council"]
    bandwidths = [[measured.bandwidth * dilation for measured in run] for run in learned]
    draw(plot, "forward_bench:draw_windows", decisions, dilation)
    if json:
        fields = ("seconds", "window", "bandwidth", "patterns", "because")
        overhead = [{"operation": way.doing, "ratio": way.ratio} for way in ignored]
        documents = [{field: getattr(decision, field) for field in fields} for decision in decisions]
        print_json({"overhead": overhead, "operations": task.doings, "runs": bandwidths, "decisions": documents})
        return
    for way in ignored:
        typer.echo(f"{way.doing}: with an ignored council, {100 * way.ratio:.1f} % of the bandwidth without a council")
    _print_decisions(decisions, dilation)
    for place, doing in enumerate(task.doings):
        typer.echo(f"{doing}, MB/s run by run: {' '.join(f'{run[place] / 1e6:.0f}' for run in bandwidths)}")


def _print_decisions(decisions: Sequence[Decision], dilation: float) -> None:
    if dilation != 1:
        typer.echo(f"Time is dilated: a window of 8 ms lasts {8 * dilation:g} ms, as the reasons say.")
    rows = [
        (
            f"{d.seconds - decisions[0].seconds:.0f}", "-" if d.window is None else f"{1e3 * d.window / dilation:g}",
            f"{d.bandwidth * dilation / 1e6:.1f}", ", ".join(d.patterns), d.because,
        )
        for d in decisions
    ]  # fmt: skip
    print_table("", ("second", "window ms", "MB/s before", "pattern", "because"), rows)


def _run_advice_loop(
    task: Task, shape: Shape, scheduler: str, policy: str, runs: int, db: str | None, json: bool
) -> None:
    """Run one program many times. Each run enters the history, which advises the layout of the next run."""
    import tempfile

    from forebay.act.forward.bench.advice_loop import run_loop
    from forebay.act.forward.bench.layer import temporary_layer
    from forebay.decide.registry import find
    from forebay.history.store import open_store

    chosen, app, steps = find("stripe", policy), f"bench-{task.workload.pattern}", []
    with ExitStack() as stack:
        address = db or f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/history.db"
        store = stack.enter_context(open_store(address))
        layer = stack.enter_context(temporary_layer(shape))
        access = layer.add_nodes("loop", scheduler, db=address)
        layer.wait_until_ready()
        report = stack.enter_context(progress("runs", runs))
        for step in run_loop(task, access, store, chosen, app=app, servers=shape.servers, runs=runs):
            steps.append(step)
            report(step.number)
    dilation = shape.dilation or 1
    if json:
        print_json({"app": app, "policy": chosen.name, "runs": [_step_document(step, dilation) for step in steps]})
    else:
        _print_loop(app, steps, dilation)


def _step_document(step: Step, dilation: float) -> Document:
    layout, striping = step.advice.layout, step.advice.striping
    return {
        "run": step.number,
        "stripe_count": layout.count,
        "stripe_size": layout.size,
        "first_server": layout.start,
        "phase": striping.phase,
        "because": striping.reason,
        "bandwidth": step.bandwidth * dilation,
        "operations": {m.doing: m.bandwidth * dilation for m in step.measured},
        "history_run": step.known.run,
        "history_bandwidth": step.known.throughput * dilation,
    }


def _print_loop(app: str, steps: Sequence[Step], dilation: float) -> None:
    from forebay.decide.stripe.phrases import stripes

    typer.echo(f"{app}: each run enters the history and decides the layout of the next one")
    rows = []
    for step in steps:
        layout, bandwidths = step.advice.layout, [m.bandwidth for m in step.measured] + [step.known.throughput]
        numbers = (f"{bandwidth * dilation / 1e6:.1f}" for bandwidth in bandwidths)
        rows.append((str(step.number), stripes(layout.count, layout.size), step.advice.striping.phase, *numbers))
    operations = [f"{m.doing} MB/s" for m in steps[0].measured]
    print_table("", ("run", "layout", "phase", *operations, "MB/s in the history"), rows)
    first, last, best = steps[0], steps[-1], max(steps, key=lambda step: step.bandwidth)
    typer.echo(
        f"The last run reaches {last.bandwidth / first.bandwidth:.2f} times the bandwidth of the first one, "
        f"the best (run {best.number}) {best.bandwidth / first.bandwidth:.2f} times."
    )
