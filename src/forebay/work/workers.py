"""Who does the work: as a user names it, and what the loop over the pieces needs of it."""

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from forebay.model.errors import BadInput, UserError

MOST = 10_000
"""Workers in jobs of Slurm; a larger number is a typing error."""
MOST_PROCESSES = 256

Work = Callable[[Any], Any]
"""From a piece to its result: a function of a module or a partial of one, so that it can be sent to workers."""


@dataclass(frozen=True, slots=True)
class Died:
    """Instead of a result: more than one worker died while doing the piece."""

    because: str


class Gone(UserError):
    """No worker is left to do the remaining pieces."""


class Crew(Protocol):
    """Workers that do one kind of work."""

    def size(self) -> int:
        """How many pieces they can do at a time, now."""

    def give(self, number: int, piece: object) -> None:
        """Give them another piece, known by its number."""

    def wait(self) -> list[tuple[int, Any]]:
        """Wait for results, by number. Raises what a piece raised."""


class Cluster(Protocol):
    """Workers on other machines."""

    def crew(self, work: Work) -> AbstractContextManager[Crew]:
        """A crew for this work; at the end of the context the workers drop everything that belongs to it."""


@dataclass(frozen=True, slots=True)
class Dask:
    """The workers of the Dask scheduler at `address`, HOST:PORT."""

    address: str


@dataclass(frozen=True, slots=True)
class Slurm:
    """That many Dask workers in jobs of Slurm, which end with the command."""

    count: int


def parse_workers(text: str | int | None) -> int | Dask | Slurm:
    """The workers that `--workers` names; a number is of processes here, by default one per core.

    >>> parse_workers("4"), parse_workers("dask://login1:8786"), parse_workers("slurm:16")
    (4, Dask(address='login1:8786'), Slurm(count=16))
    """
    name = "" if text is None else str(text).strip()
    cores = os.cpu_count() or 1
    if not name:
        return cores
    if re.fullmatch(r"[0-9]+", name):
        return _count(name, MOST_PROCESSES, f"processes (the default is one per core, {cores} here)")
    if match := re.fullmatch(r"slurm:([0-9]+)", name):
        return Slurm(_count(match[1], MOST, "jobs of Slurm"))
    if match := re.fullmatch(r"dask://((?:[\w.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5}))/?", name):
        if 0 < int(match[2]) < 1 << 16:
            return Dask(match[1])
        raise BadInput("--workers", f"a port must be from 1 to 65535, not {match[2]}")
    raise BadInput("--workers", f"must be a number of processes, dask://HOST:PORT or slurm:N, not {name!r}")


def _count(digits: str, most: int, what: str) -> int:
    if len(digits) > 9 or not 1 <= int(digits) <= most:
        shown = digits if len(digits) <= 20 else f"a number of {len(digits)} digits"
        raise BadInput("--workers", f"{shown} is not possible; give 1 to {most:,} {what}")
    return int(digits)
