"""`forebay slurm`: burst buffers for Slurm's jobs, and a prolog and epilog for jobs of any batch system."""

from __future__ import annotations

import os
import random
import shlex
import sys
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.cli.storage.connection import Service, Token, open_client
from forebay.model.errors import BadInput, ForebayError, Refused, UserError
from forebay.model.units import parse_duration
from forebay.show.options import Json, parse_quantity
from forebay.show.output import Document, print_json, print_lines

if TYPE_CHECKING:
    from forebay.act.slurm.burst_buffer.installation import Hooks, PlannedFile
    from forebay.act.slurm.burst_buffer.reconcile import Action
    from forebay.act.slurm.jobs.job import Job
    from forebay.act.slurm.jobs.settings import JobSettings
    from forebay.history.store import Store

app = typer.Typer(help="Connect Slurm: burst buffers for jobs, prolog and epilog.", no_args_is_help=True)

CONFIG = Path("/etc/forebay/slurm.toml")
Config = Annotated[Path, typer.Option(help="TOML file with the settings, as in examples/slurm.toml.", metavar="FILE")]
JobId = Annotated[str, typer.Option("--job", help="The job [default: $SLURM_JOB_ID].", show_default=False)]
User = Annotated[str, typer.Option(help="The job's owner [default: $SLURM_JOB_USER].", show_default=False)]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with slurm.conf.", show_default=False)]
Cluster = Annotated[str, typer.Option(help="Slurm's ClusterName [default: from slurm.conf].", show_default=False)]
Conf = Annotated[Path | None, typer.Option(help="Slurm's slurm.conf [default: where Slurm finds it].")]
Longest = Annotated[str, typer.Option(help="How long a job without a time limit keeps its space.")]
Margin = Annotated[str, typer.Option(help="Extra time for stage-out after the job.")]
Queue = Annotated[str, typer.Option(help="Extra time for a job that waits to start.")]


@app.command(epilog="Example: forebay slurm prolog --config slurm.toml --job 4711 --user ann --nprocs 64 --env")
def prolog(
    config: Config = CONFIG,
    job: JobId = "",
    user: User = "",
    name: Annotated[str, typer.Option(help="The job's name [default: $SLURM_JOB_NAME].", show_default=False)] = "",
    app: Annotated[str, typer.Option(help="The program [default: by the job's name].", show_default=False)] = "",
    nprocs: Annotated[int, typer.Option(help="Processes [default: Slurm's tasks].", min=0, show_default=False)] = 0,
    env: Annotated[bool, typer.Option("--env", help='Print the job\'s variables for a shell: eval "$(...)".')] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the file, and compile what jobs need.")] = False,
    json: Json = False,
) -> None:
    """Prepare a job: layout, targets, environment. Always exits with 0."""
    if check:
        _check_config(config, json)
        return

    def prepare(store: Store, settings: JobSettings, job: Job) -> Document:
        from forebay.act.slurm.jobs.job import query_controller
        from forebay.act.slurm.jobs.prolog import export_lines, run_prolog

        def ask_slurm(job: Job) -> Job:
            in_slurm = settings.jobs.ask and job.job == os.environ.get("SLURM_JOB_ID")
            return query_controller(job, nprocs) if in_slurm else job

        prepared = run_prolog(store, settings, job, ask_slurm, now=clock.time(), chance=random.random())
        fields = {"app": prepared.app, "mode": settings.jobs.mode}
        if json:
            more = {"environment": prepared.environment, **prepared.log_fields, "troubles": prepared.troubles}
            print_json({"job": job.job, **fields, **more})
        elif env:
            for line in export_lines(prepared.environment):
                typer.echo(line)
        return {**fields, **prepared.log_fields, **_join_troubles(prepared.troubles)}

    _run_hook("prolog", config, prepare, job=job, user=user, name=name, app=app, nprocs=nprocs)


@app.command(epilog="Example: forebay slurm epilog --config slurm.toml --job 4711 --user ann")
def epilog(config: Config = CONFIG, job: JobId = "", user: User = "", json: Json = False) -> None:
    """Clean up after a job: free targets, ingest logs. Always exits with 0."""

    def clean_up(store: Store, settings: JobSettings, job: Job) -> Document:
        from forebay.act.slurm.jobs.epilog import run_epilog

        outcome = run_epilog(store, settings, job, now=clock.time())
        counts = {"freed": outcome.freed, "logs_read": outcome.logs.read, "logs_known": outcome.logs.known}
        if json:
            print_json({"job": job.job, **counts, "troubles": outcome.troubles})
        return counts | _join_troubles(outcome.troubles)

    _run_hook("epilog", config, clean_up, job=job, user=user)


def _run_hook(
    hook: str, config: Path, work: Callable[[Store, JobSettings, Job], Document], *, job: str, **options: Any
) -> None:
    """Do the work for a job within its time limit; log what it returns, or the error.

    Never fails: a batch system drains a node whose prolog fails, and holds the job.
    """
    from forebay.act.command import run_within
    from forebay.act.log import Log
    from forebay.act.slurm.jobs.job import identify_job
    from forebay.act.slurm.jobs.settings import read_job_settings
    from forebay.history.store import open_store

    log, name = Log(), job or os.environ.get("SLURM_JOB_ID", "")

    def log_trouble(error: Exception) -> None:
        known = isinstance(error, ForebayError | OSError)
        log.error(hook, job=name, trouble=" ".join((str(error) if known else f"internal error: {error!r}").split()))

    def work_and_log() -> None:
        try:
            with open_store(settings.jobs.db) as store:
                fields = work(store, settings, identified)
            (log.warning if fields.get("trouble") else log.info)(hook, job=name, **fields)
        except Exception as error:
            log_trouble(error)

    try:
        settings = read_job_settings(config)
        identified = identify_job(os.environ, job=job, **options)
        limit = settings.epilog_limit if hook == "epilog" else settings.jobs.limit
        trouble = run_within(limit, work_and_log)
    except Exception as error:
        log_trouble(error)
    else:
        if trouble:
            log.error(hook, job=name, trouble=trouble)


def _join_troubles(troubles: Sequence[str]) -> dict[str, str]:
    return {"trouble": "; ".join(troubles)} if troubles else {}


def _check_config(config: Path, json: bool) -> None:
    """Check everything that can be checked without a job. Unlike a hook, this raises errors."""
    from forebay.act.slurm.jobs.decision import check_policies, warm_up
    from forebay.act.slurm.jobs.settings import read_job_settings
    from forebay.history.store import open_store

    settings = read_job_settings(config)
    check_policies(settings)
    mode, folder = settings.jobs.mode, str(settings.jobs.folder)
    with open_store(settings.jobs.db) as store:
        where = store.where
    if settings.targets is not None:
        warm_up(settings.targets)
    if json:
        print_json({"file": str(config), "mode": mode, "history": where, "folder": folder})
    else:
        typer.echo(f"{config}: valid: {mode} mode, history {where}")


@app.command(epilog="Example: forebay slurm install /etc/slurm --service unix:/run/forebay/service.sock")
def install(
    folder: Folder,
    service: Service = None,
    cluster: Cluster = "",
    token: Annotated[Path | None, typer.Option(help="Administrator's token, if slurmctld is not root.")] = None,
    time: Longest = "1d",
    margin: Margin = "1h",
    queue: Queue = "1h",
    wait: Annotated[str, typer.Option(help="How long a job waits for space; then Slurm holds it.")] = "10min",
    patience: Annotated[str, typer.Option(help="How long to wait for a service that does not answer.")] = "1min",
    job_submit: Annotated[bool, typer.Option(help="Also write job_submit.lua, which completes requests.")] = True,
    jobs: Annotated[
        Path | None, typer.Option(help="Also write prolog and epilog with this file (examples/slurm.toml).")
    ] = None,
    log: Annotated[Path, typer.Option(help="Log file of these scripts.")] = Path("/var/log/forebay-jobs.log"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
    json: Json = False,
) -> None:
    """Write Slurm's files for burst buffers beside slurm.conf.

    Prints the lines to put into slurm.conf itself.
    """
    from forebay.act.control.client import service_of
    from forebay.act.slurm.burst_buffer import installation
    from forebay.act.slurm.jobs.settings import read_job_settings

    conf, script = folder.absolute() / "slurm.conf", Path(sys.argv[0]).absolute()
    is_installed = script.name == "forebay"
    name = cluster or installation.read_conf(folder, "ClusterName")
    if not name:
        raise BadInput("--cluster", f"{conf} is missing or has no ClusterName; give the name of the cluster")
    state = installation.read_conf(folder, "StateSaveLocation")
    hooks = installation.Hooks(
        service=str(service_of(service)),
        cluster=name,
        command=shlex.quote(str(script)) if is_installed else f"{shlex.quote(sys.executable)} -m forebay",
        conf=str(conf) if conf.is_file() else "",
        state=state if state.startswith("/") else "",
        token="" if token is None else str(token.absolute()),
        **_parse_times(time=time, margin=margin, queue=queue, wait=wait, patience=patience),
    )
    texts = installation.burst_buffer_files(hooks, job_submit=job_submit)
    if jobs is not None:
        job_folder = read_job_settings(jobs).jobs.folder
        texts |= installation.fill_scripts(hooks.command, jobs.absolute(), job_folder, log.absolute(), hooks.conf)
    planned = installation.plan_files(folder, texts)
    others = [file for file in planned if file.state == "other"]
    if others and not force:
        typer.echo("\n".join(line for file in others for line in file.difference()), err=True)
        names = ", ".join(str(file.path) for file in others)
        raise Refused(f"wrote nothing, because these files differ: {names}; overwrite them with --force")
    for file in planned:
        if file.state != "same":
            file.write()
    lines = installation.conf_lines(folder.absolute(), job_submit=job_submit, jobs=jobs is not None)
    _report_installation(planned, hooks, lines, json)


def _parse_times(**texts: str) -> dict[str, float]:
    """Parse durations of options, by name. The caller checks their range."""
    return {name: parse_quantity(f"--{name}", text, parse_duration, lambda _: True) for name, text in texts.items()}


def _report_installation(planned: Sequence[PlannedFile], hooks: Hooks, lines: Sequence[str], json: bool) -> None:
    done = {"new": "written", "same": "as it is", "other": "overwritten"}
    files = [{"path": str(file.path), "done": done[file.state]} for file in planned]
    if json:
        print_json({"files": files, "slurm.conf": list(lines), "cluster": hooks.cluster, "socket": hooks.socket})
        return
    for file in files:
        typer.echo(f"{file['path']}: {file['done']}")
    typer.echo("\nslurm.conf needs these lines (restart slurmctld once; later changes to the files need no restart):")
    for line in lines:
        typer.echo(f"  {line}")
    caller = "the token's owner" if hooks.token else "root"
    typer.echo(
        f"\nThe hooks call {hooks.socket} as {caller}."
        "\nInstall lua-socket and lua-cjson where slurmctld runs."
        "\nThere, run this command every few minutes (with cron or a timer). It repairs jobs that cannot start, and"
        "\nreleases space that a lost teardown left behind:"
        f"\n  forebay slurm reconcile --service unix:{hooks.socket} --cluster {hooks.cluster}"
        "\nA job requests space with one line of its script:\n  #BB_LUA capacity=500GB"
        "\nand finds it at $FOREBAY_PATH. More options: tier=nvme time=2h stage_in=/PATH:NAME stage_out=NAME:/PATH"
    )


@app.command(epilog="Example: forebay slurm check /etc/slurm")
def check(folder: Folder, service: Service = None, token: Token = None, json: Json = False) -> None:
    """Check the files, slurm.conf, the Lua modules and the service."""
    from forebay.act.slurm.burst_buffer.installation import check_installation

    with open_client(service, token) as client:
        client.patience = 1.0
        checks = check_installation(folder, client)
    if json:
        print_json([{**asdict(check), "words": check.message} for check in checks])
    else:
        for check in checks:
            print_lines(f"{'ok ' if check.fine else 'NOT'} {check.what}: {check.message}")
    if not all(check.fine for check in checks):
        raise Refused(f"not ready: {', '.join(check.what for check in checks if not check.fine)}")


@app.command(epilog="Example: forebay slurm stage in --volume /fast/3f0c.0 --uid 1000 --gid 1000 -- /home/ann/in in")
def stage(
    way: Annotated[str, typer.Argument(metavar="in|out", help="Into the volume, or out of it.")],
    pairs: Annotated[list[str], typer.Argument(metavar="FROM TO...", help="What to copy where.", show_default=False)],
    volume: Annotated[list[Path], typer.Option(help="The volume's folder; repeat it for a split grant.")],
    uid: Annotated[int, typer.Option(help="Uid of the job's owner.", min=1, max=2**32 - 2)],
    gid: Annotated[int, typer.Option(help="Gid of the job's owner.", min=1, max=2**32 - 2)],
) -> None:
    """Copy files into a job's space, or out of it, as its user.

    Slurm's hooks call this on the controller if the service does not answer, so that its storage nodes copy nothing.
    """
    from forebay.act.slurm.burst_buffer.staging import stage_in, stage_out
    from forebay.act.staging.process import take_rights

    if way not in ("in", "out"):
        raise BadInput("in|out", f"must be 'in' or 'out', not {way!r}")
    if len(pairs) % 2:
        raise BadInput("FROM TO...", "must be pairs; the last FROM has no TO")
    take_rights(uid, gid)
    copies = list(zip(pairs[::2], pairs[1::2], strict=True))
    stage_in(volume[0], copies) if way == "in" else stage_out(volume, copies)


@app.command(epilog="Example: forebay slurm reconcile --cluster hpc --every 5min")
def reconcile(
    cluster: Annotated[str, typer.Option(help="Slurm's ClusterName.")],
    conf: Conf = None,
    every: Annotated[str | None, typer.Option(help="Repeat at this interval.")] = None,
    time: Longest = "1d",
    margin: Margin = "1h",
    queue: Queue = "1h",
    grace: Annotated[str, typer.Option(help="How long to ignore a new grant.")] = "2min",
    json: Json = False,
    service: Service = None,
    token: Token = None,
) -> None:
    """Repair stuck jobs; release the space of jobs that are gone.

    Also extends space that ends before its job. Prints what it did. For each job that it cannot repair, prints the
    reason and what to do.
    """
    from forebay.act.slurm.burst_buffer.reconcile import Terms, reconcile

    pause = None if every is None else _parse_times(every=every)["every"]
    if pause is not None and not pause >= 1:
        raise BadInput("--every", "must be at least 1 s")
    terms = Terms(**_parse_times(time=time, margin=margin, queue=queue, grace=grace))
    while True:
        actions = []
        with open_client(service, token) as client:
            try:
                actions = reconcile(client, cluster, conf, terms)
            except UserError as error:
                if pause is None:
                    raise
                print_lines(f"forebay: {error}", err=True)
        _print_actions(actions, json)
        if pause is None:
            return
        clock.sleep(pause)


def _print_actions(actions: list[Action], json: bool) -> None:
    if json:
        fields = ("grant", "job", "what", "because", "advice")
        print_json([{name: getattr(action, name) for name in fields} for action in actions])
        return
    outcomes = {"requeue": "requeued", "unhold": "released from hold", "report": "cannot start"}
    for action in actions:
        subject = f"grant {action.grant}" if action.grant else f"job {action.job}"
        what = action.what if action.grant else outcomes.get(action.what, action.what)
        print_lines(f"{subject}: {what}: {action.because}" + (f"; {action.advice}" if action.advice else ""))
