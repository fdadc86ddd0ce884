"""The workers of a command: the option `--workers`, their configuration, and messages while they start."""

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
"""Time limit of Slurm's commands in seconds; they wait ten for an absent controller."""


class SlurmTable(Table):
    """`[workers.slurm]`."""

    partition: str | None = None
    """The partition. [default: the cluster's]"""
    account: str | None = None
    """The account to charge. [default: the user's]"""
    time: str = "01:00:00"
    """The time limit of a job; results that are finished by then are kept."""
    memory: BytesWithUnit = 2e9
    """The memory of a job."""
    cores: Annotated[int, Field(ge=1, le=4096)] = 1
    """The cores of a job; each runs one worker."""
    interface: str | None = None
    """The network interface through which workers reach this machine. [default: Dask's choice]"""
    directives: list[str] = Field(default_factory=list)
    """Additional options for sbatch, like --qos=low."""
    wait: Seconds = 600
    """How long to wait for the first worker."""
    logs: str | None = None
    """A folder for the output of workers. [default: discarded]"""


class _Workers(Table):
    slurm: SlurmTable = SlurmTable()
    """The resources that jobs of `--workers slurm:N` request."""


class _Configuration(OpenTable):
    workers: _Workers = _Workers()
    """The workers of commands with `--workers`."""


@contextmanager
def hire_workers(text: str | None) -> Iterator[Workers]:
    """Connect or start the workers that `--workers` names, and check them; started ones end with the context."""
    wanted = parse_workers(text)
    if isinstance(wanted, Dask):
        from forebay.work.dask import connect_workers

        with connect_workers(wanted.address, _announce) as crew:
            yield crew
    elif isinstance(wanted, Slurm):
        from forebay.work.dask import start_slurm_workers

        options, where = read_slurm_options()
        settings = options.model_dump()
        with start_slurm_workers(wanted.count, settings, lambda script: _check_job(script, where), _announce) as crew:
            yield crew
    else:
        yield wanted


def _announce(message: str) -> None:
    typer.echo(f"forebay: {message}", err=True)


def find_configuration() -> Path | None:
    """$FOREBAY_CONFIG, ./forebay.toml, or the user's forebay.toml; None if all are missing."""
    named = os.environ.get("FOREBAY_CONFIG")
    if named:
        return Path(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return next((path for path in (Path("forebay.toml"), home / "forebay" / "forebay.toml") if path.is_file()), None)


def read_slurm_options() -> tuple[SlurmTable, str]:
    """The resources that jobs request, and the place of these settings, for errors."""
    path = find_configuration()
    if path is None:
        return SlurmTable(), "[workers.slurm] (no forebay.toml found, defaults used)"
    table = validate(path, load_toml(path), _Configuration).workers.slurm
    if table.memory < 1e6:
        raise BadInput(f"{path}: workers.slurm.memory", f"must be at least 1 MB, not {table.memory:g} bytes")
    return table, f"{path}: [workers.slurm]"


def _check_job(script: str, where: str) -> None:
    """Ask Slurm whether it would accept this job."""
    with tempfile.NamedTemporaryFile("w", prefix="forebay-", suffix=".sh") as file:
        file.write(script)
        file.flush()
        done = run_unchecked(["sbatch", "--test-only", file.name], timeout=_COMMAND)
    if done.code:
        reason = done.reason.removeprefix("sbatch: ").removeprefix("error: ")
        if "partition" in reason.lower():
            sinfo = run_unchecked(["sinfo", "--noheader", "--format=%R"], timeout=_COMMAND)
            names = ", ".join(sorted(set(sinfo.out.split())))
            reason += f"; partitions: {names}" if names else ""
        raise BadInput(where, f"Slurm would refuse the job: {reason}")
