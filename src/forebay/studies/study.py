"""What a study is: what it runs, in pieces, and what it makes of its results."""

from __future__ import annotations

import hashlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from forebay.decide.policy import Kind
from forebay.decide.registry import find
from forebay.show.report import Report
from forebay.show.rows import Rows
from forebay.studies.pieces import Store
from forebay.work import Work

R = TypeVar("R")


class Stage(NamedTuple):
    """Pieces that can be done in any order: `work` makes an array of a key."""

    keys: Sequence[str]
    work: Work


class Study(ABC, Generic[R]):
    """One evaluation, with results of type R. The runner pickles it, so that workers can run its pieces."""

    name: str
    noun = "piece"
    """What a piece is, for people."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What the pieces depend on: two studies with the same settings can share them."""

    @abstractmethod
    def keys(self) -> list[str]:
        """Of all pieces; each becomes the name of a file."""

    @abstractmethod
    def run_piece(self, key: str) -> Rows:
        """Do one piece. The result depends on the study and the key alone."""

    @abstractmethod
    def collect(self, pieces: Store) -> R:
        """Make the results of all finished pieces."""

    @abstractmethod
    def report(self, results: R) -> Report:
        """Make the tables, figures and findings of the results."""

    def check(self) -> None:
        """Raise an error for whatever could be wrong with the study, before anything is written."""

    def stages(self, pieces: Store) -> Iterator[Stage]:
        """Yield the pieces in stages. When a stage is asked for, those before it are finished and in `pieces`."""
        del pieces
        yield Stage(self.keys(), self.run_piece)


def policy_digests(policies: Iterable[tuple[Kind, Sequence[str]]]) -> dict[str, str]:
    """Identify the state of the modules of these policies, some of which are not ours."""
    modules = sorted({find(kind, spec).module for kind, specs in policies for spec in specs})
    return {module: digest(inspect.getsource(sys.modules[module])) for module in modules}


def digest(text: str | bytes) -> str:
    """Identify a text by 16 hexadecimal digits."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def concatenate(pieces: Store, keys: Iterable[str], *kinds: np.dtype[np.void]) -> list[Rows]:
    """One table for each kind of rows, with the pieces of that kind in order; empty where there are none."""
    tables: dict[Any, list[Rows]] = {kind: [np.zeros(0, dtype=kind)] for kind in kinds}
    for key in keys:
        piece = pieces.get(key)
        tables[piece.dtype].append(piece)
    return [np.concatenate(rows) for rows in tables.values()]
