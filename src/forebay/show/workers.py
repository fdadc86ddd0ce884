"""Who does the work of a command: what the user says, what the configuration adds, and what to print meanwhile."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from forebay.act.command import run_unchecked
from forebay.history.toml import BytesWithUnit, Field, OpenTable, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput
from forebay.work import Dask, Slurm, Workers, parse_workers

_COMMAND = 20.0
"""Seconds for an answer of Slurm's commands; they wait ten for a controller that is away."""


class SlurmTable(Table):
    """`[workers.slurm]`."""

    partition: str | None = None
    """The partition. [default: the cluster's]"""
    account: str | None = None
    """Whom to charge. [default: the user's own]"""
    time: str = "01:00:00"
    """The time limit of a job; what is finished by then is kept."""
    memory: BytesWithUnit = 2e9
    """The memory of a job."""
    cores: Annotated[int, Field(ge=1, le=4096)] = 1
    """The cores of a job; it has a worker on each."""
    interface: str | None = None
    """The network by which workers reach the machine that you type on. [default: Dask's choice]"""
    directives: list[str] = Field(default_factory=list)
    """More lines for sbatch, like --qos=low."""
    wait: Seconds = 600
    """How long to wait for the first worker."""
    logs: str | None = None
    """A folder for what workers print. [default: nowhere]"""


class _Workers(Table):
    slurm: SlurmTable = SlurmTable()
    """What the jobs of `--workers slurm:N` ask Slurm for."""


class _Configuration(OpenTable):
    workers: _Workers = _Workers()
    """Who does the work of commands with `--workers`."""


@contextmanager
def hire_workers(text: str | None) -> Iterator[Workers]:
    """Those that `--workers` names, looked over and ready; what was started for it ends with the context."""
    wanted = parse_workers(text)
    if isinstance(wanted, Dask):
        from forebay.work.dask import connect_workers

        with connect_workers(wanted.address, _announce) as crew:
            yield crew
    elif isinstance(wanted, Slurm):
        from forebay.work.dask import start_slurm_workers

        options, where = read_slurm_options()
        asked = options.model_dump()
        with start_slurm_workers(wanted.count, asked, lambda script: _check_job(script, where), _announce) as crew:
            yield crew
    else:
        yield wanted


def _announce(message: str) -> None:
    typer.echo(f"forebay: {message}", err=True)


def find_configuration() -> Path | None:
    """$FOREBAY_CONFIG, or forebay.toml here, or that of the user; None if there is none."""
    named = os.environ.get("FOREBAY_CONFIG")
    if named:
        return Path(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return next((path for path in (Path("forebay.toml"), home / "forebay" / "forebay.toml") if path.is_file()), None)


def read_slurm_options() -> tuple[SlurmTable, str]:
    """What jobs are to ask for, and where it says so."""
    path = find_configuration()
    if path is None:
        return SlurmTable(), "forebay.toml (there is none): [workers.slurm]"
    table = validate(path, load_toml(path), _Configuration).workers.slurm
    if table.memory < 1e6:
        raise BadInput(f"{path}: workers.slurm.memory", f"must be at least 1 MB, not {table.memory:g} bytes")
    return table, f"{path}: [workers.slurm]"


def _check_job(script: str, where: str) -> None:
    """Ask Slurm whether it would take such a job at all."""
    with tempfile.NamedTemporaryFile("w", prefix="forebay-", suffix=".sh") as file:
        file.write(script)
        file.flush()
        done = run_unchecked(["sbatch", "--test-only", file.name], timeout=_COMMAND)
    if done.code:
        reason = done.reason.removeprefix("sbatch: ").removeprefix("error: ")
        if "partition" in reason.lower():
            sinfo = run_unchecked(["sinfo", "--noheader", "--format=%R"], timeout=_COMMAND)
            names = ", ".join(sorted(set(sinfo.out.split())))
            reason += f"; there are: {names}" if names else ""
        raise BadInput(where, f"Slurm would refuse the job: {reason}")
