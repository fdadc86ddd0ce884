"""`forebay advise`."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.history.run_fields import MOST_PROCESSES
from forebay.model.errors import BadInput
from forebay.model.units import parse_duration, plural
from forebay.show.options import Database, Json
from forebay.show.output import print_json, ranges

if TYPE_CHECKING:
    from forebay.act.advice.decision import Advice
    from forebay.act.filesystems.settings import Settings
    from forebay.history.store import Store

commands = typer.Typer()


@commands.command(
    epilog="Example: forebay advise --app vpic.x --procs 512 --system scratch.toml --job $SLURM_JOB_ID --apply $PWD/out"
)
def advise(
    app: Annotated[str | None, typer.Option(help="The program that is about to run.")] = None,
    procs: Annotated[int | None, typer.Option(help="Its number of processes.")] = None,
    system: Annotated[
        Path | None, typer.Option(help="The file system, a TOML file ([filesystem] kind, mount, ...).")
    ] = None,
    filesystem: Annotated[
        Path | None, typer.Option(help="Where it is mounted: only runs there count.", metavar="MOUNT")
    ] = None,
    policy: Annotated[str, typer.Option(help="Striping policy; NAME:option=value sets an option.")] = "forebay",
    targets: Annotated[
        int | None, typer.Option(help="How many targets there are, where nothing tells.", min=1, max=65535)
    ] = None,
    job: Annotated[
        str | None, typer.Option(help="Keep the targets for this job, so that no other one is given them.")
    ] = None,
    lifetime: Annotated[str, typer.Option("--lease", help="How long at most they are kept.")] = "24 h",
    release: Annotated[str | None, typer.Option(help="This job is over: give back what it has.", metavar="JOB")] = None,
    apply: Annotated[
        Path | None, typer.Option(help="Set the layout on this folder, and read it back.", metavar="DIR")
    ] = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="Decide and remember only; touch nothing.")] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Advise how to stripe the files of a new job, and say why."""
    from forebay.history.store import open_store

    if release is not None:
        if app is not None or procs is not None or apply is not None:
            raise BadInput("--release", "is for a job that is over; leave --app, --procs and --apply out")
        with open_store(db, create=False) as store:
            _release(store, release, json)
        return
    if app is None or procs is None:
        raise BadInput("--app" if app is None else "--procs", "is missing")
    if not 1 <= procs <= MOST_PROCESSES:
        raise BadInput("--procs", f"must be between 1 and {MOST_PROCESSES}, not {procs}")
    if not app:
        raise BadInput("--app", "must not be empty")
    if job is not None and not 0 < len(job) <= 200:
        raise BadInput("--job", "must have 1 to 200 characters")
    seconds = _lifetime(lifetime)
    if apply is not None and not apply.is_dir():
        raise BadInput(str(apply), "is not a folder" if apply.exists() else "there is no such folder")
    with open_store(db, create=False) as store:
        advice = _advise(store, app, procs, system, filesystem, policy, targets, job, seconds, apply, shadow)
    if json:
        print_json(_document(advice))
    else:
        _print(advice)


def _lifetime(text: str) -> float:

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise BadInput("--lease", str(error)) from None
    if not 0 < seconds <= 366 * 86400:
        raise BadInput("--lease", f"must be longer than 0 s and at most a year, not {text!r}")
    return seconds


def _release(store: Store, job: str, json: bool) -> None:
    from forebay.history.store.jobs import release_targets

    with store.writing() as connection:
        freed = release_targets(connection, job)
    if json:
        print_json({"job": job, "released": freed})
    else:
        typer.echo(f"job {job}: {plural(freed, 'target')} given back" if freed else f"job {job}: had no targets")


def _advise(
    store: Store,
    app: str,
    procs: int,
    system: Path | None,
    filesystem: Path | None,
    policy: str,
    targets: int | None,
    job: str | None,
    seconds: float,
    apply: Path | None,
    shadow: bool,
) -> Advice:
    from forebay.act.advice.decision import advise, check_usable, choose_filesystem, known_targets, recorded_mount
    from forebay.act.advice.stripe_view import JobRequest
    from forebay.act.filesystems.load import read_loads
    from forebay.act.filesystems.settings import open_filesystem
    from forebay.decide.registry import find

    settings = _settings(system, targets)
    described = recorded_mount(settings)
    if described is not None and filesystem is not None:
        raise BadInput("--filesystem", f"the file of --system says that it is {described}")
    named = str(filesystem) if filesystem is not None else described
    about = choose_filesystem(store, app, named, apply)
    chosen, files = find("stripe", policy), open_filesystem(settings)
    live = settings.mount is not None or apply is not None
    there = files.targets(apply) if settings.targets or live else known_targets(store, targets, about.mount)
    if apply is not None and not (shadow and settings.targets):  # of which nothing can be asked here, perhaps
        there = files.restrict(there, apply)
    check_usable(there, settings.name or "the file system")
    now = time.time()
    request = JobRequest(
        app=app,
        nprocs=procs,
        now=now,
        chance=random.random(),
        job=job,
        until=now + seconds,
        system=settings.name or about.mount or "default",
        filesystem=about.mount,
    )
    advice = advise(store, request, chosen, files, there, read_loads(settings), apply_to=apply, shadow=shadow)
    return replace(advice, notes=(about.because, *advice.notes)) if about.because else advice


def _settings(system: Path | None, targets: int | None) -> Settings:
    from forebay.act.filesystems.settings import Settings, read_settings

    if system is None:
        return Settings(kind="lustre", targets=targets)
    if targets is not None:
        raise BadInput("--targets", "the file of --system says that")
    return read_settings(system)


def _document(advice: Advice) -> dict[str, Any]:
    from forebay.act.command import format_command

    return {
        "app": advice.request.app,
        "nprocs": advice.request.nprocs,
        "filesystem": advice.request.filesystem,
        "job": advice.request.job,
        "policy": advice.policy,
        "phase": advice.striping.phase,
        "stripe_count": advice.layout.count,
        "stripe_size": advice.layout.size,
        "stripe_offset": advice.layout.start,
        "targets": advice.striping.targets,
        "because": advice.striping.reason,
        "runs": advice.striping.runs,
        "partial_runs": advice.partial_runs,
        "notes": advice.notes,
        "command": format_command(advice.command),
        "outcome": advice.outcome,
        "lease_until": advice.request.until if advice.request.job and advice.outcome != "shadow" else None,
    }


def _print(advice: Advice) -> None:
    from forebay.act.command import format_command
    from forebay.act.filesystems.filesystem import describe_layout

    typer.echo(f"{describe_layout(advice.layout)} ({advice.policy}, {advice.striping.phase})")
    typer.echo(f"  because {advice.striping.reason}")
    if advice.striping.runs:
        typer.echo(f"  runs it rests on: {ranges(advice.striping.runs)} (forebay history show RUN)")
    if advice.partial_runs:
        typer.echo(f"  {advice.partial_runs} of its runs have partial logs, and count for less or not at all")
    for note in advice.notes:
        typer.echo(f"  {note}")
    done = {"applied": "done, and read back: ", "shadow": "in shadow mode, nothing is touched: ", "advised": ""}
    typer.echo(f"{done[advice.outcome]}{format_command(advice.command)}")
