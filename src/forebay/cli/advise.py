"""`forebay advise`: how to stripe the files of a new job."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.history.run_fields import MOST_PROCESSES
from forebay.model.errors import BadInput
from forebay.model.units import parse_duration, plural
from forebay.show.options import Database, Json, parse_quantity
from forebay.show.output import Document, print_json, ranges

if TYPE_CHECKING:
    from forebay.act.advice import Advice
    from forebay.act.filesystems.filesystem import FileSystem
    from forebay.act.filesystems.settings import Settings
    from forebay.history.store import Store
    from forebay.model.layout import Target

commands = typer.Typer()


@commands.command(
    epilog="Example: forebay advise --app vpic.x --procs 512 --system scratch.toml --job $SLURM_JOB_ID --apply $PWD/out"
)
def advise(
    app: Annotated[str | None, typer.Option(help="The program that is about to run.")] = None,
    procs: Annotated[int | None, typer.Option(help="Its number of processes.")] = None,
    system: Annotated[Path | None, typer.Option(help="TOML file with a [filesystem] table.")] = None,
    filesystem: Annotated[Path | None, typer.Option(help="Use only runs on this file system.", metavar="MOUNT")] = None,
    policy: Annotated[str, typer.Option(help="Striping policy; NAME:option=value sets an option.")] = "forebay",
    targets: Annotated[
        int | None, typer.Option(help="Number of targets, if the history does not have it.", min=1, max=65535)
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Put new files on this OST pool (Lustre).", metavar="NAME")] = None,
    job: Annotated[str | None, typer.Option(help="Lease the targets to this job; no other job gets them.")] = None,
    lifetime: Annotated[str, typer.Option("--lease", help="Longest duration of the lease.")] = "24 h",
    release: Annotated[str | None, typer.Option(help="End the leases of this job.", metavar="JOB")] = None,
    apply: Annotated[Path | None, typer.Option(help="Set and verify the layout of this folder.", metavar="DIR")] = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="Only decide and record; change nothing.")] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Advise how to stripe the files of a new job, and say why."""
    from forebay.history.store import open_store

    if release is not None:
        if app is not None or procs is not None or apply is not None or pool is not None:
            raise BadInput("--release", "cannot be combined with --app, --procs, --apply or --pool")
        _release(db, release, json)
        return
    if app is None or procs is None:
        raise BadInput("--app" if app is None else "--procs", "is required")
    _check_options(app, procs, job, apply)
    at_most_a_year = (lambda seconds: 0 < seconds <= 366 * 86400), "must be longer than 0 s and at most a year"
    seconds = parse_quantity("--lease", lifetime, parse_duration, *at_most_a_year)
    from forebay.act.advice import JobRequest, advise, choose_filesystem, recorded_mount
    from forebay.act.filesystems.load import read_loads
    from forebay.act.filesystems.pools import read_pools
    from forebay.act.filesystems.settings import Settings, open_filesystem, read_settings
    from forebay.decide.registry import find

    with open_store(db, create=False) as store:
        if system is not None and targets is not None:
            raise BadInput("--targets", "cannot be combined with --system; set `targets` in its file")
        settings = Settings(kind="lustre", targets=targets) if system is None else read_settings(system)
        mount = recorded_mount(settings)
        if mount is not None and filesystem is not None:
            raise BadInput("--filesystem", f"leave it out: the file of --system already names {mount}")
        chosen = choose_filesystem(store, app, mount if filesystem is None else str(filesystem), apply)
        striper, files = find("stripe", policy), open_filesystem(settings)
        folder = None if shadow and settings.targets else apply  # which may be on another machine
        current = _list_targets(store, settings, files, chosen.mount, apply, folder, pool)
        now, leases = time.time(), settings.name or chosen.mount or "default"
        request = JobRequest(app=app, nprocs=procs, now=now, chance=random.random(), job=job, until=now + seconds)
        request = replace(request, system=leases, filesystem=chosen.mount)
        pools = read_pools(files, {} if pool else settings.pools, folder, store, chosen.mount)
        advice = advise(
            store, request, striper, files, current, read_loads(settings),
            apply_to=apply, shadow=shadow, pool=pool or "", pools=pools,
        )  # fmt: skip
    if chosen.because:
        advice = replace(advice, notes=(chosen.because, *advice.notes))
    print_json(_document(advice)) if json else _print(advice)


def _check_options(app: str, procs: int, job: str | None, apply: Path | None) -> None:
    if not 1 <= procs <= MOST_PROCESSES:
        raise BadInput("--procs", f"must be between 1 and {MOST_PROCESSES}, not {procs}")
    if not app:
        raise BadInput("--app", "must not be empty")
    if job is not None and not 0 < len(job) <= 200:
        raise BadInput("--job", "must have 1 to 200 characters")
    if apply is not None and not apply.is_dir():
        raise BadInput(str(apply), "is not a folder" if apply.exists() else "no such folder")


def _list_targets(
    store: Store,
    settings: Settings,
    files: FileSystem,
    mount: str | None,
    apply: Path | None,
    folder: Path | None,
    pool: str | None,
) -> tuple[Target, ...]:
    """The targets that new files in the folder can use."""
    from forebay.act.advice import check_usable, known_targets
    from forebay.act.filesystems.filesystem import exclude_targets

    if settings.targets or settings.mount is not None or apply is not None:
        current = files.targets(apply)
    else:
        current = known_targets(store, mount)
    if pool is not None:
        members = files.pool_targets(pool, folder)
        outside = {t.index: f"not in pool {pool}" for t in current if t.index not in members}
        current = exclude_targets(current, outside)
    if folder is not None:
        current = files.restrict(current, folder, pool or "")
    check_usable(current, settings.name or "the file system")
    return current


def _release(db: str | None, job: str, json: bool) -> None:
    from forebay.history.store import open_store
    from forebay.history.store.running_jobs import release_targets

    with open_store(db, create=False) as store, store.open_writer() as connection:
        count = release_targets(connection, job)
    outcome = f"{plural(count, 'target')} released" if count else "had no targets"
    print_json({"job": job, "released": count}) if json else typer.echo(f"job {job}: {outcome}")


def _document(advice: Advice) -> Document:
    from forebay.act.advice import list_components
    from forebay.act.command import format_command

    gain = advice.striping.gain
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
        "components": list_components(advice.layout),
        "pool": advice.layout.pool or None,
        "predicted_gain": gain and gain.factor,
        "predicted_gain_low": gain and gain.low,
        "predicted_gain_high": gain and gain.high,
        "targets": advice.striping.targets,
        "because": advice.striping.reason,
        "runs": advice.striping.runs,
        "partial_runs": advice.partial_runs,
        "notes": advice.notes,
        "command": format_command(advice.command),
        "undo": [format_command(command) for command in advice.undo],
        "outcome": advice.outcome,
        "lease_until": advice.request.until if advice.request.job and advice.outcome != "shadow" else None,
    }


def _print(advice: Advice) -> None:
    from forebay.act.command import format_command
    from forebay.act.filesystems.filesystem import describe_layout

    typer.echo(f"{describe_layout(advice.layout)} ({advice.policy}, {advice.striping.phase})")
    typer.echo(f"  because {advice.striping.reason}")
    if advice.striping.runs:
        typer.echo(f"  based on runs: {ranges(advice.striping.runs)} (forebay history show RUN)")
    if advice.partial_runs:
        typer.echo(f"  {advice.partial_runs} of its runs have partial logs and count less or not at all")
    for note in advice.notes:
        typer.echo(f"  {note}")
    prefixes = {"applied": "applied and verified: ", "shadow": "shadow mode, not applied: ", "advised": ""}
    typer.echo(f"{prefixes[advice.outcome]}{format_command(advice.command)}")
    if advice.undo:
        typer.echo(f"to restore the earlier layout: {' && '.join(map(format_command, advice.undo))}")
