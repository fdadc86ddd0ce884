"""Who does the work, as a user names it, and as values."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from forebay.model.errors import BadInput, UserError

MOST = 10_000
"""Workers; more is a slip of the finger."""
MOST_PROCESSES = 256
"""On one machine."""


class Gone(UserError):
    """Those who did the work went away: nobody is left to do the rest."""


@dataclass(frozen=True, slots=True)
class Processes:
    """So many processes on this machine."""

    count: int


@dataclass(frozen=True, slots=True)
class Dask:
    """The workers of the Dask scheduler at `address`, HOST:PORT."""

    address: str


@dataclass(frozen=True, slots=True)
class Slurm:
    """So many Dask workers in jobs of Slurm, started for this and ended with it."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """What the jobs ask Slurm for: `memory` bytes and `cores` of each job, with a worker on each core.

    `time` is as sbatch takes it, `directives` go into the job's script as they are, and `interface` is the network
    by which workers reach this machine. `wait` is how long to wait for the first worker, in seconds; what the workers
    print goes to files in `logs`, or nowhere.
    """

    partition: str | None = None
    account: str | None = None
    time: str = "01:00:00"
    memory: int = 2 * 10**9
    cores: int = 1
    interface: str | None = None
    directives: tuple[str, ...] = ()
    wait: float = 600
    logs: str | None = None


def workers_of(text: str | int | None) -> Processes | Dask | Slurm:
    """As `--workers` says it.

    >>> workers_of("4"), workers_of("dask://login1:8786"), workers_of("slurm:16")
    (Processes(count=4), Dask(address='login1:8786'), Slurm(count=16))
    """
    told = "" if text is None else str(text).strip()
    cores = os.cpu_count() or 1
    if not told:
        return Processes(cores)
    if re.fullmatch(r"[0-9]+", told):
        without = f"without --workers there is one for each core, {cores} here"
        return Processes(_count(told, MOST_PROCESSES, f"processes; {without}"))
    if found := re.fullmatch(r"slurm:([0-9]+)", told):
        return Slurm(_count(found[1], MOST, "jobs of Slurm"))
    if found := re.fullmatch(r"dask://((?:[\w.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5}))/?", told):
        if 0 < int(found[2]) < 1 << 16:
            return Dask(found[1])
        raise BadInput("--workers", f"a port is a number from 1 to 65535, not {found[2]}")
    raise BadInput("--workers", f"must be a number of processes, dask://HOST:PORT or slurm:N, not {told!r}")


def _count(digits: str, most: int, what: str) -> int:
    if len(digits) > 9 or not 1 <= int(digits) <= most:
        shown = digits if len(digits) <= 20 else f"a number of {len(digits)} digits"
        raise BadInput("--workers", f"{shown} is not possible; give 1 to {most:,} {what}")
    return int(digits)
