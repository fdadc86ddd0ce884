"""`forebay schedule`: plans when Slurm's jobs start, and steers Slurm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.signals import end_on_signals
from forebay.model.units import format_duration, format_size
from forebay.show.options import Json
from forebay.show.output import announce, print_json, print_lines, print_table

if TYPE_CHECKING:
    from forebay.act.slurm.planner.plan import Plan, PlannedJob

commands = typer.Typer()


@commands.command(epilog="Example: forebay schedule --config examples/schedule.toml --check")
def schedule(
    config: Annotated[Path, typer.Option(help="TOML file with the settings, as in examples/schedule.toml.")],
    check: Annotated[bool, typer.Option("--check", help="Only check the settings.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Make one plan, print it and end. Changes nothing.")] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Give all jobs back what the planner changed, and end.")
    ] = False,
    json: Json = False,
) -> None:
    """Plan when Slurm's jobs start, and steer Slurm.

    In shadow mode it only records what it would do. Ctrl-C ends it, and gives all jobs back what they had.
    """
    from forebay.act.forward.net.address import parse_address
    from forebay.act.metrics import Endpoint
    from forebay.act.slurm.planner.service import PlannerService
    from forebay.act.slurm.planner.settings import read_schedule_settings

    settings = read_schedule_settings(config)
    about = {"mode": settings.schedule.mode, "policy": settings.schedule.policy}
    summary = f"{about['mode']} mode, policy {about['policy']}"
    if check:
        announce({"file": str(config), **about}, f"{config}: valid: {summary}", json_line=json)
        return
    service = PlannerService(settings, lambda line: print_lines(f"forebay: {line}", err=True))
    if release:
        with _explain_failure(config, "cannot give jobs back what they had"):
            count = service.release()
        announce({"released": count}, f"released: {count}", json_line=json)
        return
    if once:
        with _explain_failure(config, "cannot make a plan"):
            plan = service.make_plan()
        _print_plan(plan, json=json)
        return
    ended = end_on_signals()
    address = settings.schedule.metrics
    endpoint = Endpoint(parse_address(address, "schedule.metrics"), service.metrics) if address else None
    announce({"ready": "schedule", **about}, f"schedule ready: {summary}", json_line=json)
    try:
        service.run(ended)
    finally:
        if endpoint is not None:
            endpoint.close()


@contextmanager
def _explain_failure(config: Path, what: str) -> Iterator[None]:
    """Say what failed if Slurm does not answer, and what to do."""
    from forebay.act.command import CommandFailed

    try:
        yield
    except CommandFailed as error:
        hint = f"run it on a machine where squeue works, or set conf under [slurm] in {config}"
        raise CommandFailed(f"{what}, as Slurm does not answer: {error}; {hint}") from None


def _print_plan(plan: Plan, *, json: bool) -> None:
    from forebay.act.slurm.planner.record import plan_document
    from forebay.act.slurm.planner.service import describe_plan

    if json:
        print_json(plan_document(plan, {}, {}))
        return
    rows = [_cells(planned, plan.at) for planned in (*plan.planned, *plan.others)]
    print_table(describe_plan(plan), ("job", "user", plan.machine.unit, "space", "waits", "starts in", "because"), rows)


def _cells(planned: PlannedJob, now: float) -> tuple[object, ...]:
    from forebay.act.slurm.planner.explanations import round_time

    job, start = planned.job, planned.start
    starts = format_duration(round_time(start - now)) if math.isfinite(start) else "-"
    waits = format_duration(round_time(now - job.submit))
    return job.name, job.user, planned.amount, format_size(planned.space), waits, starts, planned.sentence
