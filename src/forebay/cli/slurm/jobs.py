"""`forebay slurm prolog` and `epilog`: what is done before and after each job, for Slurm or any other batch system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import ForebayError
from forebay.show.options import Json
from forebay.show.output import print_json

if TYPE_CHECKING:
    from forebay.act.slurm.jobs.job import Job, JobOptions
    from forebay.act.slurm.jobs.settings import JobSettings

CONFIG = Path("/etc/forebay/slurm.toml")
Config = Annotated[
    Path, typer.Option(help="What is to be done, a TOML file; examples/slurm.toml explains it.", metavar="FILE")
]
JobId = Annotated[str, typer.Option("--job", help="The job [default: $SLURM_JOB_ID].", show_default=False)]
User = Annotated[str, typer.Option(help="Whose job it is [default: $SLURM_JOB_USER].", show_default=False)]


commands = typer.Typer()


@commands.command(epilog="Example: forebay slurm prolog --config slurm.toml --job 4711 --user ann --nprocs 64 --env")
def prolog(
    config: Config = CONFIG,
    job: JobId = "",
    user: User = "",
    name: Annotated[str, typer.Option(help="The job's name [default: $SLURM_JOB_NAME].", show_default=False)] = "",
    app: Annotated[str, typer.Option(help="The program [default: by the job's name].", show_default=False)] = "",
    nprocs: Annotated[
        int, typer.Option(help="Number of processes [default: Slurm's tasks].", min=0, show_default=False)
    ] = 0,
    env: Annotated[bool, typer.Option("--env", help='Print what the job is told for a shell: eval "$(...)".')] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the file, and prepare what takes time at first.")
    ] = False,
    json: Json = False,
) -> None:
    """Prepare a job: folder layout, targets, environment. Always ends with 0, in time."""
    from forebay.act.slurm.jobs.job import JobOptions

    if check:
        _check(config, json)
        return
    said = JobOptions(job=job, user=user, name=name, app=app, nprocs=nprocs)
    _guarded(
        "prolog", config, said, lambda rules: rules.jobs.limit, lambda r, j: _before(r, j, said, env=env, json=json)
    )


@commands.command(epilog="Example: forebay slurm epilog --config slurm.toml --job 4711 --user ann")
def epilog(config: Config = CONFIG, job: JobId = "", user: User = "", json: Json = False) -> None:
    """Tidy up after a job: free its targets, ingest its Darshan logs. Always ends with 0."""
    from forebay.act.slurm.jobs.job import JobOptions

    said = JobOptions(job=job, user=user)
    _guarded("epilog", config, said, lambda rules: rules.epilog_limit, lambda r, j: _after(r, j, json=json))


def _guarded(
    what: str,
    config: Path,
    said: JobOptions,
    limit: Callable[[JobSettings], float],
    work: Callable[[JobSettings, Job], dict[str, Any]],
) -> None:
    """Do it in time, or not at all; what went wrong is a line in the log. A batch system takes a node out of service
    whose prolog fails, and holds the job: nothing that we do for a job is worth that."""
    import os

    from forebay.act.log import Log
    from forebay.act.slurm.jobs.job import identify_job
    from forebay.act.slurm.jobs.settings import read_job_settings
    from forebay.act.slurm.jobs.time_limit import run_within

    log, named = Log(), said.job or os.environ.get("SLURM_JOB_ID", "")

    def worked() -> None:
        words = work(rules, job)
        (log.warning if words.get("trouble") else log.info)(what, job=named, **words)

    try:
        rules = read_job_settings(config)
        job = identify_job(said, os.environ)
        trouble = run_within(limit(rules), lambda: _told(log, what, named, worked))
    except Exception as error:
        trouble = _one_line(error)
    if trouble:
        log.error(what, job=named, trouble=trouble)


def _told(log: Any, what: str, job: str, work: Callable[[], None]) -> None:
    """The work, and of all that can go wrong a line."""
    try:
        work()
    except Exception as error:
        log.error(what, job=job, trouble=_one_line(error))


def _one_line(error: Exception) -> str:

    words = str(error) if isinstance(error, ForebayError | OSError) else f"internal error: {error!r}"
    return " ".join(words.split())


def _before(rules: JobSettings, job: Job, said: JobOptions, *, env: bool, json: bool) -> dict[str, Any]:
    import os
    import random
    import time

    from forebay.act.slurm.jobs.environment import export_lines
    from forebay.act.slurm.jobs.job import query_controller
    from forebay.act.slurm.jobs.prolog import run_prolog
    from forebay.history.store import open_store

    in_slurm = rules.jobs.ask and job.job == os.environ.get("SLURM_JOB_ID")
    with open_store(rules.jobs.db) as store:
        found = run_prolog(
            store,
            rules,
            job,
            lambda one: query_controller(one, said) if in_slurm else one,
            now=time.time(),
            chance=random.random(),
        )
    if json:
        print_json({"job": job.job, "app": found.app, "mode": rules.jobs.mode, "environment": found.environment,
                    **found.log_fields, "troubles": found.troubles})  # fmt: skip
    elif env:
        for line in export_lines(found.environment):
            typer.echo(line)
    trouble = {"trouble": "; ".join(found.troubles)} if found.troubles else {}
    return {"app": found.app, "mode": rules.jobs.mode, **found.log_fields, **trouble}


def _after(rules: JobSettings, job: Job, *, json: bool) -> dict[str, Any]:
    import time

    from forebay.act.slurm.jobs.epilog import run_epilog
    from forebay.history.store import open_store

    with open_store(rules.jobs.db) as store:
        found = run_epilog(store, rules, job, now=time.time())
    words: dict[str, Any] = {"freed": found.freed, "logs_read": found.logs.read, "logs_known": found.logs.known}
    if json:
        print_json({"job": job.job, **words, "troubles": found.troubles})
    return words | ({"trouble": "; ".join(found.troubles)} if found.troubles else {})


def _check(config: Path, json: bool) -> None:
    """All that can be told before a job comes; here, what is wrong is an error."""
    from forebay.act.slurm.jobs.decision import check_policies
    from forebay.act.slurm.jobs.settings import read_job_settings
    from forebay.act.slurm.jobs.target_share import warm_up
    from forebay.history.store import open_store

    rules = read_job_settings(config)
    check_policies(rules)
    with open_store(rules.jobs.db) as store:
        where = store.where
    if rules.targets is not None:
        warm_up(rules.targets)
    if json:
        print_json({"file": str(config), "mode": rules.jobs.mode, "history": where, "folder": str(rules.jobs.folder)})
    else:
        typer.echo(f"{config}: valid: {rules.jobs.mode} mode, history {where}")
