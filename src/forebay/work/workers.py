"""The workers that a user names with `--workers`, and the interface that all kinds of workers have."""

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from forebay.model.errors import BadInput, UserError

MOST = 10_000
"""Slurm jobs; a larger number is probably a typing error."""
MOST_PROCESSES = 256

Work = Callable[[Any], Any]
"""Maps a piece to its result: a module's function or a partial of one, so that it can be pickled."""


@dataclass(frozen=True, slots=True)
class Died:
    """In place of a result: more than one worker died on the piece."""

    because: str


class Gone(UserError):
    """No worker is left to do the remaining pieces."""


class Crew(Protocol):
    """Workers for one work function."""

    def size(self) -> int:
        """The number of pieces that they can do at the same time, now."""

    def give(self, number: int, piece: object) -> None:
        """Give them another piece, with its number."""

    def wait(self) -> list[tuple[int, Any]]:
        """Wait for results, each with its piece's number. Raises the error of a piece."""


class Cluster(Protocol):
    """Workers on other machines."""

    def crew(self, work: Work) -> AbstractContextManager[Crew]:
        """A crew for this work; when the context ends, the workers drop its pieces."""


@dataclass(frozen=True, slots=True)
class Dask:
    """The workers of the Dask scheduler at `address`, HOST:PORT."""

    address: str


@dataclass(frozen=True, slots=True)
class Slurm:
    """`count` Dask workers in Slurm jobs, which end with the command."""

    count: int


def parse_workers(text: str | int | None) -> int | Dask | Slurm:
    """The workers that `--workers` names; a number means local processes, by default one per core.

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
        return Slurm(_count(match[1], MOST, "Slurm jobs"))
    if match := re.fullmatch(r"dask://((?:[\w.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5}))/?", name):
        if 0 < int(match[2]) < 1 << 16:
            return Dask(match[1])
        raise BadInput("--workers", f"a port must be from 1 to 65535, not {match[2]}")
    raise BadInput("--workers", f"must be a number of processes, dask://HOST:PORT or slurm:N, not {name!r}")


def _count(digits: str, most: int, what: str) -> int:
    if len(digits) > 9 or not 1 <= int(digits) <= most:
        shown = digits if len(digits) <= 20 else f"a number of {len(digits)} digits"
        raise BadInput("--workers", f"must be 1 to {most:,} {what}, not {shown}")
    return int(digits)
