"""A study: the pieces of work that it runs, and the report of their results."""

import hashlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Generic, NamedTuple, TypeVar

from forebay.decide.policy import Kind
from forebay.decide.registry import find
from forebay.show.report import Report
from forebay.show.rows import Rows
from forebay.studies.finished_pieces import Store
from forebay.work import Work

R = TypeVar("R")


class Stage(NamedTuple):
    """Pieces that can run in any order; `work` turns a key into an array."""

    keys: Sequence[str]
    work: Work


class Study(ABC, Generic[R]):
    """One evaluation, with results of type R. The runner pickles it so that workers can run its pieces."""

    name: str
    noun = "piece"
    """The name of a piece in messages."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Return everything that the pieces depend on. Studies with the same settings can share pieces."""

    @abstractmethod
    def keys(self) -> list[str]:
        """Return the keys of all pieces. Each key becomes a file name."""

    @abstractmethod
    def run_piece(self, key: str) -> Rows:
        """Run one piece. The result depends on the study and the key alone."""

    @abstractmethod
    def collect(self, pieces: Store) -> R:
        """Combine the finished pieces into the results."""

    def report(self, results: R) -> Report:
        """Report the results with `make_report`, which each study defines in `findings.py` of its folder.

        That module is imported only now because it needs matplotlib.
        """
        findings = import_module(f"{type(self).__module__.rpartition('.')[0]}.findings")
        report: Report = findings.make_report(results)
        return report

    def fields(self, *names: str) -> dict[str, object]:
        """Return these fields of the study as settings."""
        values = ((name, getattr(self, name)) for name in names)
        return {name.replace("_", " "): list(v) if isinstance(v, list | tuple) else v for name, v in values}

    def check(self) -> None:
        """Raise an error if the study cannot run. The runner calls this before it writes anything."""

    def stages(self, pieces: Store) -> Iterator[Stage]:
        """Yield the pieces in stages. A stage starts when `pieces` holds every piece of the stages before it."""
        del pieces
        yield Stage(self.keys(), self.run_piece)


def policy_digests(policies: Iterable[tuple[Kind, Sequence[str]]]) -> dict[str, str]:
    """Return a digest of the source of each module that defines one of these policies."""
    modules = sorted({find(kind, spec).module for kind, specs in policies for spec in specs})
    return {module: digest(inspect.getsource(sys.modules[module])) for module in modules}


def digest(text: str | bytes) -> str:
    """Identify a text by 16 hexadecimal digits."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]
