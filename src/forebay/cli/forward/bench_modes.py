"""The two longer manners of `forebay forward bench`: with a council, and with the advisor of striping in the loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from forebay.model.errors import UnknownName

if TYPE_CHECKING:
    from forebay.act.forward.bench.advice_loop import Step
    from forebay.act.forward.bench.council import Decision
    from forebay.act.forward.bench.layer import Shape
    from forebay.act.forward.bench.rounds import Comparison, Plan

LOOPS = ("striping",)


def council(plan: Plan, shape: Shape, scheduler: str, tuner: str, runs: int, plot: Path | None, json: bool) -> None:
    """What a council costs where its decisions are ignored, then which windows it chooses where they are not."""
    from forebay.act.forward.bench.client_processes import LayerAccess
    from forebay.act.forward.bench.council import add_council_nodes, busy_decisions, decision_log, learn, read_decisions
    from forebay.act.forward.bench.layer import temporary_layer
    from forebay.act.forward.bench.rounds import bench
    from forebay.show.output import print_json, progress

    with temporary_layer(shape) as layer:
        by_name = {
            "no council": LayerAccess(layer.nodes("alone", "--scheduler", scheduler), layer.key),
            "council, ignored": add_council_nodes(layer, "ignored", scheduler, "--ignore", "--tuner", tuner),
        }
        learning = add_council_nodes(layer, "learning", scheduler, "--tuner", tuner)
        layer.ready()
        with progress("rounds", plan.rounds) as told:
            found = bench(plan, by_name, told)
        learned = learn(plan, learning, runs)
        chosen = busy_decisions(read_decisions(decision_log(layer, "learning")))
    widths = [[m.bandwidth * (shape.dilation or 1) for m in one] for one in learned]
    if plot is not None:
        from forebay.show.figures.forward_bench import draw_windows

        draw_windows(chosen, shape.dilation or 1, plot)
        typer.echo(f"drawn: {plot}", err=True)
    if json:
        print_json(_council_document(found, chosen, widths, plan))
    else:
        _print_council(found, chosen, widths, plan, shape.dilation or 1)


def loop(
    plan: Plan, shape: Shape, scheduler: str, which: str, policy: str, runs: int, db: str | None, json: bool
) -> None:
    """One program so many times; its runs enter the history, and the advisor changes the layout before each."""
    import tempfile
    from contextlib import ExitStack

    from forebay.act.forward.bench.advice_loop import loop
    from forebay.act.forward.bench.client_processes import LayerAccess
    from forebay.act.forward.bench.layer import temporary_layer
    from forebay.decide.registry import find
    from forebay.history.store import open_store
    from forebay.show.output import print_json, progress

    if which not in LOOPS:
        raise UnknownName("loop", which, LOOPS)
    chosen = find("stripe", policy)
    with ExitStack() as stack:
        address = db or f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/history.db"
        store = stack.enter_context(open_store(address))
        layer = stack.enter_context(temporary_layer(shape))
        through = LayerAccess(layer.nodes("loop", "--scheduler", scheduler, "--db", address), layer.key)
        layer.ready()
        told = stack.enter_context(progress("runs", runs))
        steps = []
        app = f"bench-{plan.workload.pattern}"
        for step in loop(plan, through, store, chosen, app=app, servers=shape.servers, runs=runs):
            steps.append(step)
            told(step.number)
    if json:
        print_json({"app": app, "policy": chosen.name, "runs": [_step(s, shape.dilation or 1) for s in steps]})
    else:
        _print_loop(app, steps, shape.dilation or 1)


def _council_document(
    found: list[Comparison], chosen: list[Decision], widths: list[list[float]], plan: Plan
) -> dict[str, Any]:
    return {
        "overhead": [{"operation": w.doing, "ratio": w.ratio} for w in found if w.name != "no council"],
        "operations": plan.doings,
        "runs": widths,
        "decisions": [
            {
                "seconds": d.seconds,
                "window": d.window,
                "bandwidth": d.bandwidth,
                "patterns": d.patterns,
                "because": d.because,
            }
            for d in chosen
        ],
    }


def _print_council(
    found: list[Comparison], chosen: list[Decision], widths: list[list[float]], plan: Plan, dilation: float
) -> None:
    from forebay.show.output import print_table

    for way in found:
        if way.name != "no council":
            typer.echo(f"{way.doing}: with a council whose decisions are ignored, {100 * way.ratio:.1f} % of without")
    rows = [
        (
            f"{d.seconds - chosen[0].seconds:.0f}",
            "-" if d.window is None else f"{1e3 * d.window / dilation:g}",
            f"{d.bandwidth * dilation / 1e6:.1f}",
            ", ".join(d.patterns),
            d.because,
        )
        for d in chosen
    ]
    if dilation != 1:
        typer.echo(f"time is dilated: a window of 8 ms is {8 * dilation:g} ms long, and called so in the reasons")
    print_table("", ("second", "window ms", "MB/s before", "seen", "because"), rows)
    for place, doing in enumerate(plan.doings):
        told = " ".join(f"{one[place] / 1e6:.0f}" for one in widths)
        typer.echo(f"{doing}, MB/s run by run: {told}")


def _step(step: Step, dilation: float) -> dict[str, Any]:
    layout = step.advice.layout
    return {
        "run": step.number,
        "stripe_count": layout.count,
        "stripe_size": layout.size,
        "first_server": layout.start,
        "phase": step.advice.striping.phase,
        "because": step.advice.striping.reason,
        "bandwidth": step.bandwidth * dilation,
        "operations": {m.doing: m.bandwidth * dilation for m in step.measured},
        "history_run": step.known.run_id,
        "history_bandwidth": step.known.perf_by_slowest * dilation,
    }


def _print_loop(app: str, steps: list[Step], dilation: float) -> None:
    from forebay.decide.stripe.reasons import stripes
    from forebay.show.output import print_table

    typer.echo(f"{app}: each run enters the history, and decides the next one's layout")
    rows = [
        (
            str(s.number),
            stripes(s.advice.layout.count, s.advice.layout.size),
            s.advice.striping.phase,
            *(f"{m.bandwidth * dilation / 1e6:.1f}" for m in s.measured),
            f"{s.known.perf_by_slowest * dilation / 1e6:.1f}",
        )
        for s in steps
    ]
    doings = [f"{m.doing} MB/s" for m in steps[0].measured]
    print_table("", ("run", "layout", "phase", *doings, "MB/s in the history"), rows)
    best = max(steps, key=lambda s: s.bandwidth)
    typer.echo(
        f"the last run has {steps[-1].bandwidth / steps[0].bandwidth:.2f} of the first one's bandwidth, "
        f"the best (run {best.number}) {best.bandwidth / steps[0].bandwidth:.2f}"
    )
