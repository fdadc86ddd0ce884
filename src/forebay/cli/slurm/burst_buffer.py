"""`forebay slurm`: burst buffers for Slurm's jobs, and what is done before and after them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.storage.connection import Service, Token
from forebay.model.errors import BadInput, Refused, UserError
from forebay.model.units import parse_duration
from forebay.show.options import Json
from forebay.show.output import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.act.control.client import Client
    from forebay.act.slurm.burst_buffer.installation import Hooks, PlannedFile
    from forebay.act.slurm.burst_buffer.reconcile import Action, Terms

commands = typer.Typer()

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder with slurm.conf.", show_default=False)]
Cluster = Annotated[str, typer.Option(help="Slurm's ClusterName [default: what slurm.conf says].", show_default=False)]
Conf = Annotated[Path | None, typer.Option(help="Slurm's slurm.conf [default: where Slurm finds it].")]
Longest = Annotated[str, typer.Option(help="For how long a job without a time limit gets its space.")]
Margin = Annotated[str, typer.Option(help="How much longer than its job space lasts, for stage-out.")]
Queue = Annotated[str, typer.Option(help="How much longer it lasts for jobs that wait before they start.")]


@commands.command(epilog="Example: forebay slurm install /etc/slurm --service unix:/run/forebay/service.sock")
def install(
    folder: Folder,
    service: Service = None,
    cluster: Cluster = "",
    token: Annotated[
        Path | None, typer.Option(help="A file with an administrator's token, if slurmctld does not run as root.")
    ] = None,
    time: Longest = "1d",
    margin: Margin = "1h",
    queue: Queue = "1h",
    wait: Annotated[str, typer.Option(help="How long a job waits for space that others hold, before it is held.")] = (
        "10min"
    ),
    patience: Annotated[str, typer.Option(help="How long to wait for a service that is away.")] = "1min",
    job_submit: Annotated[
        bool, typer.Option(help="With job_submit.lua, which makes `#BB_LUA capacity=500GB` enough.")
    ] = True,
    jobs: Annotated[
        Path | None,
        typer.Option(help="Also scripts before and after jobs, as this TOML file says (examples/slurm.toml)."),
    ] = None,
    log: Annotated[Path, typer.Option(help="Where these scripts write lines.")] = Path("/var/log/forebay-jobs.log"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
    json: Json = False,
) -> None:
    """Write Slurm's files for burst buffers beside slurm.conf.

    Prints the lines to put into slurm.conf itself.
    """
    from forebay.act.control.client import service_of
    from forebay.act.slurm.burst_buffer.installation import (
        Hooks,
        burst_buffer_files,
        conf_lines,
        job_scripts,
        plan_files,
        read_cluster,
        read_state_folder,
        write_planned,
    )

    conf = folder.absolute() / "slurm.conf"
    hooks = Hooks(
        service=str(service_of(service)),
        cluster=cluster or read_cluster(folder) or _no_cluster(),
        command=_own_command(),
        conf=str(conf) if conf.is_file() else "",
        state=read_state_folder(folder),
        token="" if token is None else str(token.absolute()),
        **{name: _seconds(name, text) for name, text in
           {"time": time, "margin": margin, "queue": queue, "wait": wait, "patience": patience}.items()},
    )  # fmt: skip
    more = {} if jobs is None else job_scripts(hooks, jobs.absolute(), log.absolute())
    planned = plan_files(folder, burst_buffer_files(hooks, job_submit=job_submit) | more)
    _refuse_others(planned, force)
    for one in planned:
        if one.state != "same":
            write_planned(one)
    lines = conf_lines(folder.absolute(), job_submit=job_submit, jobs=jobs is not None)
    _say_installed(planned, hooks, lines, json)


def _no_cluster() -> str:
    raise BadInput("--cluster", "slurm.conf is not in that folder, or names no cluster; say its ClusterName")


def _own_command() -> str:
    """How this program can be started again, by anybody."""
    import shlex
    import sys

    script = Path(sys.argv[0]).absolute()
    return shlex.quote(str(script)) if script.name == "forebay" else f"{shlex.quote(sys.executable)} -m forebay"


def _seconds(name: str, text: str) -> float:

    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadInput(f"--{name}", str(error)) from None


def _refuse_others(planned: Sequence[PlannedFile], force: bool) -> None:
    others = [one for one in planned if one.state == "other"]
    if others and not force:
        for one in others:
            for line in one.difference:
                typer.echo(line, err=True)
        names = ", ".join(str(one.path) for one in others)
        raise Refused(f"nothing is written: not as they would be: {names}; --force overwrites them")


_DONE = {"new": "written", "same": "as it is", "other": "overwritten"}


def _say_installed(planned: Sequence[PlannedFile], hooks: Hooks, lines: Sequence[str], json: bool) -> None:

    found = [(str(one.path), _DONE[one.state]) for one in planned]
    if json:
        rows = [{"path": path, "done": done} for path, done in found]
        print_json({"files": rows, "slurm.conf": list(lines), "cluster": hooks.cluster, "socket": hooks.socket})
        return
    for path, done in found:
        typer.echo(f"{path}: {done}")
    typer.echo("\nslurm.conf must say (then restart slurmctld once; later changes of the files need no restart):")
    for line in lines:
        typer.echo(f"  {line}")
    who = "root" if not hooks.token else "whoever may read the token"
    typer.echo(
        f"\nThe hooks speak to {hooks.socket} as {who}."
        "\nlua-socket and lua-cjson must be installed where slurmctld runs."
        "\nHave this run every few minutes there (cron or a timer): it repairs jobs that can't start, and gives back"
        "\nwhat a lost teardown left behind:"
        f"\n  forebay slurm reconcile --service unix:{hooks.socket} --cluster {hooks.cluster}"
        "\nA job asks for its space with one line of its script:\n  #BB_LUA capacity=500GB"
        "\nand finds it at $FOREBAY_PATH. More words: tier=nvme time=2h stage_in=/PATH:NAME stage_out=NAME:/PATH"
    )


@commands.command(epilog="Example: forebay slurm check /etc/slurm")
def check(folder: Folder, service: Service = None, token: Token = None, json: Json = False) -> None:
    """Check files, slurm.conf, Lua modules and the service."""
    from forebay.act.slurm.burst_buffer.installation import check_installation

    with _client(service, token) as client:
        client.patience = 1.0
        found = check_installation(folder, client)
    if json:
        print_json([{"what": one.what, "fine": one.fine, "words": one.words} for one in found])
    else:
        for one in found:
            typer.echo(f"{'ok ' if one.fine else 'NOT'} {one.what}: {one.words}")
    if not all(one.fine for one in found):
        raise Refused(f"not ready: {', '.join(one.what for one in found if not one.fine)}")


@commands.command(
    epilog="Example: forebay slurm stage in --volume /fast/3f0c.0 --uid 1000 --gid 1000 -- /home/ann/in in"
)
def stage(
    way: Annotated[str, typer.Argument(metavar="in|out", help="Into the volume, or out of it.")],
    pairs: Annotated[list[str], typer.Argument(metavar="FROM TO...", help="What goes where.", show_default=False)],
    volume: Annotated[list[Path], typer.Option(help="The volume's folder; of a split grant, repeated.")],
    uid: Annotated[int, typer.Option(help="As whom.", min=1, max=2**32 - 2)],
    gid: Annotated[int, typer.Option(help="With which group.", min=1, max=2**32 - 2)],
) -> None:
    """Copy files into a job's space, or out of it, as its user. The hooks of Slurm call this."""
    from forebay.act.slurm.burst_buffer.staging import become_user, stage_in, stage_out

    if way not in ("in", "out"):
        raise BadInput("in|out", f"must be one of these, not {way!r}")
    if len(pairs) % 2:
        raise BadInput("FROM TO...", "must be pairs")
    become_user(uid, gid)
    told = list(zip(pairs[::2], pairs[1::2], strict=True))
    stage_in(volume[0], told) if way == "in" else stage_out(volume, told)


@commands.command(epilog="Example: forebay slurm reconcile --cluster hpc --every 5min")
def reconcile(
    cluster: Annotated[str, typer.Option(help="Slurm's ClusterName.")],
    conf: Conf = None,
    every: Annotated[str | None, typer.Option(help="Again and again, at this interval.", show_default=False)] = None,
    time: Longest = "1d",
    margin: Margin = "1h",
    queue: Queue = "1h",
    grace: Annotated[str, typer.Option(help="For how long a new grant is left alone.")] = "2min",
    json: Json = False,
    service: Service = None,
    token: Token = None,
) -> None:
    """Repair stuck jobs; give back the space of jobs that are gone.

    It extends space that ends before its job, tells what it did, and of each job that it can't repair the reason and
    what to do.
    """
    from forebay.act.slurm.burst_buffer.reconcile import Terms

    pause = None if every is None else _seconds("every", every)
    if pause is not None and not pause >= 1:
        raise BadInput("--every", "must be at least 1 s")
    told = {"time": time, "margin": margin, "queue": queue, "grace": grace}
    terms = Terms(**{name: _seconds(name, text) for name, text in told.items()})
    while True:
        with _client(service, token) as client:
            _print_actions(_reconcile(client, cluster, conf, terms, again=pause is not None), json)
        if pause is None:
            return
        _sleep(pause)


def _sleep(seconds: float) -> None:
    from time import sleep

    sleep(seconds)


def _reconcile(client: Client, cluster: str, conf: Path | None, terms: Terms, *, again: bool) -> list[Action]:
    """The actions. An error is printed, and ends this only if it does not run again anyway."""
    from forebay.act.slurm.burst_buffer import reconcile

    try:
        return reconcile.reconcile(client, cluster, conf, terms)
    except UserError as error:
        if not again:
            raise
        typer.echo(f"forebay: {error}", err=True)
        return []


_DONE_TO_JOBS = {"requeue": "requeued", "unhold": "released from hold", "report": "cannot start"}


def _print_actions(actions: list[Action], json: bool) -> None:

    if json:
        fields = ("grant", "job", "what", "because", "advice")
        print_json([{name: getattr(action, name) for name in fields} for action in actions])
        return
    for action in actions:
        who = f"grant {action.grant}" if action.grant else f"job {action.job}"
        what = action.what if action.grant else _DONE_TO_JOBS.get(action.what, action.what)
        typer.echo(f"{who}: {what}: {action.because}" + (f"; {action.advice}" if action.advice else ""))


def _client(service: str | None, token: Path | None) -> Client:
    from forebay.act.control.client import Client, service_of

    return Client(service_of(service), token=token)
